#include "python/py_native.h"

#include <stdlib.h>
#include <string.h>

native_state *state_of(PyObject *module) { return (native_state *)PyModule_GetState(module); }

int check_count(const char *name, Py_ssize_t found, Py_ssize_t least, Py_ssize_t most) {
    if (found >= least && found <= most) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd positional arguments, found %zd", name, least, most,
                 found);
    return -1;
}

int take_bytes(PyObject *data, Py_buffer *view) {
    if (PyObject_GetBuffer(data, view, PyBUF_SIMPLE) == 0) {
        return 0;
    }
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_SetString(PyExc_ValueError, "data must be C-contiguous");
    }
    return -1;
}

int take_value(PyObject *object, uint32_t *value) {
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

int take_small(PyObject *object, const char *name, long most, long *number) {
    *number = PyLong_AsLong(object);
    if (*number >= 0 && *number <= most) {
        return 0;
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "%s must be in [0, %ld], found %ld", name, most, *number);
    }
    return -1;
}

int is_number(int letter, int width) {
    return letter > 0 && letter <= 'z' && strchr("biuf", letter) != NULL &&
           (width == 1 || width == 2 || width == 4 || width == 8);
}

int take_array(PyObject *object, Py_buffer *view, int flags, const char *formats, Py_ssize_t n_bytes,
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

int take_int64(PyObject *object, Py_buffer *view, const char *message) {
    return take_array(object, view, 0, "lq", 8, message);
}

int take_uint32_out(PyObject *object, Py_buffer *view, const char *message) {
    return take_array(object, view, PyBUF_WRITABLE, "IL", 4, message);
}

void *room_for(int64_t n, size_t n_bytes) {
    void *memory = malloc(((size_t)n + 1) * n_bytes);
    return memory == NULL ? PyErr_NoMemory() : memory;
}
