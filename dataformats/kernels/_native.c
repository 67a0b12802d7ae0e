/* The only file here that knows Python: it takes buffers apart, hands them to the kernels, and raises.
 *
 * The module keeps the kernels that suit this machine in its state, so there are no globals, and any number
 * of interpreters and threads may use it. */
#if !defined(Py_GIL_DISABLED) && !defined(Py_LIMITED_API)
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "crc32.h"
#include "crc32c.h"

/* Below this many bytes, giving up the GIL and taking it again costs more than the work. */
#define RELEASE_GIL_BYTES 32768

typedef struct {
    crc_kernel *crc32c;
    crc_kernel *crc32;
} native_state;

static native_state *state_of(PyObject *module) { return (native_state *)PyModule_GetState(module); }

static int check_count(const char *name, Py_ssize_t found, Py_ssize_t least, Py_ssize_t most) {
    if (found >= least && found <= most) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd positional arguments, found %zd", name, least, most,
                 found);
    return -1;
}

/* Fill `view` with the bytes of `data`. Return 0, or -1 with an exception set. */
static int take_bytes(PyObject *data, Py_buffer *view) {
    if (PyObject_GetBuffer(data, view, PyBUF_SIMPLE) == 0) {
        return 0;
    }
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_SetString(PyExc_ValueError, "data must be C-contiguous");
    }
    return -1;
}

/* Fill `value` from an integer in [0, 2**32). Return 0, or -1 with an exception set. */
static int take_value(PyObject *object, uint32_t *value) {
    PyObject *integer = PyNumber_Index(object);
    if (integer == NULL) {
        return -1;
    }
    const unsigned long long found = PyLong_AsUnsignedLongLong(integer);
    const int failed = PyErr_Occurred() != NULL;
    if (failed || found > UINT32_MAX) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "value must be in [0, 2**32), found %S", integer);
        Py_DECREF(integer);
        return -1;
    }
    Py_DECREF(integer);
    *value = (uint32_t)found;
    return 0;
}

/* Fill `view` with an aligned, C-contiguous array of one dimension whose items are `n_bytes` wide and whose
 * format is one of `formats`. Return 0, or -1 with an exception set. */
static int take_array(PyObject *object, Py_buffer *view, int flags, const char *formats, Py_ssize_t n_bytes,
                      const char *message) {
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) {
        PyErr_SetString(PyExc_TypeError, message);
        return -1;
    }
    const char *format = view->format == NULL ? "B" : view->format;
    const int fits = view->ndim == 1 && view->itemsize == n_bytes && format[0] != '\0' && format[1] == '\0' &&
                     strchr(formats, format[0]) != NULL && (uintptr_t)view->buf % (size_t)n_bytes == 0;
    if (!fits) {
        PyBuffer_Release(view);
        PyErr_SetString(PyExc_TypeError, message);
        return -1;
    }
    return 0;
}

static int take_int64(PyObject *object, Py_buffer *view, const char *message) {
    return take_array(object, view, 0, "lq", 8, message);
}

static int take_uint32_out(PyObject *object, Py_buffer *view, const char *message) {
    return take_array(object, view, PyBUF_WRITABLE, "IL", 4, message);
}

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
    memset(views, 0, sizeof *views); /* PyBuffer_Release does nothing to a view that was never filled */
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

/* Return a new list of the names that run here, fastest first, or NULL with an exception set. */
static PyObject *names_of(const crc_variant *variants) {
    PyObject *names = PyList_New(0);
    for (; names != NULL && variants->name != NULL; variants++) {
        if (!variants->runs_here()) {
            continue;
        }
        PyObject *name = PyUnicode_FromString(variants->name);
        if (name == NULL || PyList_Append(names, name) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *native_variants(PyObject *module, PyObject *ignored) {
    (void)module;
    (void)ignored;
    PyObject *crc32c = names_of(crc32c_variants), *crc32 = names_of(crc32_variants), *variants = NULL;
    if (crc32c != NULL && crc32 != NULL) {
        variants = Py_BuildValue("{s:O,s:O}", "crc32c", crc32c, "crc32", crc32);
    }
    Py_XDECREF(crc32c);
    Py_XDECREF(crc32);
    return variants;
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))native_##name, METH_FASTCALL, doc}

static PyMethodDef methods[] = {
    FAST(crc32c, "crc32c(data, value=0, /)\n--\n\nReturn the CRC-32C of `data`, going on from `value`."),
    FAST(crc32, "crc32(data, value=0, /)\n--\n\nReturn the CRC-32 of zlib of `data`, going on from `value`."),
    FAST(crc32c_extents,
         "crc32c_extents(buffer, starts, lengths, out, /)\n--\n\nWrite the CRC-32C of each extent."),
    FAST(crc32_extents,
         "crc32_extents(buffer, starts, lengths, out, /)\n--\n\nWrite the CRC-32 of each extent."),
    FAST(crc32c_with,
         "crc32c_with(name, data, value=0, /)\n--\n\nReturn crc32c(data, value) by the variant `name`."),
    FAST(crc32_with,
         "crc32_with(name, data, value=0, /)\n--\n\nReturn crc32(data, value) by the variant `name`."),
    {"variants", native_variants, METH_NOARGS,
     "variants()\n--\n\nReturn the names of the variants that run here, fastest first, for each checksum."},
    {NULL, NULL, 0, NULL},
};

static int native_exec(PyObject *module) {
    native_state *state = state_of(module);
    state->crc32c = crc_choose(crc32c_variants);
    state->crc32 = crc_choose(crc32_variants);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)native_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The compiled kernels. Go through dataformats.kernels.",
    .m_size = sizeof(native_state),
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
