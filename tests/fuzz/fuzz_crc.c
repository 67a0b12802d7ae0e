/* Every variant of both checksums gives what the portable one gives, at every alignment, in one go or in two; copies
 * that are made side by side are whole, and so are their sums; and extents are refused or read inside the buffer.
 * Input: 1 byte that says where to cut, then the data. */
#include <stdlib.h>
#include <string.h>

#include "checksum/crc.h"
#include "checksum/crc_copy.h"

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

#define MAX_COPIES 13

/* Copies of all lengths up to three times the data, so that some are longer than what is summed at a time. Each has a
 * separate place, so that a byte written behind it is noticed. `kernel` NULL: without sums. */
static void check_copies(crc_kernel *kernel, crc_kernel *portable, const uint8_t *data, size_t size) {
    crc_copy copies[MAX_COPIES], asked[MAX_COPIES];
    uint8_t *source = malloc(4 * size + 1);
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        memcpy(source + i * size, data, size);
    }
    for (; n < MAX_COPIES && n * 4 + 4 <= size; n++) {
        uint16_t start, length;
        memcpy(&start, data + 4 * n, 2);
        memcpy(&length, data + 4 * n + 2, 2);
        const size_t n_bytes = length % (3 * size);
        uint8_t *to = malloc(n_bytes + !n_bytes);
        asked[n] = copies[n] = (crc_copy){to, source + start % size, n_bytes, (uint32_t)length * start};
    }
    crc_copies(kernel, copies, n);
    for (size_t i = 0; i < n; i++) {
        const crc_copy *copy = &asked[i];
        require(memcmp(copy->to, copy->from, copy->n_bytes) == 0);
        require(copies[i].crc == (kernel == NULL ? copy->crc : portable(copy->crc, copy->from, copy->n_bytes)));
        free(copy->to);
    }
    free(source);
}

static void check(const crc_variant *variants, crc_kernel *portable, const uint8_t *data, size_t size,
                  size_t cut) {
    const uint32_t expected = portable(0, data, size);
    check_copies(NULL, portable, data, size);
    for (; variants->name != NULL; variants++) {
        if (variants->runs_here()) {
            check_alignments(variants, data, size, expected, cut);
            check_extents(variants, portable, data, size);
            check_copies(variants->kernel, portable, data, size);
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
