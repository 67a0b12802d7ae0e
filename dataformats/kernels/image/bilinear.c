#include "image/bilinear.h"

#define MAX_SIZE 65536
#define MAX_CHANNELS 16

int64_t bilinear_scratch(const bilinear_job *job) {
    const int64_t sizes[] = {job->height, job->width, job->rows, job->columns};
    for (int i = 0; i < 4; i++) {
        if (sizes[i] < 1 || sizes[i] > MAX_SIZE) {
            return -1;
        }
    }
    if (job->channels < 1 || job->channels > MAX_CHANNELS) {
        return -1;
    }
    /* The places in a row, and two rows. */
    return job->columns * (2 * (int64_t)sizeof(int32_t) + (1 + 2 * job->channels) * (int64_t)sizeof(float));
}

/* Find the two neighbors of a place, and its distance from the first. One operation a statement, which no compiler
 * may fuse. */
static float neighbors(int64_t length, int64_t wanted, int64_t at, int64_t *first, int64_t *second) {
    const float scale = (float)((double)length / (double)wanted);
    const float middle = (float)at + 0.5f;
    const float scaled = middle * scale;
    const float place = scaled - 0.5f;
    const int64_t below = place < 0.0f ? -1 : (int64_t)place;
    const int64_t above = below + ((float)below < place);
    *first = below < 0 ? 0 : below;
    *second = above < length ? above : length - 1;
    return place - (float)below;
}

static float blend(float first, float second, float part) {
    const float difference = second - first;
    const float change = difference * part;
    return first + change;
}

/* The neighbors of the places in a row, in numbers from its begin, and the distances from the first. */
typedef struct {
    const int32_t *left, *right;
    const float *part;
    int64_t columns;
} row_places;

/* Compiled for each number of channels, because `channels` is then a constant. */
static inline void row_of(const void *image, int64_t offset, int is_float, const row_places *places, int64_t channels,
                          float *out) {
    const float *const floats = (const float *)image + offset;
    const uint8_t *const bytes = (const uint8_t *)image + offset;
    for (int64_t column = 0; column < places->columns; column++) {
        const int32_t left = places->left[column], right = places->right[column];
        const float part = places->part[column];
        for (int64_t i = 0; i < channels; i++) {
            const float first = is_float ? floats[left + i] : (float)bytes[left + i];
            const float second = is_float ? floats[right + i] : (float)bytes[right + i];
            out[column * channels + i] = blend(first, second, part);
        }
    }
}

static void interpolate_row(const bilinear_job *job, int64_t row, const row_places *places, float *out) {
    const int64_t offset = row * job->width * job->channels;
    if (job->channels == 3 && !job->is_float) {
        row_of(job->image, offset, 0, places, 3, out);
    } else if (job->channels == 3) {
        row_of(job->image, offset, 1, places, 3, out);
    } else {
        row_of(job->image, offset, job->is_float, places, job->channels, out);
    }
}

void bilinear(const bilinear_job *job, void *scratch, float *out) {
    const int64_t n = job->columns * job->channels;
    int32_t *const left = scratch, *const right = left + job->columns;
    float *const part = (float *)(right + job->columns);
    float *const wide[2] = {part + job->columns, part + job->columns + n};
    const row_places places = {left, right, part, job->columns};
    int64_t held[2] = {-1, -1}; /* the rows of the image in `wide` */
    for (int64_t column = 0; column < job->columns; column++) {
        int64_t first, second;
        part[column] = neighbors(job->width, job->columns, column, &first, &second);
        left[column] = (int32_t)(first * job->channels);
        right[column] = (int32_t)(second * job->channels);
    }
    for (int64_t row = 0; row < job->rows; row++) {
        int64_t needed[2];
        const float distance = neighbors(job->height, job->rows, row, &needed[0], &needed[1]);
        const int swapped = held[1] == needed[0] || held[0] == needed[1];
        for (int i = 0; i < 2; i++) {
            const int slot = swapped ? 1 - i : i;
            if (held[slot] != needed[i]) {
                held[slot] = needed[i];
                interpolate_row(job, needed[i], &places, wide[slot]);
            }
        }
        const float *const above = wide[swapped], *const below = wide[1 - swapped];
        for (int64_t i = 0; i < n; i++) {
            out[row * n + i] = blend(above[i], below[i], distance);
        }
    }
}
