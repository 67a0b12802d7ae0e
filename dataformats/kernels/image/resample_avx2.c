/* The loops of resampling with AVX2: four pixels of four rows at once, sixteen bytes of each row. */
#include "image/resample_rows.h"

#ifdef DATAFORMATS_X86

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

/* The sums, rounded, as int32. */
AVX2 static inline __m256i sums_of(__m256i high, __m256i low) {
    return _mm256_add_epi32(_mm256_slli_epi32(high, RESAMPLE_LOW_BITS), low);
}

/* Return 16 bytes of one row, and of another. */
AVX2 static inline __m256i load(const uint8_t *row, const uint8_t *other) {
    const __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row));
    return _mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)other), 1);
}

/* Resample rows that lie RESAMPLE_PAD bytes before the end of the image. */
AVX2 static void along_rows(const row_plan *plan, const uint8_t *const rows[RESAMPLE_ROWS],
                            uint8_t *const out[RESAMPLE_ROWS]) {
    /* The bytes of pixels 0 and 1, and of 2 and 3, as pairs of 16 bits for each channel. */
    const __m256i to_first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i to_second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const __m256i half = _mm256_set1_epi32(1 << (RESAMPLE_BITS - 1));
    for (int64_t x = 0; x < plan->n; x++) {
        const int64_t from = plan->flip ? plan->n - 1 - x : x;
        const span *of = &plan->spans[from];
        const weight_pair *weights = plan->weights + from * plan->most;
        int64_t at = 3 * (int64_t)of->first;
        __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, low[2] = {high[0], high[0]}, sums[2];
        for (int32_t i = 0; i < of->n_pairs; i += 2, at += 12) {
            const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)&weights[i]));
            for (int j = 0; j < 2; j++) {
                const __m256i four = load(rows[2 * j] + at, rows[2 * j + 1] + at);
                const __m256i first = _mm256_shuffle_epi8(four, to_first);
                const __m256i second = _mm256_shuffle_epi8(four, to_second);
                high[j] = _mm256_add_epi32(high[j], _mm256_madd_epi16(first, _mm256_shuffle_epi32(both, 0x00)));
                low[j] = _mm256_add_epi32(low[j], _mm256_madd_epi16(first, _mm256_shuffle_epi32(both, 0x55)));
                high[j] = _mm256_add_epi32(high[j], _mm256_madd_epi16(second, _mm256_shuffle_epi32(both, 0xaa)));
                low[j] = _mm256_add_epi32(low[j], _mm256_madd_epi16(second, _mm256_shuffle_epi32(both, 0xff)));
            }
        }
        for (int j = 0; j < 2; j++) {
            sums[j] = _mm256_srai_epi32(_mm256_add_epi32(sums_of(high[j], low[j]), half), RESAMPLE_BITS);
        }
        const __m256i words = _mm256_packs_epi32(sums[0], sums[1]), bytes = _mm256_packus_epi16(words, words);
        const int64_t even = _mm_cvtsi128_si64(_mm256_castsi256_si128(bytes)); /* rows 0 and 2 */
        const int64_t odd = _mm_cvtsi128_si64(_mm256_extracti128_si256(bytes, 1));
        const int64_t pixels[RESAMPLE_ROWS] = {even, odd, even >> 32, odd >> 32};
        for (int i = 0; i < RESAMPLE_ROWS; i++) {
            const int32_t pixel = (int32_t)pixels[i];
            memcpy(out[i] + 3 * x, &pixel, 4); /* one byte too many: the next pixel's, or padding */
        }
    }
}

AVX2 void resample_along_avx2(const row_plan *plan, const uint8_t *row, int64_t y, int64_t n_rows,
                              const row_ring *out) {
    int64_t n;
    for (; n_rows > 0; n_rows -= n, y += n, row += n * plan->row_bytes) {
        n = n_rows < RESAMPLE_ROWS ? n_rows : RESAMPLE_ROWS;
        while (n > 0 && plan->end - row < n * plan->row_bytes + RESAMPLE_PAD) {
            n--;
        }
        if (n == 0) {
            resample_portable.along(plan, row, y, n = 1, out);
            continue;
        }
        const uint8_t *rows[RESAMPLE_ROWS];
        uint8_t *places[RESAMPLE_ROWS];
        for (int64_t i = 0; i < RESAMPLE_ROWS; i++) { /* the last one several times if there are less */
            const int64_t each = i < n ? i : n - 1;
            rows[i] = row + each * plan->row_bytes;
            places[i] = ring_row(out, y + each);
        }
        along_rows(plan, rows, places);
    }
}

AVX2 void resample_over_avx2(const row_ring *ring, const span *rows, const weight_pair *weights, int64_t n,
                             uint8_t *out) {
    const __m256i half = _mm256_set1_epi32(1 << (RESAMPLE_BITS - 1));
    for (int64_t x = 0; x < n; x += 16) {
        __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, low[2] = {high[0], high[0]};
        for (int32_t i = 0; i < rows->n_pairs; i++) {
            const __m128i one = _mm_loadu_si128((const __m128i *)(ring_row(ring, rows->first + 2 * i) + x));
            const __m128i two = _mm_loadu_si128((const __m128i *)(ring_row(ring, rows->first + 2 * i + 1) + x));
            int32_t pair[2];
            memcpy(pair, &weights[i], sizeof pair);
            const __m256i w_high = _mm256_set1_epi32(pair[0]), w_low = _mm256_set1_epi32(pair[1]);
            const __m256i pairs[2] = {_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(one, two)),
                                      _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(one, two))};
            for (int part = 0; part < 2; part++) {
                high[part] = _mm256_add_epi32(high[part], _mm256_madd_epi16(pairs[part], w_high));
                low[part] = _mm256_add_epi32(low[part], _mm256_madd_epi16(pairs[part], w_low));
            }
        }
        __m256i sums[2];
        for (int part = 0; part < 2; part++) {
            sums[part] = _mm256_srai_epi32(_mm256_add_epi32(sums_of(high[part], low[part]), half), RESAMPLE_BITS);
        }
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(sums[0], sums[1]), 0xd8);
        const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(out + x), bytes);
    }
}

#endif
