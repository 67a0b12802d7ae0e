/* The wrapper of best fit. */
#include "python/py_native.h"

#include <stdlib.h>

#include "pack/best_fit.h"

/* Return what `best_fit` returns, -2 without memory. */
static int64_t placed(const Py_buffer *lengths, int64_t row_length, int64_t *rows) {
    const int64_t n = lengths->len / 8;
    best_fit_room room = {
        malloc(((size_t)n + 1) * 8),
        calloc((size_t)row_length + 1, 8),
        calloc((size_t)row_length / 64 + 1, 8),
        calloc((size_t)row_length / 4096 + 1, 8),
    };
    const int has_room = room.next != NULL && room.first != NULL && room.words != NULL && room.groups != NULL;
    const int64_t failed = has_room ? best_fit(lengths->buf, n, row_length, room, rows) : -2;
    free(room.next);
    free(room.first);
    free(room.words);
    free(room.groups);
    return failed;
}

static PyObject *native_best_fit(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    Py_buffer lengths = {0}, rows = {0};
    long row_length;
    int64_t failed = -1;
    if (check_count("best_fit", n_args, 3, 3) < 0 ||
        take_int64(args[0], &lengths, "lengths must be a contiguous int64 array of one dimension") < 0 ||
        take_small(args[1], "row_length", INT32_MAX, &row_length) < 0 ||
        take_array(args[2], &rows, PyBUF_WRITABLE, "lq", 8,
                   "rows must be a writable contiguous int64 array of one dimension") < 0) {
        /* an exception is set */
    } else if (lengths.len != rows.len) {
        PyErr_Format(PyExc_ValueError, "lengths and rows must be equally long, found %zd and %zd", lengths.len / 8,
                     rows.len / 8);
    } else {
        Py_BEGIN_ALLOW_THREADS failed = placed(&lengths, row_length, rows.buf);
        Py_END_ALLOW_THREADS
        if (failed == -2) {
            PyErr_NoMemory();
        } else if (failed >= 0) {
            PyErr_Format(PyExc_ValueError, "length %lld is outside [1, %ld]", (long long)failed, row_length);
        }
    }
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&rows);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef pack_methods[] = {
    FAST(best_fit, "best_fit(lengths, row_length, rows, /)\n--\n\n"
                   "Write the row of each item: the fullest that has room for it."),
    {NULL, NULL, 0, NULL},
};
