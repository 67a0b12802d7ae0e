#define _GNU_SOURCE /* before any header: pread */
#include "batch/index.h"

#include <stddef.h>
#include <string.h>

#include "checksum/little_endian.h"

#if defined(__unix__) || defined(__APPLE__)
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#define INDEX_POSIX
#endif

#define AROUND 12 /* bytes of a block besides its rows: the sum before it, and its checksum */

void index_begin(index_cursor *cursor) {
    cursor->opened = NULL;
    cursor->fd = -1;
    cursor->sound = NULL;
    cursor->summed = NULL;
    cursor->copier = NULL;
}

static void close_file(index_cursor *cursor) {
#ifdef INDEX_POSIX
    if (cursor->fd >= 0) {
        close(cursor->fd);
    }
#endif
    cursor->opened = NULL;
    cursor->fd = -1;
}

void index_end(index_cursor *cursor) {
    close_file(cursor);
    if (cursor->copier != NULL) {
        map_copier_give(cursor->copier);
        cursor->copier = NULL;
    }
}


/* Read `n` bytes of the file of a part. Return 0, or -1. */
static int read_file(const index_part *part, index_cursor *cursor, int64_t offset, int64_t n, uint8_t *to) {
#ifdef INDEX_POSIX
    if (cursor->opened == NULL || strcmp(cursor->opened->path, part->path) != 0) {
        close_file(cursor);
        cursor->fd = open(part->path, O_RDONLY | O_CLOEXEC);
        cursor->opened = part;
    }
    ssize_t got;
    do {
        got = cursor->fd < 0 ? -1 : pread(cursor->fd, to, (size_t)n, (off_t)offset);
    } while (got < 0 && cursor->fd >= 0 && errno == EINTR);
    return got == n ? 0 : -1;
#else
    (void)part, (void)cursor, (void)offset, (void)n, (void)to;
    return -1;
#endif
}

/* Return `n` bytes of a part, in memory, as copied, or read to `room`; NULL if there are none. */
static const uint8_t *bytes_at(const index_part *part, index_cursor *cursor, const uint8_t *copied, int64_t offset,
                               int64_t n, uint8_t *room) {
    if (part->memory != NULL) {
        return offset >= 0 && offset <= part->n_bytes - n ? part->memory + offset : NULL;
    }
    if (copied != NULL) {
        return copied;
    }
    return read_file(part, cursor, offset, n, room) == 0 ? room : NULL;
}

static int64_t row_bytes(const index_part *part) { return part->length.width + part->stored.width; }

static int64_t full_block_bytes(const index_part *part) { return INDEX_ROWS * row_bytes(part) + AROUND; }

static int64_t rows_in(int64_t block, int64_t n) {
    const int64_t left = n - block * INDEX_ROWS;
    return left < INDEX_ROWS ? left : INDEX_ROWS;
}

int64_t index_blocks_bytes(const index_part *part, int64_t n) {
    return row_bytes(part) == 0 ? 0 : (n + INDEX_ROWS - 1) / INDEX_ROWS * AROUND + n * row_bytes(part);
}

void index_map(index_part *part, int64_t n) {
#ifdef INDEX_POSIX
    const int fd = open(part->path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        const int64_t offsets_end = part->base + (part->is_table ? 8 * n : index_blocks_bytes(part, n));
        const int64_t checksums_end = part->is_table ? part->checksums + 4 * n : 0;
        const int64_t end = offsets_end > checksums_end ? offsets_end : checksums_end;
        if (map_file(fd, end, &part->map) < 0) {
            part->map.memory = NULL;
        }
        close(fd);
    }
#else
    (void)part, (void)n;
#endif
}

static int is_sound(const index_part *part, const uint8_t *block, int64_t rows, crc_kernel *crc32) {
    const size_t n = (size_t)(8 + rows * row_bytes(part));
    return (crc32(0, block, n) ^ part->seal) == load32_le(block + n);
}

int index_is_sound(const index_part *part, int64_t n, crc_kernel *crc32) {
    if (part->n_bytes - part->base != index_blocks_bytes(part, n)) {
        return 0;
    }
    for (int64_t block = 0; row_bytes(part) > 0 && block * INDEX_ROWS < n; block++) {
        const uint8_t *bytes = part->memory + part->base + block * full_block_bytes(part);
        if (!is_sound(part, bytes, rows_in(block, n), crc32)) {
            return 0;
        }
    }
    return 1;
}

/* The bytes of an index from `offset`. */
typedef struct {
    int64_t offset, n;
} byte_range;

