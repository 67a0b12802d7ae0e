/* Scans frames, lines, or JSON documents in a window of bytes, to index a file.
 *
 * A frame is a header that begins with the length of the data, the data, a footer; frames lie back to back.
 * TFRecord: uint64 length, masked CRC-32C of these 8 bytes, data, masked CRC-32C of the data. OFRecord: int64
 * length, data. All little-endian. Data are neither read nor verified.
 *
 * The result depends only on the bytes from the first frame on, not on any before it. So scans from several places
 * of a file join safely: once one reaches a frame of another, the rest of both is the same. That is why a large file
 * can be scanned in pieces, whatever its data contain.
 *
 * Kernels know no Python, keep no state, allocate nothing and may run in any number of threads at once. */
#ifndef DATAFORMATS_SCAN_H
#define DATAFORMATS_SCAN_H

#include "checksum/crc.h"

/* No file is longer, and positions behind such a record still fit int64. Longer lengths are invalid. */
#define SCAN_MAX_LENGTH ((uint64_t)1 << 62)

#define SCAN_OFRECORD_HEAD 8

/* Why a scan stopped. */
enum {
    SCAN_ENDS = 0,   /* the next header is not wholly in the window */
    SCAN_FULL = 1,   /* the output has no room for the next frame */
    SCAN_UNSOUND = 2, /* the next header is invalid: its checksum or its length */
    SCAN_CLOSED = 3   /* the list or object whose values are counted has ended */
};

typedef struct {
    int64_t n_frames; /* with headers in the window; the last may end behind it */
    int64_t stop;     /* begin of the next frame, in the window or behind it */
    int why;
} scan_found;

/* Scan the TFRecords of `window[at .. n_bytes)`, `at` >= 0. The first begins at `at`.
 *
 * `lengths` and `footers` have room for `room` frames; `lengths[i]` is the length of the data of frame i,
 * `footers[i]` the masked CRC-32C behind them, or 0 if that is not wholly in the window (which can only happen
 * to the last frame). */
scan_found scan_tfrecord(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                         int64_t *lengths, uint32_t *footers, int64_t room);

/* The same for OFRecords, which have no checksums: a length is invalid if it is negative or too long. */
scan_found scan_ofrecord(const uint8_t *window, int64_t n_bytes, int64_t at, int64_t *lengths, int64_t room);

/* Return the first place in `window[at .. n_bytes)`, `at` >= 0, of 12 bytes that could be the header of a TFRecord
 * of up to `most` bytes, by their checksum; or -1. They may still be data. */
int64_t scan_tfrecord_header(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                             int64_t most);

typedef struct {
    int64_t n_lines; /* that end in the window */
    int64_t stop;    /* behind the last of them */
    int64_t n_crlf;  /* those that end in \r\n within `window[at .. n_bytes)` */
    int64_t n_blank;
} scan_lines_found;

/* Find the ends (\n) of up to `room` lines of `window[at .. n_bytes)`, `at` >= 0. The first line begins at `at`.
 *
 * `lengths[i]` is the number of bytes of line i with its \n; it is negative if the line is blank: spaces, \t and \r
 * alone. */
scan_lines_found scan_lines(const uint8_t *window, int64_t n_bytes, int64_t at, int64_t *lengths, int64_t room);

/* Where a scan of JSON stands between two windows. */
typedef struct {
    int64_t depth; /* lists and objects that are open */
    int64_t text;  /* 0 outside of text, 1 in it, 2 behind a backslash in it */
} scan_json_state;

/* Find the ends of up to `room` values of a JSON document in `window[at .. n_bytes)`, `at` >= 0.
 *
 * `level` 1: values between commas, in the list or object that is open at depth 1; `ends[i]` is the byte behind the
 * comma. `level` 0: lists and objects one behind another; `ends[i]` is the byte behind the bracket at its end. The scan
 * stops behind the bracket that leaves the level (SCAN_CLOSED), or behind the last end that has room (SCAN_FULL).
 * Text, escapes and depth are followed, nothing else is verified. `n_frames` is the number of ends. */
scan_found scan_json(const uint8_t *window, int64_t n_bytes, int64_t at, int level, scan_json_state *state,
                     int64_t *ends, int64_t room);

#endif
