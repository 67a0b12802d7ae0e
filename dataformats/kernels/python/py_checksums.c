/* The wrapper of the checksums. */
#include "python/py_native.h"

#include <stdlib.h>
#include <string.h>

#include "checksum/crc.h"

static PyObject *checksum(crc_kernel *kernel, PyObject *const *args, Py_ssize_t n_args) {
    Py_buffer view;
    uint32_t value = 0;
    if (n_args > 1 && take_value(args[1], &value) < 0) {
        return NULL;
    }
    if (take_bytes(args[0], &view) < 0) {
        return NULL;
    }
    if (view.len >= RELEASE_GIL_BYTES) {
        Py_BEGIN_ALLOW_THREADS value = kernel(value, view.buf, (size_t)view.len);
        Py_END_ALLOW_THREADS
    } else {
        value = kernel(value, view.buf, (size_t)view.len);
    }
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(value);
}

static PyObject *native_crc32c(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    return check_count("crc32c", n_args, 1, 2) < 0 ? NULL : checksum(state_of(module)->crc32c, args, n_args);
}

static PyObject *native_crc32(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    return check_count("crc32", n_args, 1, 2) < 0 ? NULL : checksum(state_of(module)->crc32, args, n_args);
}

typedef struct {
    Py_buffer buffer, starts, lengths, out;
} extents_views;

static void release_extents(extents_views *views) {
    PyBuffer_Release(&views->buffer);
    PyBuffer_Release(&views->starts);
    PyBuffer_Release(&views->lengths);
    PyBuffer_Release(&views->out);
}

/* Fill `views`. Return 0, or -1 with an exception set and nothing held. */
static int take_extents(PyObject *const *args, extents_views *views) {
    memset(views, 0, sizeof *views); /* PyBuffer_Release is a no-op for views that were never filled */
    if (take_bytes(args[0], &views->buffer) < 0 ||
        take_int64(args[1], &views->starts, "starts must be a contiguous int64 array of one dimension") < 0 ||
        take_int64(args[2], &views->lengths, "lengths must be a contiguous int64 array of one dimension") <
            0 ||
        take_uint32_out(args[3], &views->out,
                        "out must be a writable contiguous uint32 array of one dimension") < 0) {
        release_extents(views);
        return -1;
    }
    const Py_ssize_t starts = views->starts.len / 8, lengths = views->lengths.len / 8,
                     out = views->out.len / 4;
    if (starts != lengths || starts != out) {
        release_extents(views);
        PyErr_Format(PyExc_ValueError, "starts, lengths and out must be equally long, found %zd, %zd and %zd",
                     starts, lengths, out);
        return -1;
    }
    return 0;
}

static PyObject *checksum_extents(crc_kernel *kernel, PyObject *const *args) {
    extents_views views;
    if (take_extents(args, &views) < 0) {
        return NULL;
    }
    const int64_t *starts = views.starts.buf, *lengths = views.lengths.buf;
    const int64_t n_extents = views.starts.len / 8;
    int64_t failed;
    if (views.buffer.len >= RELEASE_GIL_BYTES) {
        Py_BEGIN_ALLOW_THREADS failed = crc_extents(kernel, views.buffer.buf, views.buffer.len, starts,
                                                    lengths, n_extents, views.out.buf);
        Py_END_ALLOW_THREADS
    } else {
        failed = crc_extents(kernel, views.buffer.buf, views.buffer.len, starts, lengths, n_extents,
                             views.out.buf);
    }
    if (failed >= 0) {
        PyErr_Format(
            PyExc_ValueError, "extent %lld (start %lld, length %lld) is outside the buffer of %zd bytes",
            (long long)failed, (long long)starts[failed], (long long)lengths[failed], views.buffer.len);
    }
    release_extents(&views);
    if (failed >= 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *native_crc32c_extents(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    return check_count("crc32c_extents", n_args, 4, 4) < 0 ? NULL
                                                           : checksum_extents(state_of(module)->crc32c, args);
}

static PyObject *native_crc32_extents(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    return check_count("crc32_extents", n_args, 4, 4) < 0 ? NULL
                                                          : checksum_extents(state_of(module)->crc32, args);
}

/* Write the CRC of each group of items, one behind the other, to `out`. */
static void sum_items(crc_kernel *kernel, const Py_buffer *items, Py_ssize_t group, uint32_t *out, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        uint32_t value = 0;
        for (Py_ssize_t k = 0; k < group; k++, items++) {
            value = kernel(value, items->buf, (size_t)items->len);
        }
        out[i] = value;
    }
}

/* Fill the views of the items of a tuple; return how many, fewer with an exception set. */
static Py_ssize_t take_items(PyObject *items, Py_buffer *views, Py_ssize_t *n_bytes) {
    const Py_ssize_t n = PyTuple_Size(items);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (take_bytes(PyTuple_GetItem(items, i), &views[i]) < 0) {
            return i;
        }
        *n_bytes += views[i].len;
    }
    return n;
}

