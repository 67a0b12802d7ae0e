/* Reads a batch: the blobs of many extents of files to their places in arrays, verified.
 *
 * Files are read through an engine, or lie in memory. The checks below cover what the frames of the formats have in
 * common. These kernels only report that a record fails; the caller finds out which one and why. They know no Python,
 * keep no state and allocate nothing. */
#ifndef DATAFORMATS_BATCH_H
#define DATAFORMATS_BATCH_H

#include <stdint.h>

#include "checksum/crc.h"
#include "batch/layout.h"
#include "io/map_copy.h"
#include "io/read.h"

/* How a blob is verified. */
typedef enum {
    BATCH_UNCHECKED,
    BATCH_CRC32,   /* the CRC-32 of the blob is `stored` */
    BATCH_LENGTH,  /* the head begins with the length of the blob, 8 bytes, little-endian */
    BATCH_TFRECORD /* head: the length and its masked CRC-32C; tail: that of the blob, equal to `stored` */
} batch_check;

/* One file: in memory, or behind a descriptor. */
typedef struct {
    const uint8_t *memory; /* NULL: read it through `fd` */
    int fd;                /* BATCH_SKIP: this call reads nothing from it */
    int64_t n_bytes;
    int64_t mtime_ns; /* of the file when it was opened; below 0: not checked */
    const file_map *map; /* of the same file, all of it; NULL: it is not mapped */
} batch_file;

/* A part at the same place of all blobs that goes to a separate array: a picture within a record, for example.
 * A blob that is too short for it stays whole, and its row of `out` is not written. */
typedef struct {
    int64_t begin;   /* from the beginning of a blob; below 0: from its end */
    int64_t n_bytes; /* 0: no slice */
    uint8_t *out;    /* a row of `n_bytes` for each blob */
    int64_t n_out;
} batch_slice;

/* The extents of one field, and memory for their blobs. */
typedef struct {
    layout_extents extents;
    const int64_t *place; /* in `out`, back to back from 0; and the end of the last */
    int64_t head, tail;   /* bytes of framing around each blob, in [0, BATCH_MAX_FRAMING] */
    batch_check check;
    uint8_t *out;
    int64_t n_out;
    batch_slice slice;
} batch_field;

#define BATCH_MAX_FRAMING 64
#define BATCH_SKIP (-2)
#define BATCH_SPAN_PARTS 6 /* of a read, for each blob: a gap, the head, up to three pieces, the tail */

/* One blob with its framing. */
typedef struct {
    int64_t start, stop; /* in the file */
    int64_t row;         /* in its field */
    int32_t file, field;
} batch_span;

/* Neighboring spans that are read by one system call. */
typedef struct {
    int64_t first, n; /* spans */
    int64_t scratch;  /* its offset in the scratch memory, if several runs are read at once */
    int is_done;
    int is_direct;   /* its blobs are read to their places; else to scratch memory, and copied from there */
} batch_run;

typedef struct {
    const batch_file *files;
    int64_t n_files;
    const batch_field *fields;
    int64_t n_fields;
    crc_kernel *crc32, *crc32c;
    batch_span *spans; /* room for all rows of all fields; NULL if all files are in memory or skipped */
    int64_t n_spans;   /* spans that are not in memory */
    batch_run *runs;   /* room for as many */
    int64_t n_runs;
    int64_t n_scratch; /* the most scratch memory that a run needs, in bytes */
} batch;

/* Check every extent against its file and its place, and plan the reads: fills the last four members. Return 0, or -1
 * if an extent does not fit, or its place is not right behind the one before. `n_spans` may be 0 afterwards. */
int batch_plan(batch *plan);

/* Return the cost of a plan, in bytes copied within memory. */
int64_t batch_effort(const batch *plan);

/* A read has three steps. The first two are divided into shares, which several threads may do at once. */

/* Copy and verify the blobs of files in memory. Return 0, or -1 if one is invalid. */
int batch_copy(const batch *plan, int64_t share, int64_t n_shares);

/* Return whether a run is short enough to be copied from a mapped file. */
int batch_is_short(const batch *plan, const batch_run *run);

/* If the engine tries cached data first: read and verify, run by run, the runs that need no waiting. Without an engine:
 * read all runs, one system call after the other. `scratch`: `n_scratch` bytes, used for each run; `parts`:
 * READ_MAX_PARTS. Short runs of mapped files are copied by `copier`, unless it is NULL, until a page has to be waited
 * for: then `waited` is set. Return 0, or -1 if something failed. */
int batch_try(const batch *plan, const read_engine *engine, int64_t share, int64_t n_shares, uint8_t *scratch,
              read_part *parts, map_copier *copier, int *waited);

/* Move the remaining runs to the front. Return their number; `n_scratch`: the scratch memory for all of them. */
int64_t batch_left(batch *plan, int64_t *n_scratch);

/* Read and verify the first `n` runs by an engine, all at once, and check that no file has changed since it was opened.
 * `scratch`: see `batch_left`; `requests`: `n`; `parts`: BATCH_SPAN_PARTS times `n_spans`. Return 0, or -1 if something
 * failed. */
int batch_read(const batch *plan, read_engine *engine, int64_t n, uint8_t *scratch, read_request *requests,
               read_part *parts);

#endif
