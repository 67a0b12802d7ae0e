/* Walks from frame to frame through a window of bytes: what builds an index of a file that has none.
 *
 * A frame is a header that begins with the length of the data, the data, a footer; frames lie back to back.
 * TFRecord: uint64 length, masked CRC-32C of these 8 bytes, data, masked CRC-32C of the data. OFRecord: int64
 * length, data. All little-endian. Data are neither read nor checked.
 *
 * What a walk finds is a function of the bytes from its first frame on, and of nothing before it. So walks
 * that begin at several places of a file join without a doubt: where one arrives at a frame of another, the
 * rest of both is the same. That is why a large file may be walked in pieces, whatever its data look like.
 *
 * Kernels know no Python, keep no state, allocate nothing and may run in any number of threads at once. */
#ifndef DATAFORMATS_SCAN_H
#define DATAFORMATS_SCAN_H

#include "checksum/crc.h"

/* No file is longer, and positions behind such a record still fit int64. Longer ones are unsound. */
#define SCAN_MAX_LENGTH ((uint64_t)1 << 62)

#define SCAN_OFRECORD_HEAD 8

/* Why a walk stopped. */
enum {
    SCAN_ENDS = 0,   /* the next header does not lie in the window with all its bytes */
    SCAN_FULL = 1,   /* there is no room for the next frame in the output */
    SCAN_UNSOUND = 2 /* the next header cannot be right: its checksum or its length */
};

typedef struct {
    int64_t n_frames; /* whose headers lie in the window; the last may end behind it */
    int64_t stop;     /* where in the window, or behind it, the next frame begins */
    int why;
} scan_found;

/* Walk through the TFRecords of `window[at .. n_bytes)`, `at` >= 0, the first of which begins at `at`.
 *
 * `lengths` and `footers` have room for `room` frames; `lengths[i]` is the length of the data of frame i,
 * `footers[i]` the masked CRC-32C behind them, or 0 where that does not lie in the window with all its bytes
 * (which can happen to the last frame only). */
scan_found scan_tfrecord(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                         int64_t *lengths, uint32_t *footers, int64_t room);

/* The same for OFRecords, which have no checksums: a length is unsound if it is negative or too long. */
scan_found scan_ofrecord(const uint8_t *window, int64_t n_bytes, int64_t at, int64_t *lengths, int64_t room);

/* Return where in `window[at .. n_bytes)`, `at` >= 0, the first 12 bytes stand that could be the header of a
 * TFRecord of up to `most` bytes, by their checksum; or -1. They may be data all the same. */
int64_t scan_tfrecord_header(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                             int64_t most);

#endif
