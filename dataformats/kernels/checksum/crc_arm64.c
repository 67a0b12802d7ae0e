#include "checksum/crc.h"

#ifdef DATAFORMATS_ARM64

#include <arm_acle.h>
#include <string.h>

#ifdef __clang__
#define TARGET __attribute__((target("crc")))
#else
#define TARGET __attribute__((target("+crc")))
#endif

/* The instruction has a latency of two or three cycles, but one can start every cycle, so three lanes run
 * side by side. Joining them costs some 200 cycles, which a lane this long hides. */
#define LANE 4096

static inline uint64_t load64(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

/* Return a * b mod P, all reflected: bit 31 is x^0. */
static inline uint32_t multiply(uint32_t a, uint32_t b, uint32_t polynomial) {
    uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        product ^= b & (0u - (a >> 31));
        b = b >> 1 ^ (polynomial & (0u - (b & 1)));
    }
    return product;
}

/* `over_one` and `over_two` are x^(8 LANE) and x^(16 LANE) mod P: they move a register over one lane and two.
 */
#define DEFINE_KERNEL(name, word_step, byte_step, polynomial, over_one, over_two)                       \
    TARGET uint32_t name(uint32_t value, const uint8_t *data, size_t n_bytes) {                         \
        uint32_t crc = ~value;                                                                          \
        for (; n_bytes >= 3 * LANE; data += 3 * LANE, n_bytes -= 3 * LANE) {                            \
            uint32_t second = 0, third = 0;                                                             \
            for (size_t i = 0; i < LANE; i += 8) {                                                      \
                crc = word_step(crc, load64(data + i));                                                 \
                second = word_step(second, load64(data + LANE + i));                                    \
                third = word_step(third, load64(data + 2 * LANE + i));                                  \
            }                                                                                           \
            crc = multiply(crc, over_two, polynomial) ^ multiply(second, over_one, polynomial) ^ third; \
        }                                                                                               \
        for (; n_bytes >= 8; data += 8, n_bytes -= 8) {                                                 \
            crc = word_step(crc, load64(data));                                                         \
        }                                                                                               \
        for (; n_bytes > 0; data++, n_bytes--) {                                                        \
            crc = byte_step(crc, *data);                                                                \
        }                                                                                               \
        return ~crc;                                                                                    \
    }

DEFINE_KERNEL(crc32c_arm64, __crc32cd, __crc32cb, 0x82f63b78u, 0x35d73a62u, 0x28461564u)
DEFINE_KERNEL(crc32_arm64, __crc32d, __crc32b, 0xedb88320u, 0x09fe548fu, 0x83852d0fu)

#else
typedef int dataformats_no_crc_arm64; /* an empty file is not C */
#endif
