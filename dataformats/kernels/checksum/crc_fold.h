/* Folding by carry-less multiplication on x86-64, for both polynomials: shared by the variants.
 *
 * A block of 128 bits, D bits before another, has the same remainder as its lower half times x^(D + 32) plus its upper
 * half times x^(D - 32), both mod P. The factors are reflected and shifted left by one, as
 * the product of two reflected numbers is. tests/kernels/test_crc_factors.py derives each of them.
 * Source: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction".
 */
#ifndef DATAFORMATS_CRC_FOLD_H
#define DATAFORMATS_CRC_FOLD_H

#include "checksum/cpu.h"

#ifdef DATAFORMATS_X86

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Always inline, so that the instructions match the calling kernel: with AVX, three operands. */
#define CRC_FOLD static inline __attribute__((always_inline, target("sse4.1,pclmul")))

typedef struct {
    uint64_t low, high; /* x^(D + 32) and x^(D - 32) */
} crc_factor;

typedef struct {
    crc_factor over_2048, over_1536, over_1024, over_512, over_384, over_256, over_128;
    uint64_t over_64; /* x^64 alone: for 32 bits */
    uint64_t polynomial;
    uint64_t quotient; /* of x^64 by P: the multiplier of a Barrett reduction, instead of a division */
} crc_factors;

static const crc_factors crc32_factors = {
    .over_2048 = {0x11542778a, 0x1322d1430},
    .over_1536 = {0x1821d8bc0, 0x12e958ac4},
    .over_1024 = {0x1e88ef372, 0x14a7fe880},
    .over_512 = {0x154442bd4, 0x1c6e41596},
    .over_384 = {0x03db1ecdc, 0x174359406},
    .over_256 = {0x0f1da05aa, 0x15a546366},
    .over_128 = {0x1751997d0, 0x0ccaa009e},
    .over_64 = 0x163cd6124,
    .polynomial = 0x1db710641,
    .quotient = 0x1f7011641,
};

static const crc_factors crc32c_factors = {
    .over_2048 = {0x0dcb17aa4, 0x0b9e02b86},
    .over_1536 = {0x0a87ab8a8, 0x0ab7aff2a},
    .over_1024 = {0x06992cea2, 0x00d3b6092},
    .over_512 = {0x0740eef02, 0x09e4addf8},
    .over_384 = {0x01c291d04, 0x1d82c63da},
    .over_256 = {0x1384aa63a, 0x0ba4fc28e},
    .over_128 = {0x0f20c0dfe, 0x14cd00bd6},
    .over_64 = 0x0dd45aab8,
    .polynomial = 0x105ec76f1,
    .quotient = 0x0dea713f1,
};

CRC_FOLD __m128i crc_load128(const uint8_t *data) { return _mm_loadu_si128((const __m128i *)data); }

CRC_FOLD __m128i crc_pair(crc_factor factor) {
    return _mm_set_epi64x((long long)factor.high, (long long)factor.low);
}

/* Return a block that leaves the same remainder as `block`, the bits between, and `next` after them. */
CRC_FOLD __m128i crc_fold(__m128i block, __m128i next, crc_factor factor) {
    const __m128i low = _mm_clmulepi64_si128(block, crc_pair(factor), 0x00);
    const __m128i high = _mm_clmulepi64_si128(block, crc_pair(factor), 0x11);
    return _mm_xor_si128(next, _mm_xor_si128(low, high));
}

/* Return a block equivalent to `block` and the `n_bytes` in [1, 16) at `data`; reads the 16 bytes that end with them.
 * Without this, the last bytes would go through tables, byte by byte. */
CRC_FOLD __m128i crc_fold_rest(__m128i block, const uint8_t *data, size_t n_bytes, const crc_factors *factors) {
    static const uint8_t places[48] = {
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
        0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    };
    const __m128i ahead = crc_load128(places + n_bytes), behind = crc_load128(places + 16 + n_bytes);
    /* A place of 0x80 takes nothing of `block`: there the last bytes go. */
    const __m128i last = _mm_and_si128(crc_load128(data + n_bytes - 16), _mm_cmplt_epi8(behind, _mm_setzero_si128()));
    return crc_fold(_mm_shuffle_epi8(block, ahead), _mm_or_si128(_mm_shuffle_epi8(block, behind), last),
                    factors->over_128);
}

/* Return the remainder of a block, by two more folds and a Barrett reduction: tables would be loads from memory. */
CRC_FOLD uint32_t crc_reduced(__m128i block, const crc_factors *factors) {
    const __m128i words = _mm_setr_epi32(~0, 0, ~0, 0);
    const __m128i over_64 = _mm_set_epi64x(0, (long long)factors->over_64);
    const __m128i division = _mm_set_epi64x((long long)factors->quotient, (long long)factors->polynomial);
    block = _mm_xor_si128(_mm_srli_si128(block, 8), _mm_clmulepi64_si128(block, crc_pair(factors->over_128), 0x10));
    block = _mm_xor_si128(_mm_srli_si128(block, 4),
                          _mm_clmulepi64_si128(_mm_and_si128(block, words), over_64, 0x00));
    __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(block, words), division, 0x10);
    multiple = _mm_clmulepi64_si128(_mm_and_si128(multiple, words), division, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(block, multiple), 1);
}

/* Return the CRC of a block and the `n_bytes` after it, with at least 16 bytes before `data`. */
CRC_FOLD uint32_t crc_finished(__m128i block, const uint8_t *data, size_t n_bytes, const crc_factors *factors) {
    for (; n_bytes >= 16; data += 16, n_bytes -= 16) {
        block = crc_fold(block, crc_load128(data), factors->over_128);
    }
    return ~crc_reduced(n_bytes == 0 ? block : crc_fold_rest(block, data, n_bytes, factors), factors);
}

#endif
#endif
