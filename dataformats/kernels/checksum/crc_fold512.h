/* Folding 512 bits at once: crc_fold.h with registers of AVX-512, four blocks side by side in each. */
#ifndef DATAFORMATS_CRC_FOLD512_H
#define DATAFORMATS_CRC_FOLD512_H

#include "checksum/crc_fold.h"

#ifdef DATAFORMATS_AVX512

#define CRC_TARGET512 __attribute__((target("avx512f,avx512bw,vpclmulqdq,sse4.1,pclmul")))
#define CRC_FOLD512 static inline __attribute__((always_inline, target("avx512f,avx512bw,vpclmulqdq,sse4.1,pclmul")))
#define CRC_XOR3 0x96 /* the truth table of a ^ b ^ c */

CRC_FOLD512 __m512i crc_load512(const uint8_t *data) { return _mm512_loadu_si512(data); }

/* Return the first 64 bytes combined with the CRC `value` of the bytes before. */
CRC_FOLD512 __m512i crc_first512(uint32_t value, __m512i data) {
    /* Not _mm512_zextsi128_si512, which GCC has since version 10. */
    return _mm512_xor_si512(data, _mm512_maskz_set1_epi32(1, (int)~value));
}

/* Fold each of four blocks: crc_fold. */
CRC_FOLD512 __m512i crc_fold512(__m512i blocks, __m512i next, crc_factor factor) {
    const __m512i factors = _mm512_broadcast_i32x4(crc_pair(factor));
    const __m512i low = _mm512_clmulepi64_epi128(blocks, factors, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(blocks, factors, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, CRC_XOR3);
}

/* Return the block that four neighboring blocks fold to. */
CRC_FOLD512 __m128i crc_joined512(__m512i blocks, const crc_factors *factors) {
    const __m128i a = crc_fold(_mm512_castsi512_si128(blocks), _mm512_extracti32x4_epi32(blocks, 3), factors->over_384);
    const __m128i b = crc_fold(_mm512_extracti32x4_epi32(blocks, 1), a, factors->over_256);
    return crc_fold(_mm512_extracti32x4_epi32(blocks, 2), b, factors->over_128);
}

/* Return the CRC of four blocks and the `n_bytes` after them, with at least 16 bytes before `data`. */
CRC_FOLD512 uint32_t crc_finished512(__m512i blocks, const uint8_t *data, size_t n_bytes, const crc_factors *factors) {
    return crc_finished(crc_joined512(blocks, factors), data, n_bytes, factors);
}

#endif
#endif
