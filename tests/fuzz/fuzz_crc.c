/* Every variant of both checksums gives what the portable one gives, at every alignment, in one go or in two; and
 * extents are refused or read inside the buffer. Input: 1 byte that says where to cut, then the data. */
#include <stdlib.h>
#include <string.h>

#include "crc32.h"
#include "crc32c.h"

static void require(int truth) {
    if (!truth) {
        abort();
    }
}

/* The data end where the allocation does, so that a byte read behind them is noticed. */
static void check_alignments(const crc_variant *variant, const uint8_t *data, size_t size, uint32_t expected,
                             size_t cut) {
    for (size_t shift = 0; shift < 16; shift++) {
        uint8_t *moved = malloc(shift + size + 1);
        memcpy(moved + shift, data, size);
        moved = realloc(moved, shift + size > 0 ? shift + size : 1);
        require(variant->kernel(0, moved + shift, size) == expected);
        const uint32_t first = variant->kernel(0, moved + shift, cut);
        require(variant->kernel(first, moved + shift + cut, size - cut) == expected);
        free(moved);
    }
}

static void check_extents(const crc_variant *variant, crc_kernel *portable, const uint8_t *data, size_t size) {
    int64_t starts[8], lengths[8];
    uint32_t out[8];
    int64_t n = 0, wrong = -1;
    for (; n < 8 && (size_t)n * 4 + 4 <= size; n++) {
        int16_t start, length;
        memcpy(&start, data + 4 * n, 2);
        memcpy(&length, data + 4 * n + 2, 2);
        starts[n] = start;
        lengths[n] = length;
        if (wrong < 0 && (start < 0 || length < 0 || start + length > (int64_t)size)) {
            wrong = n;
        }
    }
    require(crc_extents(variant->kernel, data, (int64_t)size, starts, lengths, n, out) == wrong);
    for (int64_t i = 0; wrong < 0 && i < n; i++) {
        require(out[i] == portable(0, data + starts[i], (size_t)lengths[i]));
    }
}

static void check(const crc_variant *variants, crc_kernel *portable, const uint8_t *data, size_t size,
                  size_t cut) {
    const uint32_t expected = portable(0, data, size);
    for (; variants->name != NULL; variants++) {
        if (variants->runs_here()) {
            check_alignments(variants, data, size, expected, cut);
            check_extents(variants, portable, data, size);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    const size_t cut = (size - 1) * data[0] / 255;
    check(crc32c_variants, crc32c_portable, data + 1, size - 1, cut);
    check(crc32_variants, crc32_portable, data + 1, size - 1, cut);
    return 0;
}
