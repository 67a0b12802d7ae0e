#include "image/resample.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MAX_SIZE 65536
#define BITS 22          /* of the fraction of a weight, as in Pillow */
#define LOW_BITS 11      /* a weight is high * 2^11 + low, so that products of pairs fit pmaddwd without loss */
#define PAD 16           /* bytes that may be read or written behind a row of scratch memory */

/* The weights of two neighbors. */
typedef struct {
    int16_t high[2], low[2];
} weight_pair;

/* One axis: each output is the weighted sum of `n_pairs` pairs of inputs, from `first` on. */
typedef struct {
    int32_t first, n_pairs;
} span;

typedef struct {
    span *spans;
    weight_pair *weights; /* `most` for each output */
    int64_t most;
} axis;

static int64_t aligned(int64_t n) { return (n + 15) / 16 * 16; }

static double support_of(float from, float to, int64_t size) {
    const double scale = (double)(to - from) / (double)size;
    return scale < 1.0 ? 1.0 : scale;
}

/* Return how many pairs of weights an output may have: it has inputs within the support on both sides. */
static int64_t most_pairs(float from, float to, int64_t size) { return (int64_t)support_of(from, to, size) + 2; }

static double triangle(double x) {
    x = x < 0.0 ? -x : x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Fill the weights of one output; `room` has space for all of them as doubles. */
static void weigh(double center, double support, int64_t n_inputs, double *room, span *place, weight_pair *weights) {
    int64_t first = (int64_t)(center - support + 0.5), stop = (int64_t)(center + support + 0.5);
    first = first < 0 ? 0 : first;
    stop = stop > n_inputs ? n_inputs : stop;
    const int64_t n = stop - first;
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        room[i] = triangle(((double)(i + first) - center + 0.5) * (1.0 / support));
        sum += room[i];
    }
    *place = (span){(int32_t)first, (int32_t)((n + 1) / 2)};
    memset(weights, 0, (size_t)((n + 1) / 2) * sizeof *weights);
    for (int64_t i = 0; i < n; i++) {
        const double weight = sum != 0.0 ? room[i] / sum : room[i];
        const int fixed = (int)(0.5 + weight * (1 << BITS));
        weights[i / 2].high[i % 2] = (int16_t)(fixed >> LOW_BITS);
        weights[i / 2].low[i % 2] = (int16_t)(fixed & ((1 << LOW_BITS) - 1));
    }
}

static void fill_axis(axis *of, float from, float to, int64_t size, int64_t first, int64_t n, int64_t n_inputs,
                      double *room) {
    const double scale = (double)(to - from) / (double)size, support = support_of(from, to, size);
    for (int64_t i = 0; i < n; i++) {
        const double center = from + ((double)(first + i) + 0.5) * scale;
        weigh(center, support, n_inputs, room, &of->spans[i], of->weights + i * of->most);
    }
}

