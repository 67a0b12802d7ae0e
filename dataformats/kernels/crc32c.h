/* CRC-32C (Castagnoli), reflected, polynomial 0x1EDC6F41: RFC 3720, section 12.1. TFRecord and iSCSI use it.
 */
#ifndef DATAFORMATS_CRC32C_H
#define DATAFORMATS_CRC32C_H

#include "cpu.h"
#include "crc.h"

/* The variants that were compiled, fastest first, "portable" last. Which of them run here, the entries say.
 */
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

#endif
