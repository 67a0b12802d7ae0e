/* Features of this machine's processor. The answer is no if the compiler cannot generate the instructions. */
#ifndef DATAFORMATS_CPU_H
#define DATAFORMATS_CPU_H

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define DATAFORMATS_X86 1
#endif

/* Compilers that know VPCLMULQDQ. */
#if defined(DATAFORMATS_X86) && (defined(__clang__) || __GNUC__ >= 8)
#define DATAFORMATS_AVX512 1
#endif

#if defined(__aarch64__) && !defined(__AARCH64EB__) && (defined(__GNUC__) || defined(__clang__))
#define DATAFORMATS_ARM64 1
#endif

int cpu_any(void);              /* always 1: for kernels in portable C */
int cpu_has_pclmul(void);       /* x86-64: SSE4.1 and PCLMULQDQ */
int cpu_has_sse42_pclmul(void); /* x86-64: SSE4.2 (it has the crc32 instruction) and PCLMULQDQ */
int cpu_has_vpclmul(void);      /* x86-64: AVX-512 F and BW and VPCLMULQDQ, and all of sse42_pclmul */
int cpu_has_vbmi2(void);        /* x86-64: AVX-512 F, BW, VBMI and VBMI2 */
int cpu_has_avx2(void);          /* x86-64 */
int cpu_has_arm_crc(void);      /* arm64: the CRC32 extension */

#endif
