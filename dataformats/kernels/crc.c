#include "crc.h"

#include <string.h>

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
