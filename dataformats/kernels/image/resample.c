#include "image/resample.h"

#include <string.h>

#include "image/resample_rows.h"

#define MAX_SIZE 65536

/* One axis: its outputs, with `most` pairs of weights each. */
typedef struct {
    span *spans;
    weight_pair *weights;
    int64_t most;
} axis;

static int64_t aligned(int64_t n) { return (n + 15) / 16 * 16; }

static double support_of(float from, float to, int64_t size) {
    const double scale = (double)(to - from) / (double)size;
    return scale < 1.0 ? 1.0 : scale;
}

/* Return how many pairs of weights an output may have, and one more: its inputs are within the support on both sides. */
static int64_t most_pairs(float from, float to, int64_t size) { return (int64_t)support_of(from, to, size) + 3; }

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
    memset(weights, 0, (size_t)((n + 1) / 2 + 1) * sizeof *weights);
    for (int64_t i = 0; i < n; i++) {
        const double weight = sum != 0.0 ? room[i] / sum : room[i];
        const int fixed = (int)(0.5 + weight * (1 << RESAMPLE_BITS));
        weights[i / 2].high[i % 2] = (int16_t)(fixed >> RESAMPLE_LOW_BITS);
        weights[i / 2].low[i % 2] = (int16_t)(fixed & ((1 << RESAMPLE_LOW_BITS) - 1));
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

/* Return how many rows a ring has for sums of so many pairs of rows, and some rows ahead. */
static int64_t ring_rows(int64_t most_pairs_of_rows) {
    int64_t n = 2;
    while (n < 2 * most_pairs_of_rows + RESAMPLE_ROWS) {
        n *= 2;
    }
    return n;
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

static int64_t stride_of(const resample_job *job) { return aligned(3 * job->part[2] + RESAMPLE_PAD); }

int64_t resample_scratch(const resample_job *job) {
    axis axes[2];
    double *room;
    if (!is_valid(job)) {
        return -1;
    }
    const int64_t n_axes = lay_axes(job, axes, &room, NULL);
    return n_axes + (ring_rows(axes[1].most) + 1) * stride_of(job);
}

/* Return the end of an output's inputs, of which there are `n`: the second of the last pair may not exist. */
static int64_t end_of(const span *of, int64_t n) {
    const int64_t end = of->first + 2 * (int64_t)of->n_pairs;
    return end < n ? end : n;
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

void resample(const resample_job *job, const resample_variant *variant, void *scratch, uint8_t *out) {
    axis axes[2];
    double *room;
    uint8_t *rows = (uint8_t *)scratch + lay_axes(job, axes, &room, scratch);
    const int64_t n_inputs[2] = {job->width, job->height};
    for (int i = 0; i < 2; i++) {
        fill_axis(&axes[i], job->box[i], job->box[i + 2], job->size[i], job->part[i], job->part[i + 2], n_inputs[i],
                  room);
    }
    const axis *down = &axes[1];
    const int64_t row_bytes = job->width * 3;
    const row_plan across = {axes[0].spans,  axes[0].weights, axes[0].most,
                             job->part[2],   job->flip,       row_bytes,
                             job->image + job->height * row_bytes};
    const row_ring last = {rows, ring_rows(down->most), stride_of(job)};
    uint8_t *line = rows + last.n_rows * last.stride;
    memset(rows, 0, (size_t)(last.n_rows * last.stride)); /* the second row of a pair may have weight 0 */
    int64_t next = down->spans[0].first;
    const int64_t stop = end_of(&down->spans[job->part[3] - 1], job->height);
    for (int64_t y = 0; y < job->part[3]; y++) {
        const span *of = &down->spans[y];
        next = next < of->first ? of->first : next;
        const int64_t n_lacking = end_of(of, stop) - next;
        if (n_lacking > 0) {
            const int64_t n = (n_lacking + RESAMPLE_ROWS - 1) / RESAMPLE_ROWS * RESAMPLE_ROWS;
            const int64_t n_rows = n < stop - next ? n : stop - next;
            variant->along(&across, job->image + next * row_bytes, next, n_rows, &last);
            next += n_rows;
        }
        variant->over(&last, of, down->weights + y * down->most, 3 * job->part[2], line);
        place_row(job, line, y, out);
    }
}
