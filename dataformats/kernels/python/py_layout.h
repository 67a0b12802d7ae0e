#ifndef DATAFORMATS_PY_LAYOUT_H
#define DATAFORMATS_PY_LAYOUT_H

#include <stdatomic.h>

#include "batch/batch.h"
#include "batch/index.h"
#include "python/py_native.h"

/* The files of a dataset, in arrays of the caller, who may bring a file into memory at any time. */
typedef struct {
    Py_buffer memories, sizes, mtimes;
    int64_t n;
    file_map *_Atomic *maps; /* of each file, NULL if it is not mapped; they last as long as the capsule */
    atomic_int n_maps;
    atomic_int warmth;
} held_files;

/* Whether files are copied from maps: if the read before found everything in the page cache. */
enum { WARMTH_UNKNOWN, WARMTH_WARM, WARMTH_NEVER };

/* The extents of the blobs of some records, and their places in memory. */
typedef struct {
    PyObject *indexes; /* the tuple of capsules, whose arrays the fields may point to */
    PyObject *held;    /* the capsule of the files */
    Py_buffer room;    /* for each field the places of its n blobs, the end of the last, and their n lengths */
    uint8_t *rows;     /* file, offset and checksum of the selected records */
    batch_file *files; /* without descriptors */
    int64_t n_files;
    batch_field *fields; /* without outputs */
    int64_t n_fields;
} laid_out;

/* Return the layout in a capsule of `lay_out`, or NULL with an exception set. The capsule must stay referenced. */
laid_out *laid_in(PyObject *capsule);

/* Where the blobs of all records lie. */
typedef struct {
    Py_buffer file, offset, length, stored; /* arrays of `hold_extents` */
    batch_field field;                      /* without places and outputs */
    index_set set;                          /* of `hold_index`, instead of extents */
    Py_buffer starts;                       /* its array */
    PyObject **sources;                     /* of each part of the set; NULL without a set */
    atomic_int n_paths;                     /* parts that are read from files: release the GIL */
    int has_stored;
} held_extents;

/* Return the extents in a capsule of `hold_extents` or `hold_index`; NULL with an exception set. The capsule must stay
 * referenced. */
const held_extents *extents_in(PyObject *capsule);

/* Write the extents of records; `stored` only if `held->has_stored`. Return -1, or the first position with a record
 * that cannot be looked up here. Needs no GIL. */
int64_t held_look_up(const held_extents *held, const int64_t *records, int64_t n, int32_t *file, int64_t *offset,
                     int64_t *length, uint32_t *stored);

/* Return the files in a capsule of `hold_files`, or NULL with an exception set. The capsule must stay referenced. */
held_files *files_in(PyObject *capsule);

/* Return a file, without a descriptor. */
batch_file file_at(const held_files *files, int64_t number);

/* Return a file mapped, now if necessary; NULL if that is not possible, or too many are. Thread-safe. */
const file_map *map_of(held_files *files, int64_t number, int fd, int64_t n_bytes);

#endif
