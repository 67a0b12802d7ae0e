/* Slice-by-8 for a reflected 32-bit CRC, with tables that the compiler computes.
 *
 * Row k of a table holds, for each byte, its effect on the register k + 1 bytes later. That effect is linear over XOR,
 * so the eight entries for single bits give the other 248, and only those eight are written down.
 * Source: Kounavis and Berry, "A Systematic Approach to Building High Performance Software-based CRC Generators".
 */
#include "checksum/crc.h"
#include "checksum/little_endian.h"

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

/* Row k: the bytes 1, 2, 4, ..., 128 followed by k zero bytes, under 0xEDB88320 (0x04C11DB7 reflected). */
static const crc_table crc32_table = {
    CRC_ROW(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832, 0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320),
    CRC_ROW(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08, 0x4ac21251, 0x958424a2, 0xf0794f05, 0x3b83984b),
    CRC_ROW(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8, 0x1c26a370, 0x384d46e0, 0x709a8dc0, 0xe1351b80),
    CRC_ROW(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef, 0x5019579f, 0xa032af3e, 0x9b14583d, 0xed59b63b),
    CRC_ROW(0x3d6029b0, 0x7ac05360, 0xf580a6c0, 0x30704bc1, 0x60e09782, 0xc1c12f04, 0x58f35849, 0xb1e6b092),
    CRC_ROW(0xcb5cd3a5, 0x4dc8a10b, 0x9b914216, 0xec53826d, 0x03d6029b, 0x07ac0536, 0x0f580a6c, 0x1eb014d8),
    CRC_ROW(0xa6770bb4, 0x979f1129, 0xf44f2413, 0x33ef4e67, 0x67de9cce, 0xcfbd399c, 0x440b7579, 0x8816eaf2),
    CRC_ROW(0xccaa009e, 0x4225077d, 0x844a0efa, 0xd3e51bb5, 0x7cbb312b, 0xf9766256, 0x299dc2ed, 0x533b85da),
};

/* Row k: the bytes 1, 2, 4, ..., 128 followed by k zero bytes, under 0x82F63B78 (0x1EDC6F41 reflected). */
static const crc_table crc32c_table = {
    CRC_ROW(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
    CRC_ROW(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
    CRC_ROW(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
    CRC_ROW(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
    CRC_ROW(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
    CRC_ROW(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
    CRC_ROW(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
    CRC_ROW(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664),
};

static inline uint32_t slice_by_8(const crc_table table, uint32_t value, const uint8_t *data,
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

uint32_t crc32_portable(uint32_t value, const uint8_t *data, size_t n_bytes) {
    return slice_by_8(crc32_table, value, data, n_bytes);
}

uint32_t crc32c_portable(uint32_t value, const uint8_t *data, size_t n_bytes) {
    return slice_by_8(crc32c_table, value, data, n_bytes);
}