/* Set `ranges` to what `row` of `n` needs, and return their number. */
static int ranges_of(const index_part *part, int64_t row, int64_t n, byte_range *ranges) {
    if (part->is_table) {
        const int64_t first = row > 0 ? row - 1 : 0, stop = row + 3 < n ? row + 3 : n;
        ranges[0] = (byte_range){part->base + 8 * first, 8 * (stop - first)};
        ranges[1] = (byte_range){part->checksums + 4 * row, 4};
        return 2;
    }
    const int64_t block = row / INDEX_ROWS;
    ranges[0] = (byte_range){part->base + block * full_block_bytes(part), rows_in(block, n) * row_bytes(part) + AROUND};
    return row_bytes(part) > 0;
}

int64_t index_stage(const index_set *set, index_cursor *cursor, const int64_t *records, int64_t n) {
    read_part pieces[INDEX_PIECES * INDEX_STAGED];
    const uint8_t **targets[INDEX_PIECES * INDEX_STAGED];
    int n_pieces = 0;
    n = n < INDEX_STAGED ? n : INDEX_STAGED;
    memset(cursor->staged, 0, (size_t)n * sizeof *cursor->staged);
    cursor->sound = NULL;
    for (int64_t i = 0; i < n; i++) {
        const int32_t file = index_file_of(set, records[i]);
        const index_part *part = file < 0 ? NULL : &set->parts[file];
        const int64_t rows = part == NULL ? 0 : atomic_load_explicit(&part->n, memory_order_acquire);
        const int64_t row = rows == 0 ? 0 : records[i] - set->starts[file];
        byte_range ranges[INDEX_PIECES];
        const int n_ranges = row < rows && part->map.memory != NULL ? ranges_of(part, row, rows, ranges) : 0;
        for (int k = 0; k < n_ranges; k++) {
            if (ranges[k].offset >= 0 && ranges[k].offset <= part->map.n_bytes - ranges[k].n) {
                void *from = (void *)(uintptr_t)(part->map.memory + ranges[k].offset);
                pieces[n_pieces] = (read_part){from, (size_t)ranges[k].n};
                targets[n_pieces++] = &cursor->staged[i][k];
            }
        }
    }
    if (n_pieces > 0 && cursor->copier == NULL) {
        cursor->copier = map_copier_take();
    }
    const uint8_t *from = n_pieces == 0 || cursor->copier == NULL ? NULL : map_copy(cursor->copier, pieces, n_pieces);
    for (int i = 0; from != NULL && i < n_pieces; i++) {
        *targets[i] = from;
        from += pieces[i].n_bytes;
    }
    return n;
}

/* Return the sound block with a row; NULL if it is damaged or missing. */
static const uint8_t *block_at(const index_set *set, const index_part *part, index_cursor *cursor,
                               const uint8_t *const *staged, int64_t row, int64_t n) {
    const int64_t block = row / INDEX_ROWS;
    if (cursor->sound != NULL && cursor->part == part && cursor->block == block) {
        return cursor->sound;
    }
    byte_range range;
    ranges_of(part, row, n, &range);
    const uint8_t *bytes =
        bytes_at(part, cursor, staged == NULL ? NULL : staged[0], range.offset, range.n, cursor->bytes);
    if (part->memory == NULL) {
        cursor->sound = bytes != NULL && is_sound(part, bytes, rows_in(block, n), set->crc32) ? bytes : NULL;
        cursor->part = part;
        cursor->block = block;
        return cursor->sound;
    }
    return bytes;
}

static uint64_t number_at(const uint8_t *column, index_column kind, int64_t row) {
    if (kind.width == 0) {
        return (uint64_t)kind.constant; /* there is no column */
    }
    const uint8_t *at = column + row * kind.width;
    switch (kind.width) {
    case 1:
        return *at;
    case 2:
        return (uint64_t)at[0] | (uint64_t)at[1] << 8;
    case 4:
        return load32_le(at);
    default:
        return load64_le(at);
    }
}

/* Return the sum of the first numbers of a column. */
static uint64_t sum_of(const uint8_t *column, index_column kind, int64_t n) {
    uint64_t sum = 0;
    if (kind.width == 0) {
        return (uint64_t)kind.constant * (uint64_t)n;
    }
    if (kind.width == 1) {
        for (int64_t i = 0; i < n; i++) {
            sum += column[i];
        }
    } else if (kind.width == 2) {
        uint32_t low = 0; /* 64 numbers of 16 bits fit */
        for (int64_t i = 0; i < n; i++) {
            low += (uint32_t)column[2 * i] | (uint32_t)column[2 * i + 1] << 8;
        }
        sum = low;
    } else {
        for (int64_t i = 0; i < n; i++) {
            sum += number_at(column, kind, i);
        }
    }
    return sum;
}

