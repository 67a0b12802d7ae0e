/* Slice-by-8 for a reflected 32-bit CRC, with tables that the compiler computes.
 *
 * Row k of a table holds, for each byte, what it does to the register k + 1 bytes later. That is linear over
 * XOR, so the eight entries for single bits give the other 248, and only those eight are written down.
 * Source: Kounavis and Berry, "A Systematic Approach to Building High Performance Software-based CRC
 * Generators".
 */
#ifndef DATAFORMATS_CRC_TABLE_H
#define DATAFORMATS_CRC_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "little_endian.h"

typedef uint32_t crc_table[8][256];

#define CRC_BIT(n, bit, entry) (((n) >> (bit) & 1) ? (entry) : 0u)
#define CRC_ENTRY(n, b0, b1, b2, b3, b4, b5, b6, b7)                                                     \
    (CRC_BIT(n, 0, b0) ^ CRC_BIT(n, 1, b1) ^ CRC_BIT(n, 2, b2) ^ CRC_BIT(n, 3, b3) ^ CRC_BIT(n, 4, b4) ^ \
     CRC_BIT(n, 5, b5) ^ CRC_BIT(n, 6, b6) ^ CRC_BIT(n, 7, b7))
#define CRC_4(n, ...)                                                                              \
    CRC_ENTRY((n), __VA_ARGS__), CRC_ENTRY((n) + 1, __VA_ARGS__), CRC_ENTRY((n) + 2, __VA_ARGS__), \
        CRC_ENTRY((n) + 3, __VA_ARGS__)
#define CRC_16(n, ...)                                                                 \
    CRC_4((n), __VA_ARGS__), CRC_4((n) + 4, __VA_ARGS__), CRC_4((n) + 8, __VA_ARGS__), \
        CRC_4((n) + 12, __VA_ARGS__)
#define CRC_64(n, ...)                                                                      \
    CRC_16((n), __VA_ARGS__), CRC_16((n) + 16, __VA_ARGS__), CRC_16((n) + 32, __VA_ARGS__), \
        CRC_16((n) + 48, __VA_ARGS__)
/* The row of 256 entries, from the entries of the bytes 1, 2, 4, ..., 128. */
#define CRC_ROW(...) \
    {CRC_64(0, __VA_ARGS__), CRC_64(64, __VA_ARGS__), CRC_64(128, __VA_ARGS__), CRC_64(192, __VA_ARGS__)}

static inline uint32_t crc_slice_by_8(const crc_table table, uint32_t value, const uint8_t *data,
                                      size_t n_bytes) {
    uint32_t crc = ~value;
    for (; n_bytes >= 8; data += 8, n_bytes -= 8) {
        const uint32_t low = crc ^ load32_le(data), high = load32_le(data + 4);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
              table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
              table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
    }
    for (; n_bytes > 0; data++, n_bytes--) {
        crc = table[0][(crc ^ *data) & 0xff] ^ crc >> 8;
    }
    return ~crc;
}

#endif
