#include "checksum/crc_copy.h"
#include "checksum/crc_fold512.h"

#ifdef DATAFORMATS_AVX512

/* Copy 64 bytes, and return them. */
CRC_FOLD512 __m512i taken(uint8_t *to, const uint8_t *from) {
    const __m512i blocks = crc_load512(from);
    _mm512_storeu_si512(to, blocks);
    return blocks;
}

CRC_FOLD512 __m512i take_64(__m512i blocks, uint8_t *to, const uint8_t *from, const crc_factors *factors) {
    return crc_fold512(blocks, taken(to, from), factors->over_512);
}

CRC_FOLD512 __m512i take_256(__m512i blocks, uint8_t *to, const uint8_t *from, const crc_factors *factors) {
    blocks = take_64(blocks, to, from, factors);
    blocks = take_64(blocks, to + 64, from + 64, factors);
    blocks = take_64(blocks, to + 128, from + 128, factors);
    return take_64(blocks, to + 192, from + 192, factors);
}

/* Copy the rest if it is less than 64 bytes, and update the copy. */
CRC_FOLD512 void finish(crc_copy *copy, size_t n_bytes, __m512i blocks, const crc_factors *factors) {
    uint8_t *to = copy->to + n_bytes;
    const uint8_t *from = copy->from + n_bytes;
    const size_t left = copy->n_bytes - n_bytes, rest = left < 64 ? left : 0;
    const __mmask64 there = ~(__mmask64)0 >> 1 >> (63 - rest);
    _mm512_mask_storeu_epi8(to, there, _mm512_maskz_loadu_epi8(there, from));
    *copy = (crc_copy){to + rest, from + rest, left - rest, crc_finished512(blocks, to, rest, factors)};
}

/* In turns of 256 bytes: with 64, copies from the cache took a fifth longer. */
CRC_FOLD512 void four(crc_copy *const sides[CRC_SIDES], size_t n_bytes, const crc_factors *factors) {
    uint8_t *a = sides[0]->to, *b = sides[1]->to, *c = sides[2]->to, *d = sides[3]->to;
    const uint8_t *from_a = sides[0]->from, *from_b = sides[1]->from;
    const uint8_t *from_c = sides[2]->from, *from_d = sides[3]->from;
    __m512i sum_a = crc_first512(sides[0]->crc, taken(a, from_a));
    __m512i sum_b = crc_first512(sides[1]->crc, taken(b, from_b));
    __m512i sum_c = crc_first512(sides[2]->crc, taken(c, from_c));
    __m512i sum_d = crc_first512(sides[3]->crc, taken(d, from_d));
    size_t at = 64;
    for (; at + 256 <= n_bytes; at += 256) {
        sum_a = take_256(sum_a, a + at, from_a + at, factors);
        sum_b = take_256(sum_b, b + at, from_b + at, factors);
        sum_c = take_256(sum_c, c + at, from_c + at, factors);
        sum_d = take_256(sum_d, d + at, from_d + at, factors);
    }
    for (; at < n_bytes; at += 64) {
        sum_a = take_64(sum_a, a + at, from_a + at, factors);
        sum_b = take_64(sum_b, b + at, from_b + at, factors);
        sum_c = take_64(sum_c, c + at, from_c + at, factors);
        sum_d = take_64(sum_d, d + at, from_d + at, factors);
    }
    finish(sides[0], n_bytes, sum_a, factors);
    finish(sides[1], n_bytes, sum_b, factors);
    finish(sides[2], n_bytes, sum_c, factors);
    finish(sides[3], n_bytes, sum_d, factors);
}

CRC_TARGET512 void crc32_copy_vpclmul(crc_copy *const sides[CRC_SIDES], size_t n_bytes) {
    four(sides, n_bytes, &crc32_factors);
}

CRC_TARGET512 void crc32c_copy_vpclmul(crc_copy *const sides[CRC_SIDES], size_t n_bytes) {
    four(sides, n_bytes, &crc32c_factors);
}

#else
typedef int dataformats_no_crc_copy_vpclmul; /* an empty file is not C */
#endif
