/* TFRecord's frames: a head of the length (uint64) and its checksum, the data, a tail with the checksum of the data.
 * Source: tensorflow/core/lib/hash/crc32c.h. */
#ifndef DATAFORMATS_TFRECORD_H
#define DATAFORMATS_TFRECORD_H

#include "checksum/crc.h"
#include "checksum/little_endian.h"

#define TFRECORD_HEAD 12
#define TFRECORD_TAIL 4

/* Return the stored form of a CRC-32C: rotated, plus kMaskDelta. */
static inline uint32_t tfrecord_masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

/* Return whether the checksum in a head matches its length. */
static inline int tfrecord_head_is_sound(crc_kernel *crc32c, const uint8_t *head) {
    return tfrecord_masked(crc32c(0, head, 8)) == load32_le(head + 8);
}

#endif
