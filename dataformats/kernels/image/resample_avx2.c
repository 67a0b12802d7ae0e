/* The loops of resampling with AVX2: four pixels of a row at once, sixteen bytes of each row. */
#include "image/resample_rows.h"

#ifdef DATAFORMATS_X86

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

/* The sums, rounded, as int32. */
AVX2 static inline __m256i sums_of(__m256i high, __m256i low) {
    return _mm256_add_epi32(_mm256_slli_epi32(high, RESAMPLE_LOW_BITS), low);
}

/* Return 16 bytes; zeros where the image has ended. */
AVX2 static inline __m128i load(const uint8_t *at, const uint8_t *end) {
    if (end - at >= 16) {
        return _mm_loadu_si128((const __m128i *)at);
    }
    uint8_t bytes[16] = {0};
    if (at < end) {
        memcpy(bytes, at, (size_t)(end - at));
    }
    return _mm_loadu_si128((const __m128i *)bytes);
}

AVX2 void resample_along_avx2(const row_plan *plan, const uint8_t *row, const uint8_t *end, uint8_t *out) {
    /* The bytes of pixels 0 and 1, and of 2 and 3, as pairs of 16 bits for each channel. */
    const __m256i pairs = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /**/
                                           6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m256i to_high = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2), to_low = _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3);
    const __m128i half = _mm_set1_epi32(1 << (RESAMPLE_BITS - 1));
    for (int64_t x = 0; x < plan->n; x++, out += 3) {
        const int64_t from = plan->flip ? plan->n - 1 - x : x;
        const span *of = &plan->spans[from];
        const weight_pair *weights = plan->weights + from * plan->most;
        const uint8_t *at = row + 3 * of->first;
        __m256i high = _mm256_setzero_si256(), low = high;
        for (int32_t i = 0; i < of->n_pairs; i += 2, at += 12) {
            const __m256i four = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load(at, end)), pairs);
            const __m256i both = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)&weights[i]));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(four, _mm256_permutevar8x32_epi32(both, to_high)));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(four, _mm256_permutevar8x32_epi32(both, to_low)));
        }
        const __m256i sums = sums_of(high, low);
        __m128i rgb = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        rgb = _mm_srai_epi32(_mm_add_epi32(rgb, half), RESAMPLE_BITS);
        rgb = _mm_packus_epi16(_mm_packs_epi32(rgb, rgb), rgb);
        const int32_t bytes = _mm_cvtsi128_si32(rgb);
        memcpy(out, &bytes, 4); /* one byte too many: the next pixel's, or padding */
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
