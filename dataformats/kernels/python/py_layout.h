#ifndef DATAFORMATS_PY_LAYOUT_H
#define DATAFORMATS_PY_LAYOUT_H

#include "batch/batch.h"
#include "python/py_native.h"

/* The extents of the blobs of some records, and their places in memory. */
typedef struct {
    PyObject *indexes; /* the tuple of capsules, whose arrays the fields may point to */
    Py_buffer sizes;   /* of the files */
    Py_buffer room;    /* for each field the places of its n blobs, the end of the last, and their n lengths */
    uint8_t *rows;     /* file, offset and checksum of the selected records */
    batch_file *files; /* without descriptors */
    int64_t n_files;
    batch_field *fields; /* without outputs */
    int64_t n_fields;
} laid_out;

/* Return the layout in a capsule of `lay_out`, or NULL with an exception set. The capsule must stay referenced. */
laid_out *laid_in(PyObject *capsule);

#endif
