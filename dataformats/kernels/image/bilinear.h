/* Resizes an image by bilinear interpolation without antialiasing, across and then down, in float32: to the bit what
 * TensorFlow's `tf.image.resize` gives. Pixels are squares, and edges repeat. */
#ifndef DATAFORMATS_BILINEAR_H
#define DATAFORMATS_BILINEAR_H

#include <stdint.h>

typedef struct {
    const void *image;               /* height * width * channels numbers */
    int is_float;                    /* 1: they are float32; 0: uint8 */
    int64_t height, width, channels; /* at least 1 */
    int64_t rows, columns;           /* of the result, at least 1 */
} bilinear_job;

/* Return the bytes of scratch memory that a job needs; -1 if a number is out of range: sizes are 1 to 2^16, and channels
 * 1 to 16. */
int64_t bilinear_scratch(const bilinear_job *job);

/* Do the job, which `bilinear_scratch` has accepted. `out` has rows * columns * channels numbers; `scratch` is aligned
 * for floats. */
void bilinear(const bilinear_job *job, void *scratch, float *out);

#endif