static inline uint8_t rounded(int32_t high, int32_t low) {
    const int32_t value = (high * (1 << LOW_BITS) + low + (1 << (BITS - 1))) >> BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

#if defined(__SSE2__)
static inline __m128i broadcast(const int16_t *pair) {
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return _mm_set1_epi32(both);
}

/* The sums, rounded, as int32. */
static inline __m128i rounded_sums(__m128i high, __m128i low) {
    const __m128i half = _mm_set1_epi32(1 << (BITS - 1));
    return _mm_srai_epi32(_mm_add_epi32(_mm_add_epi32(_mm_slli_epi32(high, LOW_BITS), low), half), BITS);
}
#endif

/* Return the 6 bytes of two neighbors, and 2 more; zeros where the image has ended. */
static inline uint64_t two_pixels(const uint8_t *at, const uint8_t *end) {
    uint64_t bytes = 0;
    memcpy(&bytes, at, end - at >= 8 ? 8 : (size_t)(end - at));
    return bytes;
}

/* One pixel of a row, from `at` on; the image ends at `end`. */
static inline void pixel(const uint8_t *at, const uint8_t *end, const weight_pair *weights, int32_t n_pairs,
                         uint8_t *out) {
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    __m128i high = zero, low = zero;
    for (int32_t i = 0; i < n_pairs; i++, at += 6) {
        const uint64_t both = two_pixels(at, end);
        const __m128i one = _mm_loadl_epi64((const __m128i *)&both);
        const __m128i pairs = _mm_unpacklo_epi8(_mm_unpacklo_epi8(one, _mm_srli_epi64(one, 24)), zero);
        high = _mm_add_epi32(high, _mm_madd_epi16(pairs, broadcast(weights[i].high)));
        low = _mm_add_epi32(low, _mm_madd_epi16(pairs, broadcast(weights[i].low)));
    }
    __m128i sums = rounded_sums(high, low);
    sums = _mm_packus_epi16(_mm_packs_epi32(sums, zero), zero);
    const int32_t rgb = _mm_cvtsi128_si32(sums);
    memcpy(out, &rgb, 4); /* one byte too many: the next pixel's, or PAD */
#else
    int32_t high[3] = {0}, low[3] = {0};
    for (int32_t i = 0; i < n_pairs; i++, at += 6) {
        uint8_t both[8];
        const uint64_t bytes = two_pixels(at, end);
        memcpy(both, &bytes, 8);
        for (int c = 0; c < 3; c++) {
            high[c] += both[c] * weights[i].high[0] + both[c + 3] * weights[i].high[1];
            low[c] += both[c] * weights[i].low[0] + both[c + 3] * weights[i].low[1];
        }
    }
    for (int c = 0; c < 3; c++) {
        out[c] = rounded(high[c], low[c]);
    }
#endif
}

/* The last rows, of 3 * width bytes each: row y of the image is at y % n_rows; n_rows is a power of 2. */
typedef struct {
    uint8_t *rows;
    int64_t n_rows, stride;
} ring;

static inline uint8_t *row_of(const ring *of, int64_t y) { return of->rows + (y & (of->n_rows - 1)) * of->stride; }

/* Return how many rows a ring has for sums of so many pairs of rows. */
static int64_t ring_rows(int64_t most_pairs_of_rows) {
    int64_t n = 2;
    while (n < 2 * most_pairs_of_rows) {
        n *= 2;
    }
    return n;
}

/* One row of n bytes from rows of a ring, from `first` on; writes up to PAD bytes more. */
static void column_sums(const ring *of, int64_t first, int64_t n, const weight_pair *weights, int32_t n_pairs,
                        uint8_t *out) {
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    for (int64_t x = 0; x < n; x += 8) {
        __m128i high[2] = {zero, zero}, low[2] = {zero, zero};
        for (int32_t i = 0; i < n_pairs; i++) {
            const __m128i both = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(row_of(of, first + 2 * i) + x)),
                                                   _mm_loadl_epi64((const __m128i *)(row_of(of, first + 2 * i + 1) + x)));
            const __m128i pairs[2] = {_mm_unpacklo_epi8(both, zero), _mm_unpackhi_epi8(both, zero)};
            const __m128i w_high = broadcast(weights[i].high), w_low = broadcast(weights[i].low);
            for (int half = 0; half < 2; half++) {
                high[half] = _mm_add_epi32(high[half], _mm_madd_epi16(pairs[half], w_high));
                low[half] = _mm_add_epi32(low[half], _mm_madd_epi16(pairs[half], w_low));
            }
        }
        const __m128i sums = _mm_packs_epi32(rounded_sums(high[0], low[0]), rounded_sums(high[1], low[1]));
        _mm_storel_epi64((__m128i *)(out + x), _mm_packus_epi16(sums, sums));
    }
#else
    for (int64_t x = 0; x < n; x++) {
        int32_t high = 0, low = 0;
        for (int32_t i = 0; i < n_pairs; i++) {
            const uint8_t one = row_of(of, first + 2 * i)[x], other = row_of(of, first + 2 * i + 1)[x];
            high += one * weights[i].high[0] + other * weights[i].high[1];
            low += one * weights[i].low[0] + other * weights[i].low[1];
        }
        out[x] = rounded(high, low);
    }
#endif
}

static int is_range(float from, float to, int64_t most) { return from >= 0 && from < to && to <= (float)most; }

