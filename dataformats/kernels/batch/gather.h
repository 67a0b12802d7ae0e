/* Copies many extents of buffers, back to back. */
#ifndef DATAFORMATS_GATHER_H
#define DATAFORMATS_GATHER_H

#include <stdint.h>

typedef struct {
    const uint8_t *data;
    int64_t n_bytes;
} gather_buffer;

/* Copy each extent `[starts[i], starts[i] + lengths[i])` of `buffers[numbers[i]]` to `out[0 .. n_out)`, back to back.
 *
 * Return -1, or the number of the first extent that is outside of its buffer, whose buffer does not exist, or that does
 * not fit in `out`; or n_extents if `out` is not full at the end. `out` is then unspecified. */
int64_t gather(const gather_buffer *buffers, int64_t n_buffers, const int64_t *numbers, const int64_t *starts,
               const int64_t *lengths, int64_t n_extents, uint8_t *out, int64_t n_out);

#endif