static int find_in_blocks(const index_set *set, const index_part *part, index_cursor *cursor,
                          const uint8_t *const *staged, int64_t row, int64_t n, int64_t *offset, int64_t *length,
                          uint32_t *stored) {
    const int64_t block = row / INDEX_ROWS, at = row % INDEX_ROWS;
    uint64_t before = (uint64_t)part->length.constant * (uint64_t)(block * INDEX_ROWS);
    const uint8_t *column = NULL;
    if (row_bytes(part) > 0) {
        const uint8_t *bytes = block_at(set, part, cursor, staged, row, n);
        if (bytes == NULL) {
            return -1;
        }
        before = load64_le(bytes);
        column = bytes + 8;
    }
    const int continues = cursor->summed == part && cursor->row == row && at > 0;
    const uint64_t sum = continues ? cursor->sum : before + sum_of(column, part->length, at);
    *offset = (int64_t)((uint64_t)part->start + sum + (uint64_t)part->extra * (uint64_t)row);
    *length = (int64_t)number_at(column, part->length, at);
    cursor->summed = part;
    cursor->row = row + 1;
    cursor->sum = sum + (uint64_t)*length;
    column = column == NULL ? NULL : column + part->length.width * rows_in(block, n);
    *stored = (uint32_t)number_at(column, part->stored, at);
    return *length < 0 ? -1 : 0;
}

/* A table is as sound as the checksum over all of it says, if it has one: a record whose neighbors have offsets out of
 * order is not found here. */
static int find_in_table(const index_part *part, index_cursor *cursor, const uint8_t *const *staged, int64_t row,
                         int64_t n, int64_t *offset, int64_t *length, uint32_t *stored) {
    uint8_t room[4 * 8], checksum[4];
    byte_range ranges[INDEX_PIECES];
    ranges_of(part, row, n, ranges);
    const int64_t first = row > 0 ? row - 1 : 0, count = ranges[0].n / 8;
    const uint8_t *bytes =
        bytes_at(part, cursor, staged == NULL ? NULL : staged[0], ranges[0].offset, ranges[0].n, room);
    const uint8_t *sum =
        bytes_at(part, cursor, staged == NULL ? NULL : staged[1], ranges[1].offset, ranges[1].n, checksum);
    if (bytes == NULL || sum == NULL || part->start < 0) {
        return -1;
    }
    int64_t last = part->start;
    for (int64_t i = 0; i < count; i++) {
        const int64_t here = (int64_t)load64_le(bytes + 8 * i);
        if (here < last || here > part->end || (first + i == 0 && here != part->start)) {
            return -1;
        }
        last = here;
    }
    *offset = (int64_t)load64_le(bytes + 8 * (row - first));
    *length = (row + 1 < n ? (int64_t)load64_le(bytes + 8 * (row + 1 - first)) : part->end) - *offset;
    *stored = load32_le(sum);
    return 0;
}

int32_t index_file_of(const index_set *set, int64_t record) {
    int64_t low = 0, high = set->n_files; /* the file is in [low, high) */
    if (record < 0 || high == 0 || record >= set->starts[high]) {
        return -1;
    }
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (set->starts[middle] <= record) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (int32_t)low;
}

void index_prefetch(const index_set *set, int64_t record, int32_t file) {
#ifdef __GNUC__
    const index_part *part = file < 0 ? NULL : &set->parts[file];
    const int64_t n = part == NULL ? 0 : atomic_load_explicit(&part->n, memory_order_acquire);
    const int64_t row = n == 0 ? 0 : record - set->starts[file];
    if (row >= n || part->memory == NULL) {
        return;
    }
    if (part->is_table) {
        __builtin_prefetch(part->memory + part->base + 8 * row, 0, 2);
        __builtin_prefetch(part->memory + part->checksums + 4 * row, 0, 2);
    } else if (row_bytes(part) > 0) {
        const int64_t block = row / INDEX_ROWS, at = row % INDEX_ROWS;
        const uint8_t *bytes = part->memory + part->base + block * full_block_bytes(part);
        for (int64_t line = 0; line < 8 + (at + 1) * part->length.width; line += 64) {
            __builtin_prefetch(bytes + line, 0, 2);
        }
        __builtin_prefetch(bytes + 8 + part->length.width * rows_in(block, n) + at * part->stored.width, 0, 2);
    }
#else
    (void)set, (void)record, (void)file;
#endif
}

int index_find(const index_set *set, index_cursor *cursor, const uint8_t *const *staged, int64_t record, int32_t file,
               int64_t *offset, int64_t *length, uint32_t *stored) {
    const index_part *part = &set->parts[file];
    const int64_t row = record - set->starts[file];
    const int64_t n = atomic_load_explicit(&part->n, memory_order_acquire);
    if (row >= n) {
        return -1; /* it is not loaded, or the record behind its last one, which is a problem */
    }
    return part->is_table ? find_in_table(part, cursor, staged, row, n, offset, length, stored)
                          : find_in_blocks(set, part, cursor, staged, row, n, offset, length, stored);
}
