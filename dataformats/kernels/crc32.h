/* CRC-32 (IEEE 802.3), reflected, polynomial 0x04C11DB7: RFC 1952, section 8. zlib, gzip and FFRecord use it.
 */
#ifndef DATAFORMATS_CRC32_H
#define DATAFORMATS_CRC32_H

#include "cpu.h"
#include "crc.h"

/* The variants that were compiled, fastest first, "portable" last. Which of them run here, the entries say.
 */
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

#endif
