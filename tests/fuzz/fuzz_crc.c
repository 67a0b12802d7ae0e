/* Every variant of both checksums gives what the portable one gives, at every alignment, in one go or in two; copies
 * that are made side by side are whole, and so are their sums; and extents are refused or read inside the buffer.
 * Input: the data. Each input meets one variant, at one alignment, and is cut in one place. */
#include "checksum/crc.h"
#include "checksum/crc_copy.h"
#include "fuzz.h"

#define MAX_VARIANTS 12
#define MAX_BYTES 512    /* of an input */
#define LONG_BYTES 20000 /* of some, which are repeated: several blocks of a kernel */
#define MAX_EXTENTS 8
#define MAX_COPIES 13

/* A variant, and the portable one of its checksum. */
typedef struct {
    crc_kernel *kernel, *portable;
} pair;

static pair pairs[MAX_VARIANTS];
static size_t n_pairs;

static void add_pairs(const crc_variant *variants, crc_kernel *portable) {
    for (; variants->name != NULL; variants++) {
        if (variants->runs_here()) {
            pairs[n_pairs++] = (pair){variants->kernel, portable};
        }
    }
}

/* The data end where the allocation does, so that a byte read behind them is noticed. */
static void check_alignment(pair given, const uint8_t *data, size_t size, size_t cut, size_t shift) {
    uint8_t *memory = exact_room(shift + size), *moved = memory + shift;
    memcpy(moved, data, size);
    const uint32_t expected = given.portable(0, moved, size), first = given.kernel(0, moved, cut);
    CHECK(given.kernel(0, moved, size) == expected);
    CHECK(given.kernel(first, moved + cut, size - cut) == expected);
    free(memory);
}

static void check_extents(pair given, const uint8_t *data, size_t size) {
    int64_t starts[MAX_EXTENTS], lengths[MAX_EXTENTS];
    uint32_t out[MAX_EXTENTS];
    int64_t n = 0, wrong = -1;
    for (; n < MAX_EXTENTS && (size_t)n * 4 + 4 <= size; n++) {
        int16_t start, length;
        memcpy(&start, data + 4 * n, 2);
        memcpy(&length, data + 4 * n + 2, 2);
        starts[n] = n % 2 ? start : start & 63;
        lengths[n] = n % 2 ? length : length & 63;
        if (wrong < 0 && (starts[n] < 0 || lengths[n] < 0 || starts[n] + lengths[n] > (int64_t)size)) {
            wrong = n;
        }
    }
    uint8_t *copy = exact_copy(data, size);
    CHECK(crc_extents(given.kernel, copy, (int64_t)size, starts, lengths, n, out) == wrong);
    for (int64_t i = 0; wrong < 0 && i < n; i++) {
        CHECK(out[i] == given.portable(0, data + starts[i], (size_t)lengths[i]));
    }
    free(copy);
}

/* Copies of all lengths up to three times the data, so that some are longer than what is summed at a time. Each has a
 * separate place, so that a byte written behind it is noticed. `kernel` NULL: without sums. */
static void check_copies(pair given, const uint8_t *data, size_t size) {
    crc_copy copies[MAX_COPIES], asked[MAX_COPIES];
    uint8_t *source = exact_room(4 * size);
    size_t n = 0;
    for (size_t i = 0; i < 4; i++) {
        memcpy(source + i * size, data, size);
    }
    for (; n < MAX_COPIES && n * 4 + 4 <= size; n++) {
        uint16_t start, length;
        memcpy(&start, data + 4 * n, 2);
        memcpy(&length, data + 4 * n + 2, 2);
        const size_t n_bytes = length % (3 * size);
        asked[n] = copies[n] =
            (crc_copy){exact_room(n_bytes), source + start % size, n_bytes, (uint32_t)length * start};
    }
    crc_copies(given.kernel, copies, n);
    for (size_t i = 0; i < n; i++) {
        const crc_copy *copy = &asked[i];
        CHECK(memcmp(copy->to, copy->from, copy->n_bytes) == 0);
        CHECK(copies[i].crc ==
              (given.kernel == NULL ? copy->crc : given.portable(copy->crc, copy->from, copy->n_bytes)));
        free(copy->to);
    }
    free(source);
}

static void check(const uint8_t *data, size_t size, size_t cut, uint64_t choice) {
    const pair given = pairs[choice % n_pairs];
    switch (choice >> 8 & 3) {
    case 0:
        check_extents(given, data, size);
        return;
    case 1:
        check_copies((pair){choice >> 12 & 3 ? given.kernel : NULL, given.portable}, data, size);
        return;
    default:
        check_alignment(given, data, size, cut, choice >> 12 & 15);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t repeated[LONG_BYTES];
    const uint64_t choice = choice_of(data, size);
    if (n_pairs == 0) { /* asked once: virtual machines take long to say what their processor has */
        add_pairs(crc32c_variants, crc32c_portable);
        add_pairs(crc32_variants, crc32_portable);
    }
    size = size < MAX_BYTES ? size : MAX_BYTES;
    if (size > 0 && (choice >> 16 & 255) == 0) {
        const size_t n = (size_t)(choice >> 24) % LONG_BYTES;
        for (size_t i = 0; i < n; i++) {
            repeated[i] = data[i % size];
        }
        data = repeated;
        size = n;
    }
    check(data, size, size * (choice >> 56) / 255, choice);
    return 0;
}
