/* Copies many extents of a buffer, back to back. */
#ifndef DATAFORMATS_GATHER_H
#define DATAFORMATS_GATHER_H

#include <stdint.h>

/* Copy each `buffer[starts[i] .. starts[i] + lengths[i])` to `out[0 .. n_out)`, back to back.
 *
 * Return -1, or the number of the first extent that is outside `[0, n_bytes)` or does not fit in `out`; or n_extents
 * if `out` is not full at the end. `out` is then unspecified. */
int64_t gather(const uint8_t *buffer, int64_t n_bytes, const int64_t *starts, const int64_t *lengths,
               int64_t n_extents, uint8_t *out, int64_t n_out);

#endif
