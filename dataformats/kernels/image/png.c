#include "image/png.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { NONE, SUB, UP, AVERAGE, PAETH };

/* The neighbor that is nearest to a + b - c: PNG 3rd edition, 9.4. */
static inline int paeth(int a, int b, int c) {
    const int to_a = abs(b - c), to_b = abs(a - c), to_c = abs(a + b - 2 * c);
    return to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c;
}

/* `above` is the row before, unfiltered. `channels` is a constant in every call, so that loops over it unroll. */
static inline int unfilter_row(int filter, const uint8_t *row, const uint8_t *above, int64_t n, const int channels,
                               uint8_t *out) {
    uint8_t left[4] = {0}, corner[4] = {0};
    switch (filter) {
    case NONE:
        memcpy(out, row, (size_t)n);
        return 1;
    case UP:
        for (int64_t x = 0; x < n; x++) {
            out[x] = (uint8_t)(row[x] + above[x]);
        }
        return 1;
    case SUB:
        for (int64_t x = 0; x < n; x += channels) {
            for (int c = 0; c < channels; c++) {
                out[x + c] = left[c] = (uint8_t)(row[x + c] + left[c]);
            }
        }
        return 1;
    case AVERAGE:
        for (int64_t x = 0; x < n; x += channels) {
            for (int c = 0; c < channels; c++) {
                out[x + c] = left[c] = (uint8_t)(row[x + c] + (left[c] + above[x + c]) / 2);
            }
        }
        return 1;
    case PAETH:
        for (int64_t x = 0; x < n; x += channels) {
            for (int c = 0; c < channels; c++) {
                const uint8_t up = above[x + c];
                out[x + c] = left[c] = (uint8_t)(row[x + c] + paeth(left[c], up, corner[c]));
                corner[c] = up;
            }
        }
        return 1;
    default:
        return 0;
    }
}

/* The row above the first one is zeros: with them, a filter is one without them. */
static int of_first_row(int filter) { return filter == UP ? NONE : filter == PAETH ? SUB : filter; }

static int first_row(const uint8_t *row, int64_t n, int channels, uint8_t *out) {
    if (row[0] != AVERAGE) {
        return unfilter_row(of_first_row(row[0]), row + 1, NULL, n, channels, out);
    }
    for (int64_t x = 0; x < n; x++) {
        out[x] = (uint8_t)(row[1 + x] + (x < channels ? 0 : out[x - channels] / 2));
    }
    return 1;
}

static int unfilter(int filter, const uint8_t *row, const uint8_t *above, int64_t n, int channels, uint8_t *out) {
    switch (channels) {
    case 1:
        return unfilter_row(filter, row, above, n, 1, out);
    case 2:
        return unfilter_row(filter, row, above, n, 2, out);
    case 3:
        return unfilter_row(filter, row, above, n, 3, out);
    default:
        return unfilter_row(filter, row, above, n, 4, out);
    }
}

int png_unfilter(const uint8_t *rows, int64_t n, int64_t row_bytes, int channels, uint8_t *out, int64_t n_out) {
    if (channels < 1 || channels > 4 || row_bytes < 1 || row_bytes % channels != 0 || n_out % row_bytes != 0 ||
        n - n_out != n_out / row_bytes) {
        return 0;
    }
    for (int64_t at = 0; at < n_out; at += row_bytes, rows += row_bytes + 1) {
        const int done = at == 0 ? first_row(rows, row_bytes, channels, out)
                                 : unfilter(rows[0], rows + 1, out + at - row_bytes, row_bytes, channels, out + at);
        if (!done) {
            return 0;
        }
    }
    return 1;
}
