/* The checksum kernels: CRC-32C and CRC-32, their variants, and the loop over extents.
 *
 * Kernels know no Python, keep no state, allocate nothing and may run in any number of threads at once.
 */
#ifndef DATAFORMATS_CRC_H
#define DATAFORMATS_CRC_H

#include <stddef.h>
#include <stdint.h>

#include "checksum/cpu.h"

/* Return the CRC of the bytes that gave `value` followed by `data[0 .. n_bytes)`. `value` is a finished CRC (inverted
 * at both ends, like zlib's crc32); 0 for the first bytes. `data` needs no alignment. */
typedef uint32_t crc_kernel(uint32_t value, const uint8_t *data, size_t n_bytes);

/* One way to compute a CRC. A list of them ends with an entry whose name is NULL. */
typedef struct {
    const char *name;
    crc_kernel *kernel;
    int (*runs_here)(void); /* whether this machine has the instructions */
} crc_variant;

/* Return the first of `variants` that runs on this machine; the last one, the portable one, always does. */
crc_kernel *crc_choose(const crc_variant *variants);

/* Return the kernel called `name`, or NULL if there is none of that name or it cannot run on this machine. */
crc_kernel *crc_find(const crc_variant *variants, const char *name);

/* CRC-32C (Castagnoli), reflected, polynomial 0x1EDC6F41: RFC 3720, section 12.1. TFRecord and iSCSI use it.
 * The variants that were compiled, fastest first, "portable" last. `runs_here` selects among them at run time. */
extern const crc_variant crc32c_variants[];

crc_kernel crc32c_portable; /* tables, slice-by-8: 8 bytes a step */
#ifdef DATAFORMATS_X86
crc_kernel crc32c_sse42; /* the crc32 instruction on three lanes at once, joined by PCLMULQDQ */
#endif
#ifdef DATAFORMATS_AVX512
crc_kernel crc32c_vpclmul; /* VPCLMULQDQ, folding 256 bytes a step */
#endif
#ifdef DATAFORMATS_ARM64
crc_kernel crc32c_arm64; /* the crc32cx instruction on three lanes at once */
#endif

/* CRC-32 (IEEE 802.3), reflected, polynomial 0x04C11DB7: RFC 1952, section 8. zlib, gzip and FFRecord use it. */
extern const crc_variant crc32_variants[];

crc_kernel crc32_portable; /* tables, slice-by-8: 8 bytes a step */
#ifdef DATAFORMATS_X86
crc_kernel crc32_pclmul; /* PCLMULQDQ, folding 64 bytes a step */
#endif
#ifdef DATAFORMATS_AVX512
crc_kernel crc32_vpclmul; /* VPCLMULQDQ, folding 256 bytes a step */
#endif
#ifdef DATAFORMATS_ARM64
crc_kernel crc32_arm64; /* the crc32x instruction on three lanes at once */
#endif

/* Write the CRC of `buffer[starts[i] .. starts[i] + lengths[i])` to `out[i]`, for `i` in `[0, n_extents)`.
 *
 * Every extent is checked against `[0, n_bytes)` before a byte of `buffer` is read. Return -1, or the number
 * of the first extent that does not fit (`out` is then unspecified). */
int64_t crc_extents(crc_kernel *kernel, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                    const int64_t *lengths, int64_t n_extents, uint32_t *out);

#endif
