/* Copies data and computes checksums in one pass, several copies side by side.
 *
 * Main memory serves several streams faster than one: copies of a few KB from all over a large memory take three
 * quarters of the time of one copy after the other, and checksums of data in registers cost next to nothing. The
 * checksums are of the bytes written, even if the source changes meanwhile.
 */
#ifndef DATAFORMATS_CRC_COPY_H
#define DATAFORMATS_CRC_COPY_H

#include "checksum/cpu.h"
#include "checksum/crc.h"

/* One copy. `to` and `from` do not overlap, nor do the `to` of several copies. */
typedef struct {
    uint8_t *to;
    const uint8_t *from;
    size_t n_bytes;
    uint32_t crc; /* in: of the preceding bytes; out: of these and the copy */
} crc_copy;

/* Do `copies[0 .. n)`. `kernel` computes the checksums; NULL: none, and each `crc` stays.
 * Afterwards every member but `crc` is unspecified. */
void crc_copies(crc_kernel *kernel, crc_copy *copies, size_t n);

/* The number of copies done side by side. Eight were no faster, two slower. */
#define CRC_SIDES 4

/* Copy the first `n_bytes`, a multiple of 64 above 0, of each of four copies, and the rest of a copy with less than
 * 64 bytes left. Advances `to`, `from`, `n_bytes` and `crc`. */
typedef void crc_copy_kernel(crc_copy *const sides[CRC_SIDES], size_t n_bytes);

#ifdef DATAFORMATS_AVX512
crc_copy_kernel crc32_copy_vpclmul;  /* used with crc32_vpclmul */
crc_copy_kernel crc32c_copy_vpclmul; /* used with crc32c_vpclmul */
#endif

#endif
