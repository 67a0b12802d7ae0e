#include "scan.h"

#include "crc_table.h"

#define MASK_DELTA 0xa282ead8u /* kMaskDelta of tensorflow/core/lib/hash/crc32c.h */

static inline uint64_t load64(const uint8_t *data) {
    return (uint64_t)crc_load32(data) | (uint64_t)crc_load32(data + 4) << 32;
}

static inline int is_tfrecord_header(crc_kernel *crc32c, const uint8_t *header) {
    const uint32_t crc = crc32c(0, header, 8);
    return (crc >> 15 | crc << 17) + MASK_DELTA == crc_load32(header + 8);
}

scan_found scan_tfrecord(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                         int64_t *lengths, uint32_t *footers, int64_t room) {
    scan_found found = {0, at, SCAN_ENDS};
    while (found.stop <= n_bytes - SCAN_TFRECORD_HEAD) {
        const uint8_t *header = window + found.stop;
        const uint64_t length = load64(header);
        if (found.n_frames == room) {
            found.why = SCAN_FULL;
            break;
        }
        if (length > SCAN_MAX_LENGTH || !is_tfrecord_header(crc32c, header)) {
            found.why = SCAN_UNSOUND;
            break;
        }
        const int64_t footer = found.stop + SCAN_TFRECORD_HEAD + (int64_t)length;
        lengths[found.n_frames] = (int64_t)length;
        footers[found.n_frames] = footer <= n_bytes - SCAN_TFRECORD_TAIL ? crc_load32(window + footer) : 0;
        found.n_frames++;
        found.stop = footer + SCAN_TFRECORD_TAIL;
    }
    return found;
}

scan_found scan_ofrecord(const uint8_t *window, int64_t n_bytes, int64_t at, int64_t *lengths, int64_t room) {
    scan_found found = {0, at, SCAN_ENDS};
    while (found.stop <= n_bytes - SCAN_OFRECORD_HEAD) {
        const uint64_t length = load64(window + found.stop); /* a negative one is past the longest */
        if (found.n_frames == room) {
            found.why = SCAN_FULL;
            break;
        }
        if (length > SCAN_MAX_LENGTH) {
            found.why = SCAN_UNSOUND;
            break;
        }
        lengths[found.n_frames++] = (int64_t)length;
        found.stop += SCAN_OFRECORD_HEAD + (int64_t)length;
    }
    return found;
}

int64_t scan_tfrecord_header(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                             int64_t most) {
    for (; at <= n_bytes - SCAN_TFRECORD_HEAD; at++) {
        /* The length first: it refuses nearly everything, and costs less than the checksum. */
        const uint64_t length = load64(window + at);
        if (length <= SCAN_MAX_LENGTH && (int64_t)length <= most && is_tfrecord_header(crc32c, window + at)) {
            return at;
        }
    }
    return -1;
}