static PyObject *checksum_items(crc_kernel *kernel, PyObject *const *args) {
    Py_buffer out = {0}, *views = NULL;
    PyObject *items = NULL, *result = NULL;
    Py_ssize_t n_taken = 0, n_bytes = 0;
    /* A tuple, which no other thread changes. */
    if (take_uint32_out(args[1], &out, "out must be a writable contiguous uint32 array of one dimension") == 0 &&
        (items = PySequence_Tuple(args[0])) != NULL) {
        const Py_ssize_t n_items = PyTuple_Size(items), n = out.len / 4, group = n ? n_items / n : 0;
        if (group * n != n_items) {
            PyErr_Format(PyExc_ValueError, "out must have a checksum for each group of items, found %zd for %zd", n,
                         n_items);
        } else if ((views = room_for(n_items, sizeof *views)) != NULL &&
                   (n_taken = take_items(items, views, &n_bytes)) == n_items) {
            if (n_bytes < RELEASE_GIL_BYTES) {
                sum_items(kernel, views, group, out.buf, n);
            } else {
                Py_BEGIN_ALLOW_THREADS sum_items(kernel, views, group, out.buf, n);
                Py_END_ALLOW_THREADS
            }
            result = Py_NewRef(Py_None);
        }
    }
    for (Py_ssize_t i = 0; i < n_taken; i++) {
        PyBuffer_Release(&views[i]);
    }
    free(views);
    Py_XDECREF(items);
    PyBuffer_Release(&out);
    return result;
}

static PyObject *native_crc32c_items(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    return check_count("crc32c_items", n_args, 2, 2) < 0 ? NULL : checksum_items(state_of(module)->crc32c, args);
}

static PyObject *native_crc32_items(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    return check_count("crc32_items", n_args, 2, 2) < 0 ? NULL : checksum_items(state_of(module)->crc32, args);
}

static PyObject *checksum_with(const crc_variant *variants, PyObject *const *args, Py_ssize_t n_args) {
    PyObject *encoded = PyUnicode_AsUTF8String(args[0]);
    if (encoded == NULL) {
        return NULL;
    }
    crc_kernel *kernel = crc_find(variants, PyBytes_AsString(encoded));
    Py_DECREF(encoded);
    if (kernel == NULL) {
        return PyErr_Format(PyExc_ValueError, "no variant %R on this machine", args[0]);
    }
    return checksum(kernel, args + 1, n_args - 1);
}

static PyObject *native_crc32c_with(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    return check_count("crc32c_with", n_args, 2, 3) < 0 ? NULL : checksum_with(crc32c_variants, args, n_args);
}

static PyObject *native_crc32_with(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    return check_count("crc32_with", n_args, 2, 3) < 0 ? NULL : checksum_with(crc32_variants, args, n_args);
}

PyMethodDef checksum_methods[] = {
    FAST(crc32c, "crc32c(data, value=0, /)\n--\n\nReturn the CRC-32C of `data`, going on from `value`."),
    FAST(crc32, "crc32(data, value=0, /)\n--\n\nReturn the CRC-32 of zlib of `data`, going on from `value`."),
    FAST(crc32c_extents,
         "crc32c_extents(buffer, starts, lengths, out, /)\n--\n\nWrite the CRC-32C of each extent."),
    FAST(crc32_extents,
         "crc32_extents(buffer, starts, lengths, out, /)\n--\n\nWrite the CRC-32 of each extent."),
    FAST(crc32c_items, "crc32c_items(items, out, /)\n--\n\nWrite the CRC-32C of each group of items."),
    FAST(crc32_items, "crc32_items(items, out, /)\n--\n\nWrite the CRC-32 of each group of items."),
    FAST(crc32c_with,
         "crc32c_with(name, data, value=0, /)\n--\n\nReturn crc32c(data, value) by the variant `name`."),
    FAST(crc32_with,
         "crc32_with(name, data, value=0, /)\n--\n\nReturn crc32(data, value) by the variant `name`."),
    {NULL, NULL, 0, NULL},
};
