/* The wrapper of gathering. */
#include "python/py_native.h"

#include <string.h>

#include "batch/gather.h"

typedef struct {
    Py_buffer buffer, starts, lengths, out;
} views;

static void release(views *held) {
    PyBuffer_Release(&held->buffer);
    PyBuffer_Release(&held->starts);
    PyBuffer_Release(&held->lengths);
    PyBuffer_Release(&held->out);
}

/* Fill the views. Return 0, or -1 with an exception set. */
static int take(PyObject *const *args, views *held) {
    if (take_bytes(args[0], &held->buffer) < 0 ||
        take_int64(args[1], &held->starts, "starts must be a contiguous int64 array of one dimension") < 0 ||
        take_int64(args[2], &held->lengths, "lengths must be a contiguous int64 array of one dimension") < 0 ||
        take_array(args[3], &held->out, PyBUF_WRITABLE, "B", 1,
                   "out must be a writable contiguous uint8 array of one dimension") < 0) {
        return -1;
    }
    if (held->starts.len != held->lengths.len) {
        PyErr_Format(PyExc_ValueError, "starts and lengths must be equally long, found %zd and %zd",
                     held->starts.len / 8, held->lengths.len / 8);
        return -1;
    }
    return 0;
}

static int64_t copy(const views *held) {
    return gather(held->buffer.buf, held->buffer.len, held->starts.buf, held->lengths.buf, held->starts.len / 8,
                  held->out.buf, held->out.len);
}

static PyObject *native_gather(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    views held;
    memset(&held, 0, sizeof held);
    if (check_count("gather", n_args, 4, 4) < 0 || take(args, &held) < 0) {
        release(&held);
        return NULL;
    }
    int64_t failed;
    if (held.out.len >= RELEASE_GIL_BYTES) {
        Py_BEGIN_ALLOW_THREADS failed = copy(&held);
        Py_END_ALLOW_THREADS
    } else {
        failed = copy(&held);
    }
    release(&held);
    return PyLong_FromLongLong(failed);
}

PyMethodDef gather_methods[] = {
    FAST(gather, "gather(buffer, starts, lengths, out, /)\n--\n\n"
                 "Copy extents back to back; return -1, or the number of the first that does not fit."),
    {NULL, NULL, 0, NULL},
};
