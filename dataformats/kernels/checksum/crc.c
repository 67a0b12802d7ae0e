#include "checksum/crc.h"

#include <string.h>

const crc_variant crc32c_variants[] = {
#ifdef DATAFORMATS_AVX512
    {"vpclmul", crc32c_vpclmul, cpu_has_vpclmul},
#endif
#ifdef DATAFORMATS_X86
    {"sse42", crc32c_sse42, cpu_has_sse42_pclmul},
#endif
#ifdef DATAFORMATS_ARM64
    {"arm64", crc32c_arm64, cpu_has_arm_crc},
#endif
    {"portable", crc32c_portable, cpu_any},
    {NULL, NULL, NULL},
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

crc_kernel *crc_choose(const crc_variant *variants) {
    while (!variants->runs_here()) {
        variants++;
    }
    return variants->kernel;
}

crc_kernel *crc_find(const crc_variant *variants, const char *name) {
    for (; variants->name != NULL; variants++) {
        if (strcmp(variants->name, name) == 0) {
            return variants->runs_here() ? variants->kernel : NULL;
        }
    }
    return NULL;
}

static int fits(int64_t start, int64_t length, int64_t n_bytes) {
    return start >= 0 && length >= 0 && length <= n_bytes - start;
}

int64_t crc_extents(crc_kernel *kernel, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                    const int64_t *lengths, int64_t n_extents, uint32_t *out) {
    for (int64_t i = 0; i < n_extents; i++) {
        if (!fits(starts[i], lengths[i], n_bytes)) {
            return i;
        }
    }
    for (int64_t i = 0; i < n_extents; i++) {
        /* Checked again: another thread may have changed the arrays since. */
        const int64_t start = starts[i], length = lengths[i];
        if (!fits(start, length, n_bytes)) {
            return i;
        }
        out[i] = kernel(0, buffer + start, (size_t)length);
    }
    return -1;
}
