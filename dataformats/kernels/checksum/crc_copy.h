/* Copying and summing at once, several copies side by side.
 *
 * Main memory answers several streams at once faster than one: copies of a few KB from all over a large memory take
 * three quarters of the time that one after the other takes, and sums made from what is in registers anyway cost next
 * to nothing. The sums are of what was written, whatever happens to the source meanwhile.
 */
#ifndef DATAFORMATS_CRC_COPY_H
#define DATAFORMATS_CRC_COPY_H

#include "checksum/cpu.h"
#include "checksum/crc.h"

/* One copy that is to be made; `to` and `from` do not overlap, nor do the `to` of several. */
typedef struct {
    uint8_t *to;
    const uint8_t *from;
    size_t n_bytes;
    uint32_t crc; /* of what came before; afterwards of that and the copy */
} crc_copy;

/* Make `copies[0 .. n)`. `kernel` gives the checksum; NULL: none, and each `crc` stays.
 * Uses up the entries: afterwards every member but `crc` is unspecified. */
void crc_copies(crc_kernel *kernel, crc_copy *copies, size_t n);

/* How many copies are made side by side. Eight were no faster, two slower. */
#define CRC_SIDES 4

/* Make the first `n_bytes`, a multiple of 64 above 0, of each of four copies, and of one with less than 64 left the
 * rest: moves `to`, `from`, `n_bytes` and `crc` on by what was copied. */
typedef void crc_copy_kernel(crc_copy *const sides[CRC_SIDES], size_t n_bytes);

#ifdef DATAFORMATS_AVX512
crc_copy_kernel crc32_copy_vpclmul;  /* goes with crc32_vpclmul */
crc_copy_kernel crc32c_copy_vpclmul; /* goes with crc32c_vpclmul */
#endif

#endif
