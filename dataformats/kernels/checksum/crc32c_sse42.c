#include "checksum/crc.h"

#ifdef DATAFORMATS_X86

#include <immintrin.h>
#include <string.h>

/* Recent clang needs "crc32" besides "sse4.2"; GCC knows that name only since version 12, and implies it. */
#if defined(__clang__) && __clang_major__ >= 14
#define TARGET __attribute__((target("sse4.2,crc32,pclmul")))
#else
#define TARGET __attribute__((target("sse4.2,pclmul")))
#endif

/* The crc32 instruction answers after three cycles but can start every cycle, so three lanes run side by
 * side. Long lanes for speed, short ones so that records of a few hundred bytes gain too. */
#define LONG_LANE 1024
#define SHORT_LANE 64
/* x^(8 n - 33) mod P, reflected, moves a register over n bytes: PCLMULQDQ and the crc32 of the 64-bit product
 * give the remaining x^33. Source: V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
 * Instruction". */
#define OVER_LONG_LANE 0x170076fau       /* x^(8 * 1024 - 33) */
#define OVER_TWO_LONG_LANES 0xa51b6135u  /* x^(16 * 1024 - 33) */
#define OVER_SHORT_LANE 0x9e4addf8u      /* x^(8 * 64 - 33) */
#define OVER_TWO_SHORT_LANES 0x0d3b6092u /* x^(16 * 64 - 33) */

static inline uint64_t load64(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

TARGET static inline uint64_t multiply(uint64_t crc, uint32_t factor) {
    const __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128(factor), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

/* Return the register after `3 * lane` bytes. `over_one` and `over_two` move a register over one lane and
 * two. */
TARGET static inline uint64_t three_lanes(uint64_t crc, const uint8_t *data, size_t lane, uint32_t over_one,
                                          uint32_t over_two) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < lane - 8; i += 8) {
        first = _mm_crc32_u64(first, load64(data + i));
        second = _mm_crc32_u64(second, load64(data + lane + i));
        third = _mm_crc32_u64(third, load64(data + 2 * lane + i));
    }
    first = _mm_crc32_u64(first, load64(data + lane - 8));
    second = _mm_crc32_u64(second, load64(data + 2 * lane - 8));
    /* The products take part in the last word of the third lane: it does the reduction that they lack. */
    const uint64_t last = load64(data + 3 * lane - 8);
    return _mm_crc32_u64(third, last ^ multiply(first, over_two) ^ multiply(second, over_one));
}

TARGET uint32_t crc32c_sse42(uint32_t value, const uint8_t *data, size_t n_bytes) {
    uint64_t crc = (uint32_t)~value;
    for (; n_bytes >= 3 * LONG_LANE; data += 3 * LONG_LANE, n_bytes -= 3 * LONG_LANE) {
        crc = three_lanes(crc, data, LONG_LANE, OVER_LONG_LANE, OVER_TWO_LONG_LANES);
    }
    for (; n_bytes >= 3 * SHORT_LANE; data += 3 * SHORT_LANE, n_bytes -= 3 * SHORT_LANE) {
        crc = three_lanes(crc, data, SHORT_LANE, OVER_SHORT_LANE, OVER_TWO_SHORT_LANES);
    }
    for (; n_bytes >= 8; data += 8, n_bytes -= 8) {
        crc = _mm_crc32_u64(crc, load64(data));
    }
    for (; n_bytes > 0; data++, n_bytes--) {
        crc = _mm_crc32_u8((uint32_t)crc, *data);
    }
    return ~(uint32_t)crc;
}

#else
typedef int dataformats_no_crc32c_sse42; /* an empty file is not C */
#endif
