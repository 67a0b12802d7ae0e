#include "batch/gather.h"

#include <string.h>

int64_t gather(const gather_buffer *buffers, int64_t n_buffers, const int64_t *numbers, const int64_t *starts,
               const int64_t *lengths, int64_t n_extents, uint8_t *out, int64_t n_out) {
    int64_t done = 0;
    for (int64_t i = 0; i < n_extents; i++) {
        if (numbers[i] < 0 || numbers[i] >= n_buffers) {
            return i;
        }
        const gather_buffer buffer = buffers[numbers[i]];
        const int64_t start = starts[i], length = lengths[i];
        if (start < 0 || length < 0 || start > buffer.n_bytes || length > buffer.n_bytes - start ||
            length > n_out - done) {
            return i;
        }
        if (length > 0) {
            memcpy(out + done, buffer.data + start, (size_t)length);
        }
        done += length;
    }
    return done == n_out ? -1 : n_extents;
}
