#ifndef DATAFORMATS_PY_LAYOUT_H
#define DATAFORMATS_PY_LAYOUT_H

#include "batch/batch.h"
#include "python/py_native.h"

/* Where the blobs of some records lie, and where they go. */
typedef struct {
    PyObject *indexes; /* the tuple of capsules, whose arrays the fields may point to */
    Py_buffer sizes;   /* of the files */
    Py_buffer room;    /* of each field the places of its n blobs, where the last one ends, and their n lengths */
    uint8_t *rows;     /* file, offset and checksum of what was looked up */
    batch_file *files; /* without descriptors */
    int64_t n_files;
    batch_field *fields; /* without outputs */
    int64_t n_fields;
} laid_out;

/* Return what a capsule of `lay_out` holds, or NULL with an exception set. The capsule must stay referenced. */
laid_out *laid_in(PyObject *capsule);

#endif
