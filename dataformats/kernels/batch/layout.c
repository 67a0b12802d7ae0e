#include "batch/layout.h"

#include <stddef.h>

int64_t layout_look_up(const layout_extents *all, const int64_t *rows, int64_t n, int32_t *file, int64_t *offset,
                       int64_t *length, uint32_t *stored) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = rows[i];
        if (row < 0 || row >= all->n) {
            return i;
        }
        file[i] = all->file[row];
        offset[i] = all->offset[row];
        length[i] = all->length[row];
        if (all->stored != NULL) {
            stored[i] = all->stored[row];
        }
    }
    return -1;
}

int64_t layout_places(const layout_extents *extents, const int64_t *sizes, int64_t n_files, int64_t head,
                      int64_t tail, int64_t max_bytes, int64_t *place) {
    int64_t sum = 0;
    for (int64_t i = 0; i < extents->n; i++) {
        const int32_t file = extents->file[i];
        const int64_t length = extents->length[i];
        place[i] = sum;
        if (file < 0 || file >= n_files || length > max_bytes || length > INT64_MAX - sum ||
            !layout_lies_in(sizes[file], extents->offset[i], length, head, tail)) {
            return -1;
        }
        sum += length;
    }
    place[extents->n] = sum;
    return sum;
}

int64_t layout_row_at(const int64_t *place, int64_t n, int64_t at) {
    int64_t low = 0, high = n; /* the row is in [low, high] */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (place[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
