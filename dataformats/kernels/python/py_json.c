/* The wrapper of the kernels for JSON. */
#include "python/py_native.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_fields.h"

typedef struct {
    Py_buffer buffer, starts, lengths;
    Py_buffer kinds, begins, sizes, numbers; /* of all fields, one behind the other */
    Py_ssize_t n_names;
    json_name *names;
    json_values *values;
} find_views;

static void release_find(find_views *views) {
    PyBuffer_Release(&views->buffer);
    PyBuffer_Release(&views->starts);
    PyBuffer_Release(&views->lengths);
    PyBuffer_Release(&views->kinds);
    PyBuffer_Release(&views->begins);
    PyBuffer_Release(&views->sizes);
    PyBuffer_Release(&views->numbers);
    free(views->names);
    free(views->values);
}

static int take_out(PyObject *object, Py_buffer *view) {
    return take_array(object, view, PyBUF_WRITABLE, "lq", 8, "outputs must be writable contiguous int64 arrays");
}

/* Fill the names from a tuple of bytes, which holds them, and the place of the values of each. */
static int take_names(PyObject *names, find_views *views) {
    const Py_ssize_t n_records = views->starts.len / 8, n = PyTuple_Size(names);
    if (n < 0 || (views->names = room_for(n, sizeof *views->names)) == NULL ||
        (views->values = room_for(n, sizeof *views->values)) == NULL) {
        return -1;
    }
    if (views->lengths.len / 8 != n_records || (n_records > 0 && n > PY_SSIZE_T_MAX / 8 / n_records) ||
        views->kinds.len != n * n_records || views->begins.len != 8 * n * n_records ||
        views->sizes.len != views->begins.len || views->numbers.len != views->begins.len) {
        PyErr_SetString(PyExc_ValueError, "expected starts and lengths of n records, and outputs of n for each name");
        return -1;
    }
    for (; views->n_names < n; views->n_names++) {
        char *bytes;
        Py_ssize_t n_bytes;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(names, views->n_names), &bytes, &n_bytes) < 0) {
            return -1;
        }
        const Py_ssize_t first = views->n_names * n_records;
        views->names[views->n_names] = (json_name){(const uint8_t *)bytes, n_bytes};
        views->values[views->n_names] =
            (json_values){(uint8_t *)views->kinds.buf + first, (int64_t *)views->begins.buf + first,
                          (int64_t *)views->sizes.buf + first, (int64_t *)views->numbers.buf + first};
    }
    return 0;
}

static PyObject *native_json_find(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    find_views views;
    memset(&views, 0, sizeof views);
    const char *what = "starts and lengths must be contiguous int64 arrays of one dimension";
    int only_names = 0;
    if (check_count("json_find", n_args, 9, 9) < 0 || take_bytes(args[0], &views.buffer) < 0 ||
        take_int64(args[1], &views.starts, what) < 0 || take_int64(args[2], &views.lengths, what) < 0 ||
        (only_names = PyObject_IsTrue(args[4])) < 0 ||
        take_array(args[5], &views.kinds, PyBUF_WRITABLE, "B", 1, "kinds must be a writable uint8 array") < 0 ||
        take_out(args[6], &views.begins) < 0 || take_out(args[7], &views.sizes) < 0 ||
        take_out(args[8], &views.numbers) < 0 || take_names(args[3], &views) < 0) {
        release_find(&views);
        return NULL;
    }
    int64_t failed;
    Py_BEGIN_ALLOW_THREADS failed =
        json_find(views.buffer.buf, views.buffer.len, views.starts.buf, views.lengths.buf, views.starts.len / 8,
                  views.names, views.n_names, only_names, views.values);
    Py_END_ALLOW_THREADS release_find(&views);
    return PyLong_FromLongLong(failed);
}

typedef struct {
    Py_buffer buffer, begins, lengths, out, written;
} copy_views;

static void release_copy(copy_views *views) {
    PyBuffer_Release(&views->buffer);
    PyBuffer_Release(&views->begins);
    PyBuffer_Release(&views->lengths);
    PyBuffer_Release(&views->out);
    PyBuffer_Release(&views->written);
}

/* Fill the views from (buffer, begins, lengths, out, written). Return 0, or -1 with an exception set and nothing held. */
static int take_copy(const char *name, PyObject *const *args, Py_ssize_t n_args, const char *formats,
                     Py_ssize_t width, copy_views *views) {
    const char *what = "begins and lengths must be contiguous int64 arrays of one dimension";
    memset(views, 0, sizeof *views);
    if (check_count(name, n_args, 5, 5) < 0 || take_bytes(args[0], &views->buffer) < 0 ||
        take_int64(args[1], &views->begins, what) < 0 || take_int64(args[2], &views->lengths, what) < 0 ||
        take_array(args[3], &views->out, PyBUF_WRITABLE, formats, width, "out must be a writable contiguous array") < 0 ||
        take_out(args[4], &views->written) < 0) {
        release_copy(views);
        return -1;
    }
    if (views->begins.len != views->lengths.len || views->begins.len != views->written.len) {
        release_copy(views);
        PyErr_SetString(PyExc_ValueError, "begins, lengths and written must be equally long");
        return -1;
    }
    return 0;
}

static PyObject *native_json_unescape(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    copy_views views;
    int64_t found;
    if (take_copy("json_unescape", args, n_args, "B", 1, &views) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS found =
        json_unescape(views.buffer.buf, views.buffer.len, views.begins.buf, views.lengths.buf, views.begins.len / 8,
                      views.out.buf, views.out.len, views.written.buf);
    Py_END_ALLOW_THREADS release_copy(&views);
    return PyLong_FromLongLong(found);
}

static PyObject *native_json_integers(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    copy_views views;
    int64_t found;
    if (take_copy("json_integers", args, n_args, "lq", 8, &views) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS found =
        json_integers(views.buffer.buf, views.buffer.len, views.begins.buf, views.lengths.buf, views.begins.len / 8,
                      views.out.buf, views.out.len / 8, views.written.buf);
    Py_END_ALLOW_THREADS release_copy(&views);
    return PyLong_FromLongLong(found);
}

PyMethodDef json_methods[] = {
    FAST(json_find, "json_find(buffer, starts, lengths, names, only_names, kinds, begins, sizes, numbers, /)\n--\n\n"
                    "Find the fields of JSON objects; return -1, or the number of the first that is not simple."),
    FAST(json_unescape, "json_unescape(buffer, begins, lengths, out, written, /)\n--\n\n"
                        "Copy texts of JSON without their escapes; return the bytes of all, or -1."),
    FAST(json_integers, "json_integers(buffer, begins, lengths, out, written, /)\n--\n\n"
                        "Read lists of integers; return the number of all integers, or -1."),
    {NULL, NULL, 0, NULL},
};
