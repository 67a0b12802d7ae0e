/* Any extents are looked up and laid out as 128-bit arithmetic says, or refused. Input: what to choose, then sizes of
 * files, then extents and rows. */
#include "batch/layout.h"
#include "fuzz.h"

#define MOST 24

typedef __int128 wide;

/* Extents of one field; memory for n of them. */
typedef struct {
    int32_t *file;
    int64_t *offset, *length;
    uint32_t *stored;
} arrays;

static arrays arrays_of(int64_t n, int with_checksums) {
    const size_t count = (size_t)n;
    return (arrays){exact_room(count * 4), exact_room(count * 8), exact_room(count * 8),
                    with_checksums ? exact_room(count * 4) : NULL};
}

static void release(arrays held) {
    free(held.file);
    free(held.offset);
    free(held.length);
    free(held.stored);
}

/* Look n rows up. Return whether all exist. */
static int looks_up(const layout_extents *all, arrays out, input *in, int64_t n) {
    int64_t given[MOST], wrong = -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = next_number(in);
        given[i] = row >= 0 && row < 200 && all->n > 0 ? row % all->n : row;
        wrong = wrong < 0 && (given[i] < 0 || given[i] >= all->n) ? i : wrong;
    }
    int64_t *rows = exact_copy(given, (size_t)n * 8);
    CHECK(layout_look_up(all, rows, n, out.file, out.offset, out.length, out.stored) == wrong);
    for (int64_t i = 0; wrong < 0 && i < n; i++) {
        CHECK(out.file[i] == all->file[rows[i]] && out.offset[i] == all->offset[rows[i]]);
        CHECK(out.length[i] == all->length[rows[i]]);
        CHECK(all->stored == NULL || out.stored[i] == all->stored[rows[i]]);
    }
    free(rows);
    return wrong < 0;
}

/* Return the sum of the lengths, or -1 if an extent does not fit. */
static wide expected_sum(const layout_extents *extents, const int64_t *sizes, int64_t n_files, int64_t head,
                         int64_t tail, int64_t max_bytes) {
    wide sum = 0;
    for (int64_t i = 0; i < extents->n; i++) {
        const wide offset = extents->offset[i], length = extents->length[i];
        if (extents->file[i] < 0 || extents->file[i] >= n_files || length < 0 || length > max_bytes || offset < head ||
            offset + length + tail > sizes[extents->file[i]]) {
            return -1;
        }
        sum += length;
    }
    return sum > INT64_MAX ? -1 : sum;
}

static void check_places(const layout_extents *extents, input *in) {
    int64_t sizes[4];
    const int64_t n_files = next_below(in, 5), head = next_below(in, 65), tail = next_below(in, 65);
    const int64_t max_bytes = next_number(in);
    for (int64_t i = 0; i < n_files; i++) {
        sizes[i] = next_number(in);
    }
    int64_t *held = exact_copy(sizes, (size_t)n_files * 8), *place = exact_room(((size_t)extents->n + 1) * 8);
    const int64_t sum = layout_places(extents, held, n_files, head, tail, max_bytes, place);
    CHECK(sum == (int64_t)expected_sum(extents, held, n_files, head, tail, max_bytes));
    for (int64_t i = 0; sum >= 0 && i < extents->n; i++) {
        CHECK(place[i + 1] - place[i] == extents->length[i]);
    }
    if (sum >= 0) {
        CHECK(place[0] == 0 && place[extents->n] == sum);
        const int64_t at = next_number(in), row = layout_row_at(place, extents->n, at);
        CHECK(row >= 0 && row <= extents->n);
        CHECK((row == 0 || place[row - 1] < at) && (row == extents->n || place[row] >= at));
    }
    free(held);
    free(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    const int64_t n_all = next_below(&in, MOST), n = next_below(&in, MOST);
    const int with_checksums = next_byte(&in) % 2;
    arrays stored = arrays_of(n_all, with_checksums), some = arrays_of(n, with_checksums);
    for (int64_t i = 0; i < n_all; i++) {
        const uint8_t file = next_byte(&in);
        stored.file[i] = file < 250 ? file % 5 : (int32_t)next_bytes(&in, 4);
        stored.offset[i] = next_number(&in);
        stored.length[i] = next_number(&in);
        if (with_checksums) {
            stored.stored[i] = (uint32_t)i * 0x9e3779b9u;
        }
    }
    const layout_extents all = {stored.file, stored.offset, stored.length, stored.stored, n_all};
    const int are_there = looks_up(&all, some, &in, n);
    check_places(&all, &in);
    if (are_there) {
        const layout_extents found = {some.file, some.offset, some.length, some.stored, n};
        check_places(&found, &in);
    }
    release(stored);
    release(some);
    return 0;
}
