#include "checksum/cpu.h"

#ifdef DATAFORMATS_X86
#include <cpuid.h>
#endif

#if defined(DATAFORMATS_ARM64) && defined(__linux__)
#include <sys/auxv.h>
#define HWCAP_CRC32_BIT (1ul << 7) /* HWCAP_CRC32 of <asm/hwcap.h>, which some libcs lack */
#endif

int cpu_any(void) { return 1; }

#ifdef DATAFORMATS_X86
/* Bits of ECX after CPUID with EAX = 1: Intel SDM, volume 2A, CPUID. */
#define HAS_PCLMULQDQ (1u << 1)
#define HAS_SSE41 (1u << 19)
#define HAS_SSE42 (1u << 20)
#define HAS_OSXSAVE (1u << 27)
/* Of EBX and ECX after CPUID with EAX = 7 and ECX = 0. */
#define HAS_AVX2 (1u << 5)
#define HAS_AVX512F (1u << 16)
#define HAS_AVX512BW (1u << 30)
#define HAS_VBMI (1u << 1)
#define HAS_VBMI2 (1u << 6)
#define HAS_VPCLMULQDQ (1u << 10)
/* Bits of XCR0: the system saves the state of SSE, AVX, and the three states of AVX-512. Intel SDM, volume 1, section
 * 13.3. */
#define SAVES_YMM 0x06u
#define SAVES_ZMM 0xe6u

/* Not __builtin_cpu_supports: it needs a part of the compiler's run-time library that some builds lack. */
static int has_all(unsigned wanted) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & wanted) == wanted;
}

int cpu_has_pclmul(void) { return has_all(HAS_SSE41 | HAS_PCLMULQDQ); }

int cpu_has_sse42_pclmul(void) { return has_all(HAS_SSE42 | HAS_PCLMULQDQ); }

/* The processor may have registers that the system does not save. In assembler, because the intrinsic needs a
 * compiler flag. */
static int system_saves(unsigned states) {
    unsigned eax, edx;
    if (!has_all(HAS_OSXSAVE)) {
        return 0; /* xgetbv would be an invalid instruction */
    }
    __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return (eax & states) == states;
}

int cpu_has_avx2(void) {
    unsigned eax, ebx, ecx, edx;
    return system_saves(SAVES_YMM) && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & HAS_AVX2);
}

/* Return whether the system saves the registers of AVX-512, and the processor has F, BW and these bits of ECX. */
static int has_avx512(unsigned wanted) {
    unsigned eax, ebx, ecx, edx;
    return system_saves(SAVES_ZMM) && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & HAS_AVX512F) &&
           (ebx & HAS_AVX512BW) && (ecx & wanted) == wanted;
}

int cpu_has_vpclmul(void) { return has_all(HAS_SSE41 | HAS_SSE42 | HAS_PCLMULQDQ) && has_avx512(HAS_VPCLMULQDQ); }

int cpu_has_vbmi2(void) { return has_avx512(HAS_VBMI | HAS_VBMI2); }
#else
int cpu_has_avx2(void) { return 0; }

int cpu_has_vpclmul(void) { return 0; }

int cpu_has_vbmi2(void) { return 0; }

int cpu_has_pclmul(void) { return 0; }

int cpu_has_sse42_pclmul(void) { return 0; }
#endif

int cpu_has_arm_crc(void) {
#if defined(DATAFORMATS_ARM64) && defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_CRC32_BIT) != 0;
#elif defined(DATAFORMATS_ARM64) && defined(__APPLE__)
    return 1; /* every Apple processor of 64 bits that macOS runs on has it */
#else
    return 0;
#endif
}
