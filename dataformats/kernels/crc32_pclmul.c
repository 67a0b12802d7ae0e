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

static inline __m128i load128(const uint8_t *data) { return _mm_loadu_si128((const __m128i *)data); }

/* Return a block that leaves the same remainder as `block`, the bits between, and `next` after them. */
TARGET static inline __m128i fold(__m128i block, __m128i next, __m128i factors) {
    const __m128i low = _mm_clmulepi64_si128(block, factors, 0x00);
    const __m128i high = _mm_clmulepi64_si128(block, factors, 0x11);
    return _mm_xor_si128(next, _mm_xor_si128(low, high));
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
    /* What is left is 16 bytes with the remainder of all that came before. The tables take them from a
     * register of 0, which is a finished value of ~0; that is shorter than a Barrett reduction and as quick.
     */
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)rest, a);
    return crc32_portable(crc32_portable(~0u, rest, sizeof rest), data, n_bytes);
}

#else
typedef int dataformats_no_crc32_pclmul; /* an empty file is not C */
#endif
