/* Resamples a box of an RGB image by a triangle filter, with antialiasing, along the rows and then along the columns: to
 * the bit what Pillow's `resize(size, BILINEAR, box)` gives in this order (its src/libImaging/Resample.c specifies the
 * arithmetic; from version 13 on it may choose the other order). */
#ifndef DATAFORMATS_RESAMPLE_H
#define DATAFORMATS_RESAMPLE_H

#include <stdint.h>

#include "image/resample_rows.h"

typedef struct {
    const uint8_t *image;  /* RGB, height * width * 3 */
    int64_t height, width; /* at least 1 */
    float box[4];          /* left, top, right, bottom, in pixels, not empty: is resampled to */
    int64_t size[2];       /* width and height, of which only */
    int64_t part[4];       /* left, top, width and height are computed */
    int flip;              /* 1: mirrored, left to right */
    int planes;            /* 1: `out` is one channel after the other; 0: one pixel after the other */
} resample_job;

/* Return the bytes of scratch memory that a job needs; -1 if a number is out of range: sizes are 1 to 2^16, boxes lie
 * in the image, and parts in the size. */
int64_t resample_scratch(const resample_job *job);

/* Do the job, which `resample_scratch` has accepted, with a variant that runs here. `out` has part[2] * part[3] * 3 bytes; `scratch` is aligned for
 * doubles. */
void resample(const resample_job *job, const resample_variant *variant, void *scratch, uint8_t *out);

#endif
