/* Undoes the filters of a PNG's rows: PNG 3rd edition, 9.2. */
#ifndef DATAFORMATS_PNG_H
#define DATAFORMATS_PNG_H

#include <stdint.h>

/* Write the pixels of `rows`, each a filter and then `row_bytes` filtered bytes, to `out`, row_bytes each.
 *
 * channels: 1 to 4 bytes a pixel; row_bytes is a multiple.
 * Return 1, or 0 if a filter is unknown, or n or n_out is not what n_out / row_bytes rows have; `out` is then
 * unspecified. */
int png_unfilter(const uint8_t *rows, int64_t n, int64_t row_bytes, int channels, uint8_t *out, int64_t n_out);

#endif
