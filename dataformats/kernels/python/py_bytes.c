/* Many `bytes` objects at once: their memory is copied without the GIL. */
#include "python/py_native.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint8_t *to;
    const uint8_t *from;
    Py_ssize_t n_bytes;
} copy;

static void run(const copy *copies, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        memcpy(copies[i].to, copies[i].from, (size_t)copies[i].n_bytes);
    }
}

/* Nobody else has a reference to the targets, and the sources are held. */
static void run_without_gil(const copy *copies, Py_ssize_t n, Py_ssize_t n_bytes) {
    if (n_bytes < RELEASE_GIL_BYTES) {
        run(copies, n);
        return;
    }
    Py_BEGIN_ALLOW_THREADS run(copies, n);
    Py_END_ALLOW_THREADS
}

/* Return a new list of uninitialized bytes, one for each extent, and fill `copies`. */
static PyObject *make_list(const Py_buffer *buffer, const Py_buffer *starts, const Py_buffer *lengths, copy *copies,
                           Py_ssize_t *n_bytes) {
    const Py_ssize_t n = starts->len / 8;
    const int64_t *start = starts->buf, *length = lengths->buf;
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        if (start[i] < 0 || length[i] < 0 || start[i] > buffer->len || length[i] > buffer->len - start[i]) {
            PyErr_Format(PyExc_ValueError, "extent %zd (start %lld, length %lld) is outside the buffer", i,
                         (long long)start[i], (long long)length[i]);
            Py_CLEAR(list);
            break;
        }
        PyObject *item = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length[i]);
        if (item == NULL || PyList_SetItem(list, i, item) < 0) {
            Py_CLEAR(list);
            break;
        }
        copies[i] = (copy){(uint8_t *)PyBytes_AsString(item), (const uint8_t *)buffer->buf + start[i],
                           (Py_ssize_t)length[i]};
        *n_bytes += (Py_ssize_t)length[i];
    }
    return list;
}

static PyObject *native_bytes_list(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    Py_buffer buffer = {0}, starts = {0}, lengths = {0};
    PyObject *list = NULL;
    copy *copies = NULL;
    Py_ssize_t n_bytes = 0;
    if (check_count("bytes_list", n_args, 3, 3) < 0 || take_bytes(args[0], &buffer) < 0 ||
        take_int64(args[1], &starts, "starts must be a contiguous int64 array of one dimension") < 0 ||
        take_int64(args[2], &lengths, "lengths must be a contiguous int64 array of one dimension") < 0) {
        goto done;
    }
    if (starts.len != lengths.len) {
        PyErr_Format(PyExc_ValueError, "starts and lengths must be equally long, found %zd and %zd", starts.len / 8,
                     lengths.len / 8);
        goto done;
    }
    copies = room_for(starts.len / 8, sizeof *copies);
    if (copies != NULL) {
        list = make_list(&buffer, &starts, &lengths, copies, &n_bytes);
    }
    if (list != NULL) {
        run_without_gil(copies, starts.len / 8, n_bytes);
    }
done:
    free(copies);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&lengths);
    return list;
}

/* Append a copy to `copies`, in `out` behind the one before it. Return 0, or -1 if it does not fit. */
static int add_copy(copy **next, Py_ssize_t *done, const Py_buffer *out, const char *from, Py_ssize_t n_bytes) {
    if (n_bytes > out->len - *done) {
        return -1;
    }
    *(*next)++ = (copy){(uint8_t *)out->buf + *done, (const uint8_t *)from, n_bytes};
    *done += n_bytes;
    return 0;
}

/* Fill `copies` with the head, the item and the foot of each frame, back to back in `out`. Return 0, or -1 with an
 * exception set. */
static int take_frames(const Py_buffer *heads, PyObject *items, const Py_buffer *feet, const Py_buffer *out,
                       copy *copies) {
    const Py_ssize_t n = PyTuple_Size(items), head = n ? heads->len / n : 0, foot = n ? feet->len / n : 0;
    Py_ssize_t done = 0;
    int fits = head * n == heads->len && foot * n == feet->len;
    for (Py_ssize_t i = 0; fits && i < n; i++) {
        char *item;
        Py_ssize_t n_bytes;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(items, i), &item, &n_bytes) < 0) {
            return -1;
        }
        fits = add_copy(&copies, &done, out, (const char *)heads->buf + head * i, head) == 0 &&
               add_copy(&copies, &done, out, item, n_bytes) == 0 &&
               add_copy(&copies, &done, out, (const char *)feet->buf + foot * i, foot) == 0;
    }
    if (fits && done == out->len) {
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "out must have as many bytes as all frames, found %zd", out->len);
    return -1;
}

static PyObject *native_join_frames(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    Py_buffer heads = {0}, feet = {0}, out = {0};
    PyObject *items = NULL, *result = NULL;
    copy *copies = NULL;
    /* A tuple, which no other thread changes. */
    if (check_count("join_frames", n_args, 4, 4) == 0 && take_bytes(args[0], &heads) == 0 &&
        take_bytes(args[2], &feet) == 0 &&
        take_array(args[3], &out, PyBUF_WRITABLE, "B", 1,
                   "out must be a writable contiguous uint8 array of one dimension") == 0 &&
        (items = PySequence_Tuple(args[1])) != NULL) {
        const Py_ssize_t n = 3 * PyTuple_Size(items);
        copies = room_for(n, sizeof *copies);
        if (copies != NULL && take_frames(&heads, items, &feet, &out, copies) == 0) {
            run_without_gil(copies, n, out.len);
            result = Py_NewRef(Py_None);
        }
    }
    free(copies);
    Py_XDECREF(items);
    PyBuffer_Release(&heads);
    PyBuffer_Release(&feet);
    PyBuffer_Release(&out);
    return result;
}

PyMethodDef bytes_methods[] = {
    FAST(bytes_list, "bytes_list(buffer, starts, lengths, /)\n--\n\nReturn a bytes object of each extent."),
    FAST(join_frames, "join_frames(heads, items, feet, out, /)\n--\n\n"
                     "Copy bytes objects back to back, each between its head and its foot; they fill `out`."),
    {NULL, NULL, 0, NULL},
};
