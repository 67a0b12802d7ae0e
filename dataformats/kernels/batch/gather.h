/* Copies many extents of a buffer, one after the other, into one stretch of memory. */
#ifndef DATAFORMATS_GATHER_H
#define DATAFORMATS_GATHER_H

#include <stdint.h>

/* Copy each `buffer[starts[i] .. starts[i] + lengths[i])` to where the one before ends in `out[0 .. n_out)`.
 *
 * Return -1, or the number of the first extent that does not lie in `[0, n_bytes)` or in the room that is left;
 * or n_extents where room is left at the end. `out` is then unspecified. */
int64_t gather(const uint8_t *buffer, int64_t n_bytes, const int64_t *starts, const int64_t *lengths,
               int64_t n_extents, uint8_t *out, int64_t n_out);

#endif
