/* The two loops of resampling: along a row, and over some rows. Each variant gives the same bytes. */
#ifndef DATAFORMATS_RESAMPLE_ROWS_H
#define DATAFORMATS_RESAMPLE_ROWS_H

#include <stdint.h>

#include "checksum/cpu.h"

#define RESAMPLE_BITS 22    /* of the fraction of a weight, as in Pillow */
#define RESAMPLE_LOW_BITS 11 /* a weight is high * 2^11 + low, so that products of pairs fit pmaddwd without loss */
#define RESAMPLE_PAD 16     /* bytes behind a row of scratch memory that may be read or written */
#define RESAMPLE_ROWS 4     /* that are resampled along at once: they share the weights */

/* The weights of two neighbors. */
typedef struct {
    int16_t high[2], low[2];
} weight_pair;

/* An output is the weighted sum of `n_pairs` pairs of inputs, from `first` on. Behind the last pair there is one more
 * whose weights are 0. */
typedef struct {
    int32_t first, n_pairs;
} span;

/* The outputs along a row, in their order: `n`, with `most` pairs of weights each; backwards if `flip`. A row of the
 * image, which ends at `end`, has `row_bytes`. */
typedef struct {
    const span *spans;
    const weight_pair *weights;
    int64_t most, n;
    int flip;
    int64_t row_bytes;
    const uint8_t *end;
} row_plan;

/* The last rows of scratch memory: row y is at y % n_rows; n_rows is a power of 2. */
typedef struct {
    uint8_t *rows;
    int64_t n_rows, stride;
} row_ring;

static inline uint8_t *ring_row(const row_ring *ring, int64_t y) {
    return ring->rows + (y & (ring->n_rows - 1)) * ring->stride;
}

typedef struct {
    /* Resample `n_rows` rows of RGB pixels, from `row` on, which is row y, to the ring. Writes up to RESAMPLE_PAD bytes
     * more. */
    void (*along)(const row_plan *plan, const uint8_t *row, int64_t y, int64_t n_rows, const row_ring *out);
    /* The sum of pairs of rows, n bytes, from row `first` on. Writes up to RESAMPLE_PAD bytes more. */
    void (*over)(const row_ring *ring, const span *rows, const weight_pair *weights, int64_t n, uint8_t *out);
} resample_variant;

extern const resample_variant resample_portable; /* runs everywhere */

/* Return the fastest variant that runs here. */
const resample_variant *resample_choose(void);

#ifdef DATAFORMATS_X86
void resample_along_avx2(const row_plan *plan, const uint8_t *row, int64_t y, int64_t n_rows, const row_ring *out);
void resample_over_avx2(const row_ring *ring, const span *rows, const weight_pair *weights, int64_t n, uint8_t *out);
#endif

#endif
