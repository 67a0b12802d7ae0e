/* Extents of records, and the places of their blobs in memory. */
#ifndef DATAFORMATS_LAYOUT_H
#define DATAFORMATS_LAYOUT_H

#include <stdint.h>

/* The extents of blobs: of all records of an index, or of some. */
typedef struct {
    const int32_t *file;            /* file of each */
    const int64_t *offset, *length; /* of the blob, without its framing */
    const uint32_t *stored;         /* its checksum in the index; NULL without checksums */
    int64_t n;
} layout_extents;

/* Return whether a blob, with `head` bytes of framing before it and `tail` behind it, lies in a file of `n_bytes`. */
static inline int layout_lies_in(int64_t n_bytes, int64_t offset, int64_t length, int64_t head, int64_t tail) {
    return n_bytes >= tail && length >= 0 && offset >= head && offset <= n_bytes - tail &&
           length <= n_bytes - tail - offset;
}

/* Write the extents of the records `rows[0 .. n)`; `stored` only if `all->stored` is not NULL. Return -1, or the
 * first position with a row outside `[0, all->n)`. */
int64_t layout_look_up(const layout_extents *all, const int64_t *rows, int64_t n, int32_t *file, int64_t *offset,
                       int64_t *length, uint32_t *stored);

/* Check extents against their files, and lay their blobs out back to back: writes the sums of the lengths to
 * `place[0 .. n]`, beginning with 0. Return the last sum, or -1 if an extent does not fit its file (with head and tail)
 * or is longer than `max_bytes`. */
int64_t layout_places(const layout_extents *extents, const int64_t *sizes, int64_t n_files, int64_t head,
                      int64_t tail, int64_t max_bytes, int64_t *place);

/* Return the first of the rows `[0, n)` with its place at or behind `at`, or `n`. */
int64_t layout_row_at(const int64_t *place, int64_t n, int64_t at);

#endif
