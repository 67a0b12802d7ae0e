#include "crc32.h"

#ifdef DATAFORMATS_X86

#include <immintrin.h>

#define TARGET __attribute__((target("sse4.1,pclmul")))

/* x^(D + 32) and x^(D - 32) mod P, reflected and shifted left by one, move the two halves of a 128-bit block
 * over D bits. Source: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction". */
#define OVER_512_LOW 0x154442bd4
#define OVER_512_HIGH 0x1c6e41596
#define OVER_128_LOW 0x1751997d0
#define OVER_128_HIGH 0x0ccaa009e
#define OVER_64 0x163cd6124
#define POLYNOMIAL 0x1db710641
#define QUOTIENT 0x1f7011641 /* of x^64 by P: what a Barrett reduction multiplies by in place of a division */

static inline __m128i load128(const uint8_t *data) { return _mm_loadu_si128((const __m128i *)data); }

/* Return a block that leaves the same remainder as `block`, the bits between, and `next` after them. */
TARGET static inline __m128i fold(__m128i block, __m128i next, __m128i factors) {
    const __m128i low = _mm_clmulepi64_si128(block, factors, 0x00);
    const __m128i high = _mm_clmulepi64_si128(block, factors, 0x11);
    return _mm_xor_si128(next, _mm_xor_si128(low, high));
}

/* Return the remainder of a block, by two more folds and a Barrett reduction: tables would have to come from memory. */
TARGET static inline uint32_t reduced(__m128i block) {
    const __m128i words = _mm_setr_epi32(~0, 0, ~0, 0);
    const __m128i over_128 = _mm_set_epi64x(OVER_128_HIGH, OVER_128_LOW), over_64 = _mm_set_epi64x(0, OVER_64);
    const __m128i division = _mm_set_epi64x(QUOTIENT, POLYNOMIAL);
    block = _mm_xor_si128(_mm_srli_si128(block, 8), _mm_clmulepi64_si128(block, over_128, 0x10));
    block = _mm_xor_si128(_mm_srli_si128(block, 4),
                          _mm_clmulepi64_si128(_mm_and_si128(block, words), over_64, 0x00));
    __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(block, words), division, 0x10);
    multiple = _mm_clmulepi64_si128(_mm_and_si128(multiple, words), division, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(block, multiple), 1);
}

TARGET uint32_t crc32_pclmul(uint32_t value, const uint8_t *data, size_t n_bytes) {
    if (n_bytes < 64) {
        return crc32_portable(value, data, n_bytes);
    }
    __m128i a = _mm_xor_si128(load128(data), _mm_cvtsi32_si128((int)~value));
    __m128i b = load128(data + 16), c = load128(data + 32), d = load128(data + 48);
    const __m128i over_512 = _mm_set_epi64x(OVER_512_HIGH, OVER_512_LOW);
    for (data += 64, n_bytes -= 64; n_bytes >= 64; data += 64, n_bytes -= 64) {
        a = fold(a, load128(data), over_512);
        b = fold(b, load128(data + 16), over_512);
        c = fold(c, load128(data + 32), over_512);
        d = fold(d, load128(data + 48), over_512);
    }
    const __m128i over_128 = _mm_set_epi64x(OVER_128_HIGH, OVER_128_LOW);
    a = fold(fold(fold(a, b, over_128), c, over_128), d, over_128);
    for (; n_bytes >= 16; data += 16, n_bytes -= 16) {
        a = fold(a, load128(data), over_128);
    }
    const uint32_t crc = ~reduced(a);
    return n_bytes == 0 ? crc : crc32_portable(crc, data, n_bytes);
}

#else
typedef int dataformats_no_crc32_pclmul; /* an empty file is not C */
#endif
