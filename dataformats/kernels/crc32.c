#include "crc32.h"

#include "crc_table.h"

/* Row k: the bytes 1, 2, 4, ..., 128 followed by k zero bytes, under 0xEDB88320 (0x04C11DB7 reflected). */
static const crc_table table = {
    CRC_ROW(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832, 0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320),
    CRC_ROW(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08, 0x4ac21251, 0x958424a2, 0xf0794f05, 0x3b83984b),
    CRC_ROW(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8, 0x1c26a370, 0x384d46e0, 0x709a8dc0, 0xe1351b80),
    CRC_ROW(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef, 0x5019579f, 0xa032af3e, 0x9b14583d, 0xed59b63b),
    CRC_ROW(0x3d6029b0, 0x7ac05360, 0xf580a6c0, 0x30704bc1, 0x60e09782, 0xc1c12f04, 0x58f35849, 0xb1e6b092),
    CRC_ROW(0xcb5cd3a5, 0x4dc8a10b, 0x9b914216, 0xec53826d, 0x03d6029b, 0x07ac0536, 0x0f580a6c, 0x1eb014d8),
    CRC_ROW(0xa6770bb4, 0x979f1129, 0xf44f2413, 0x33ef4e67, 0x67de9cce, 0xcfbd399c, 0x440b7579, 0x8816eaf2),
    CRC_ROW(0xccaa009e, 0x4225077d, 0x844a0efa, 0xd3e51bb5, 0x7cbb312b, 0xf9766256, 0x299dc2ed, 0x533b85da),
};

const crc_variant crc32_variants[] = {
#ifdef DATAFORMATS_AVX512
    {"vpclmul", crc32_vpclmul, cpu_has_vpclmul},
#endif
#ifdef DATAFORMATS_X86
    {"pclmul", crc32_pclmul, cpu_has_pclmul},
#endif
#ifdef DATAFORMATS_ARM64
    {"arm64", crc32_arm64, cpu_has_arm_crc},
#endif
    {"portable", crc32_portable, cpu_any},
    {NULL, NULL, NULL},
};

uint32_t crc32_portable(uint32_t value, const uint8_t *data, size_t n_bytes) {
    return crc_slice_by_8(table, value, data, n_bytes);
}
