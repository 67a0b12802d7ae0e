/* The wrapper of gathering. */
#include "python/py_native.h"

#include <stdlib.h>
#include <string.h>

#include "batch/gather.h"

typedef struct {
    Py_ssize_t n_buffers;
    Py_buffer *held;
    gather_buffer *buffers;
    Py_buffer numbers, starts, lengths, out;
} views;

static void release(views *all) {
    for (Py_ssize_t i = 0; i < all->n_buffers; i++) {
        PyBuffer_Release(&all->held[i]);
    }
    free(all->held);
    free(all->buffers);
    PyBuffer_Release(&all->numbers);
    PyBuffer_Release(&all->starts);
    PyBuffer_Release(&all->lengths);
    PyBuffer_Release(&all->out);
}

/* Fill the views of a list of buffers. Return 0, or -1 with an exception set. */
static int take_buffers(PyObject *list, views *all) {
    const Py_ssize_t n = PyList_Size(list);
    if (n < 0 || (all->held = room_for(n, sizeof *all->held)) == NULL ||
        (all->buffers = room_for(n, sizeof *all->buffers)) == NULL) {
        return -1;
    }
    for (; all->n_buffers < n; all->n_buffers++) {
        PyObject *item = PyList_GetItem(list, all->n_buffers); /* NULL if another thread shortened the list */
        Py_buffer *view = &all->held[all->n_buffers];
        if (item == NULL || take_bytes(item, view) < 0) {
            return -1;
        }
        all->buffers[all->n_buffers] = (gather_buffer){view->buf, view->len};
    }
    return 0;
}

/* Fill the views. Return 0, or -1 with an exception set. */
static int take(PyObject *const *args, views *all) {
    if (take_buffers(args[0], all) < 0 ||
        take_int64(args[1], &all->numbers, "numbers must be a contiguous int64 array of one dimension") < 0 ||
        take_int64(args[2], &all->starts, "starts must be a contiguous int64 array of one dimension") < 0 ||
        take_int64(args[3], &all->lengths, "lengths must be a contiguous int64 array of one dimension") < 0 ||
        take_array(args[4], &all->out, PyBUF_WRITABLE, "B", 1,
                   "out must be a writable contiguous uint8 array of one dimension") < 0) {
        return -1;
    }
    if (all->starts.len != all->lengths.len || all->starts.len != all->numbers.len) {
        PyErr_Format(PyExc_ValueError, "numbers, starts and lengths must be equally long, found %zd, %zd and %zd",
                     all->numbers.len / 8, all->starts.len / 8, all->lengths.len / 8);
        return -1;
    }
    return 0;
}

static int64_t copy(const views *all) {
    return gather(all->buffers, all->n_buffers, all->numbers.buf, all->starts.buf, all->lengths.buf,
                  all->starts.len / 8, all->out.buf, all->out.len);
}

static PyObject *native_gather(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    views all;
    memset(&all, 0, sizeof all);
    if (check_count("gather", n_args, 5, 5) < 0 || take(args, &all) < 0) {
        release(&all);
        return NULL;
    }
    int64_t failed;
    if (all.out.len >= RELEASE_GIL_BYTES) {
        Py_BEGIN_ALLOW_THREADS failed = copy(&all);
        Py_END_ALLOW_THREADS
    } else {
        failed = copy(&all);
    }
    release(&all);
    return PyLong_FromLongLong(failed);
}

PyMethodDef gather_methods[] = {
    FAST(gather, "gather(buffers, numbers, starts, lengths, out, /)\n--\n\n"
                 "Copy extents back to back; return -1, or the number of the first that does not fit."),
    {NULL, NULL, 0, NULL},
};
