/* Records are found in the index of one file as plain sums say, or not found; nothing behind the index is read. Input:
 * what to choose, then the bytes of the index, in which each block gets its checksum or keeps a wrong one. */
#include "batch/index.h"
#include "fuzz.h"

static const int WIDTHS[] = {0, 1, 2, 4, 8};

static uint64_t number_in(const uint8_t *at, int width) {
    uint64_t number = 0;
    for (int i = 0; i < width; i++) {
        number |= (uint64_t)at[i] << (8 * i);
    }
    return number;
}

/* Seal the blocks, but for those that the input leaves damaged. Return whether all are sealed. */
static int seal_blocks(const index_part *part, uint8_t *bytes, int64_t n, input *in) {
    const int64_t each = part->length.width + part->stored.width;
    int are_sealed = 1;
    for (int64_t first = 0; each > 0 && first < n; first += INDEX_ROWS) {
        const int64_t rows = n - first < INDEX_ROWS ? n - first : INDEX_ROWS;
        const size_t size = (size_t)(8 + rows * each);
        uint32_t sum = crc32_portable(0, bytes, size) ^ part->seal;
        if (next_byte(in) == 255) {
            sum ^= 1u << next_below(in, 32);
            are_sealed = 0;
        }
        for (int i = 0; i < 4; i++) {
            bytes[size + (size_t)i] = (uint8_t)(sum >> (8 * i));
        }
        bytes += size + 4;
    }
    return are_sealed;
}

static void check_blocks(const index_part *part, int64_t row, int64_t n, int64_t offset, int64_t length,
                         uint32_t stored) {
    const int64_t each = part->length.width + part->stored.width, at = row % INDEX_ROWS, first = row - at;
    const int64_t rows = n - first < INDEX_ROWS ? n - first : INDEX_ROWS;
    const uint8_t *block = each == 0 ? NULL : part->memory + part->base + first * each + first / INDEX_ROWS * 12;
    uint64_t sum = (uint64_t)part->start + (uint64_t)part->extra * (uint64_t)row;
    sum += block == NULL ? (uint64_t)part->length.constant * (uint64_t)first : number_in(block, 8);
    uint64_t here = (uint64_t)part->length.constant;
    for (int64_t i = 0; i <= at; i++) {
        here = part->length.width == 0 ? here : number_in(block + 8 + i * part->length.width, part->length.width);
        sum += i < at ? here : 0;
    }
    CHECK((uint64_t)offset == sum && (uint64_t)length == here && length >= 0);
    CHECK(stored == (uint32_t)(part->stored.width == 0
                                   ? (uint64_t)part->stored.constant
                                   : number_in(block + 8 + rows * part->length.width + at * part->stored.width,
                                               part->stored.width)));
}

static void check_table(const index_part *part, int64_t row, int64_t n, int64_t offset, int64_t length,
                        uint32_t stored) {
    const uint8_t *at = part->memory + part->base + 8 * row;
    const int64_t end = row + 1 < n ? (int64_t)number_in(at + 8, 8) : part->end;
    CHECK(offset == (int64_t)number_in(at, 8) && length == end - offset && length >= 0);
    CHECK(offset >= part->start && end <= part->end && (row > 0 || offset == part->start));
    CHECK(stored == (uint32_t)number_in(part->memory + part->checksums + 4 * row, 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    const int64_t n = next_below(&in, 200), extra_rows = next_below(&in, 3), starts[2] = {0, n + extra_rows};
    index_part part = {.is_table = next_byte(&in) % 2, .start = next_number(&in), .end = next_number(&in)};
    part.extra = next_below(&in, 30);
    part.length = (index_column){next_number(&in), WIDTHS[next_below(&in, 5)]};
    part.stored = (index_column){next_number(&in), WIDTHS[next_below(&in, 5)]};
    part.seal = (uint32_t)next_bytes(&in, 4);
    part.base = part.is_table ? 4 * n : 0;
    part.n_bytes = part.is_table ? 12 * n : index_blocks_bytes(&part, n);
    uint8_t *bytes = exact_room((size_t)part.n_bytes);
    for (int64_t i = 0; i < part.n_bytes; i++) {
        bytes[i] = next_byte(&in);
    }
    part.memory = bytes;
    int all_sound = 1;
    if (!part.is_table) {
        const int are_sealed = seal_blocks(&part, bytes, n, &in);
        CHECK(index_is_sound(&part, n, crc32_portable) == are_sealed);
        all_sound = are_sealed;
        CHECK(!index_is_sound(&part, n + INDEX_ROWS, crc32_portable) || part.n_bytes == 0);
    }
    part.n = n;
    const index_set set = {starts, &part, 1, crc32_portable};
    index_part mapped_part = part; /* a file: some of its bytes are copied, and it cannot be opened */
    mapped_part.memory = NULL;
    mapped_part.path = "";
    mapped_part.map = (file_map){part.memory, part.n_bytes, 0, 0};
    const index_set mapped = {starts, &mapped_part, 1, crc32_portable};
    index_cursor cursor, mapped_cursor;
    index_begin(&cursor);
    index_begin(&mapped_cursor);
    for (int64_t record = -1; record <= starts[1]; record++) {
        const int32_t file = index_file_of(&set, record);
        int64_t offset, length;
        uint32_t stored;
        CHECK((file == 0) == (record >= 0 && record < starts[1]));
        index_prefetch(&set, record, file);
        if (file < 0) {
            continue;
        }
        const int is_found = index_find(&set, &cursor, NULL, record, file, &offset, &length, &stored) == 0;
        if (is_found) {
            CHECK(record < n);
            (part.is_table ? check_table : check_blocks)(&part, record, n, offset, length, stored);
        }
        int64_t copied_offset, copied_length;
        uint32_t copied_stored;
        CHECK(index_stage(&mapped, &mapped_cursor, &record, 1) == 1);
        const int is_copied = index_find(&mapped, &mapped_cursor, mapped_cursor.staged[0], record, file, &copied_offset,
                                         &copied_length, &copied_stored) == 0;
        CHECK(!is_copied || (is_found && copied_offset == offset && copied_length == length && copied_stored == stored));
        CHECK(is_copied == is_found || !all_sound || mapped_cursor.copier == NULL);
    }
    index_end(&cursor);
    index_end(&mapped_cursor);
    free(bytes);
    return 0;
}