static int is_valid(const resample_job *job) {
    const int64_t sizes[] = {job->height, job->width, job->size[0], job->size[1], job->part[2], job->part[3]};
    for (int i = 0; i < 6; i++) {
        if (sizes[i] < 1 || sizes[i] > MAX_SIZE) {
            return 0;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (job->part[i] < 0 || job->part[i] > job->size[i] - job->part[i + 2]) {
            return 0;
        }
    }
    return is_range(job->box[0], job->box[2], job->width) && is_range(job->box[1], job->box[3], job->height);
}

/* The memory of both axes, from `at` on; `at` is NULL to measure it. Return its end. */
static int64_t lay_axes(const resample_job *job, axis axes[2], double **room, uint8_t *at) {
    int64_t used = 0, most = 0;
    for (int i = 0; i < 2; i++) {
        axes[i].most = most_pairs(job->box[i], job->box[i + 2], job->size[i]);
        most = axes[i].most > most ? axes[i].most : most;
        axes[i].spans = at == NULL ? NULL : (span *)(at + used);
        used += aligned(job->part[i + 2] * (int64_t)sizeof(span));
        axes[i].weights = at == NULL ? NULL : (weight_pair *)(at + used);
        used += aligned(job->part[i + 2] * axes[i].most * (int64_t)sizeof(weight_pair));
    }
    *room = at == NULL ? NULL : (double *)(at + used);
    return used + aligned(2 * most * (int64_t)sizeof(double));
}

static int64_t stride_of(const resample_job *job) { return aligned(3 * job->part[2] + PAD); }

int64_t resample_scratch(const resample_job *job) {
    axis axes[2];
    double *room;
    if (!is_valid(job)) {
        return -1;
    }
    const int64_t n_axes = lay_axes(job, axes, &room, NULL);
    return n_axes + (ring_rows(axes[1].most) + 1) * stride_of(job);
}

/* Put a row of pixels in its place. */
static void place_row(const resample_job *job, const uint8_t *row, int64_t y, uint8_t *out) {
    const int64_t width = job->part[2];
    if (!job->planes) {
        memcpy(out + y * width * 3, row, (size_t)(width * 3));
        return;
    }
    for (int c = 0; c < 3; c++) {
        uint8_t *plane = out + (c * job->part[3] + y) * width;
        for (int64_t x = 0; x < width; x++) {
            plane[x] = row[3 * x + c];
        }
    }
}

/* Resample a row of the image along its length. */
static void narrow_row(const resample_job *job, const axis *across, int64_t y, uint8_t *out) {
    const uint8_t *row = job->image + y * job->width * 3, *end = job->image + job->height * job->width * 3;
    const int64_t width = job->part[2];
    for (int64_t x = 0; x < width; x++) {
        /* In the order of the places, because each writes a byte of the next one. */
        const int64_t from = job->flip ? width - 1 - x : x;
        pixel(row + 3 * across->spans[from].first, end, across->weights + from * across->most,
              across->spans[from].n_pairs, out + 3 * x);
    }
}

void resample(const resample_job *job, void *scratch, uint8_t *out) {
    axis axes[2];
    double *room;
    uint8_t *rows = (uint8_t *)scratch + lay_axes(job, axes, &room, scratch);
    const int64_t n_inputs[2] = {job->width, job->height};
    for (int i = 0; i < 2; i++) {
        fill_axis(&axes[i], job->box[i], job->box[i + 2], job->size[i], job->part[i], job->part[i + 2], n_inputs[i],
                  room);
    }
    const axis *down = &axes[1];
    const ring last = {rows, ring_rows(down->most), stride_of(job)};
    uint8_t *line = rows + last.n_rows * last.stride;
    memset(rows, 0, (size_t)(last.n_rows * last.stride)); /* the second row of a pair may have weight 0 */
    int64_t next = down->spans[0].first;
    for (int64_t y = 0; y < job->part[3]; y++) {
        const span *of = &down->spans[y];
        const int64_t stop = of->first + 2 * of->n_pairs;
        for (next = next < of->first ? of->first : next; next < stop && next < job->height; next++) {
            narrow_row(job, &axes[0], next, row_of(&last, next));
        }
        column_sums(&last, of->first, 3 * job->part[2], down->weights + y * down->most, of->n_pairs, line);
        place_row(job, line, y, out);
    }
}
