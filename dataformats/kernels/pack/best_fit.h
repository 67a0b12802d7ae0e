/* Best fit: place items of known lengths in rows of one length.
 *
 * Each item goes into the row with the least room that is enough for it; of equal rows, into the one that got its last
 * item last. If none has room, a new row begins. The result is the same on every machine; tests compare it with the
 * reference in Python. An item costs a few operations, and one for each 4,096 of `row_length` at most.
 *
 * Kernels know no Python, keep no state, allocate nothing and may run in any number of threads at once. */
#ifndef DATAFORMATS_BEST_FIT_H
#define DATAFORMATS_BEST_FIT_H

#include <stdint.h>

/* Memory for the kernel; all but `next` holds zeros before.
 * next: int64[n], the row below in the stack of each row.
 * first: int64[row_length + 1], one more than the top row of those with so much room; 0 without any.
 * words: uint64[row_length / 64 + 1], which stacks have a row.
 * groups: uint64[row_length / 4096 + 1], which words have one. */
typedef struct {
    int64_t *next, *first;
    uint64_t *words, *groups;
} best_fit_room;

/* Write the row of each of `lengths[0 .. n)` to `rows`. Return -1, or the number of the first length outside
 * [1, row_length]; `rows` is then unspecified. */
int64_t best_fit(const int64_t *lengths, int64_t n, int64_t row_length, best_fit_room room, int64_t *rows);

#endif
