/* A batch in one go: the blobs of many extents of files into their places in arrays, verified.
 *
 * Extents lie in files that are read through an engine, or in memory. What the checks below know is what the
 * frames of the formats have in common; why a record fails, and in which words, the caller finds out: these
 * kernels only say that one does. They know no Python, keep no state and allocate nothing. */
#ifndef DATAFORMATS_BATCH_H
#define DATAFORMATS_BATCH_H

#include <stdint.h>

#include "checksum/crc.h"
#include "batch/layout.h"
#include "io/read.h"

/* What tells that a blob is sound. */
typedef enum {
    BATCH_UNCHECKED,
    BATCH_CRC32,   /* the CRC-32 of the blob is `stored` */
    BATCH_LENGTH,  /* the head begins with the length of the blob, 8 bytes, little-endian */
    BATCH_TFRECORD /* head: the length and its masked CRC-32C; tail: that of the blob, which is `stored` as well */
} batch_check;

/* One file: in memory, or behind a descriptor. */
typedef struct {
    const uint8_t *memory; /* NULL: read it through `fd` */
    int fd;                /* BATCH_LEFT: what lies in it is left to another call */
    int64_t n_bytes;
    int64_t mtime_ns; /* of the file when it was opened; below 0: not looked at */
} batch_file;

/* A part that blobs have at the same place, and that goes to an array of its own: a picture within a record, say.
 * A blob that is too short to have it stays whole. What is not written of `out` is left as it was. */
typedef struct {
    int64_t begin;   /* from the beginning of a blob; below 0: from its end */
    int64_t n_bytes; /* 0: no such part */
    uint8_t *out;    /* a row of `n_bytes` for each blob */
    int64_t n_out;
} batch_window;

/* The extents of one field, and where their blobs go. */
typedef struct {
    layout_extents extents;
    const int64_t *place; /* in `out`, back to back from 0; and where the last one ends */
    int64_t head, tail;   /* bytes of framing around each blob, in [0, BATCH_MAX_FRAMING] */
    batch_check check;
    uint8_t *out;
    int64_t n_out;
    batch_window window;
} batch_field;

#define BATCH_MAX_FRAMING 64
#define BATCH_LEFT (-2)
#define BATCH_SPAN_PARTS 6 /* of a read, for each blob: a gap, the head, up to three parts, the tail */

/* One blob with its framing. */
typedef struct {
    int64_t start, stop; /* in the file */
    int64_t row;         /* in its field */
    int32_t file, field;
} batch_span;

/* Neighbouring spans that are read by one call. */
typedef struct {
    int64_t first, n; /* spans */
    int64_t scratch;  /* where in the scratch memory its own part lies, where several are read at once */
    int is_done;
} batch_run;

typedef struct {
    const batch_file *files;
    int64_t n_files;
    const batch_field *fields;
    int64_t n_fields;
    crc_kernel *crc32, *crc32c;
    batch_span *spans; /* room for all rows of all fields; NULL where all files are in memory or left */
    int64_t n_spans;   /* those that are not in memory */
    batch_run *runs;   /* room for as many */
    int64_t n_runs;
    int64_t n_scratch; /* bytes of scratch memory that the run needs that needs most */
} batch;

/* Check every extent against its file and its place, and plan the reads: fills the last four. Return 0, or -1
 * where an extent does not fit, or lies elsewhere than behind the one before. `n_spans` may be 0 afterwards. */
int batch_plan(batch *plan);

/* Return what the copies and reads of a plan cost: as much as copying so many bytes that lie in memory. */
int64_t batch_effort(const batch *plan);

/* The work is done in three steps. The first two are cut into shares, which several threads may do at once. */

/* Copy and verify the blobs that lie in memory. Return 0, or -1 where one is not sound. */
int batch_copy(const batch *plan, int64_t share, int64_t n_shares);

/* Read and verify what needs no waiting, run by run through the same scratch memory, where the engine tries that first;
 * without an engine all, one call after the other. `scratch`: `n_scratch` bytes; `parts`: READ_MAX_PARTS. Return 0, or
 * -1 where something failed. */
int batch_try(const batch *plan, const read_engine *engine, int64_t share, int64_t n_shares, uint8_t *scratch,
              read_part *parts);

/* Move the runs that are left to the front. Return how many there are; `n_scratch`: what they need together. */
int64_t batch_left(batch *plan, int64_t *n_scratch);

/* Read and verify the first `n` runs by an engine, all at once, and see that no file is another than it was when it
 * was opened. `scratch`: as `batch_left` says; `requests`: `n`; `parts`: BATCH_SPAN_PARTS times `n_spans`. Return 0, or -1
 * where something failed. */
int batch_read(const batch *plan, read_engine *engine, int64_t n, uint8_t *scratch, read_request *requests, read_part *parts);

#endif
