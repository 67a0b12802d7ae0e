#include "batch/gather.h"

#include <string.h>

int64_t gather(const uint8_t *buffer, int64_t n_bytes, const int64_t *starts, const int64_t *lengths,
               int64_t n_extents, uint8_t *out, int64_t n_out) {
    int64_t done = 0;
    for (int64_t i = 0; i < n_extents; i++) {
        const int64_t start = starts[i], length = lengths[i];
        if (start < 0 || length < 0 || start > n_bytes || length > n_bytes - start || length > n_out - done) {
            return i;
        }
        if (length > 0) {
            memcpy(out + done, buffer + start, (size_t)length);
        }
        done += length;
    }
    return done == n_out ? -1 : n_extents;
}
