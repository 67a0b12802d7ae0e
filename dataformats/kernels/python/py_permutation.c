/* The wrapper of the permutation. */
#include "python/py_native.h"

#include <string.h>

#include "permute/permutation.h"

typedef int64_t permutation_kernel(permutation_key, int64_t, const int64_t *, int64_t, int64_t *);

typedef struct {
    Py_buffer indices, out;
    int64_t domain;
    permutation_key key;
} permutation_views;

static void release_permutation(permutation_views *views) {
    PyBuffer_Release(&views->indices);
    PyBuffer_Release(&views->out);
}

static int take_domain(PyObject *object, int64_t *domain) {
    PyObject *integer = PyNumber_Index(object);
    if (integer == NULL) {
        return -1;
    }
    const long long found = PyLong_AsLongLong(integer);
    if (found < 1) { /* also if it does not fit */
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "domain must be in [1, 2**63), found %S", integer);
        Py_DECREF(integer);
        return -1;
    }
    Py_DECREF(integer);
    *domain = found;
    return 0;
}

static int take_key_word(PyObject *object, uint64_t *word) {
    PyObject *integer = PyNumber_Index(object);
    if (integer == NULL) {
        return -1;
    }
    *word = PyLong_AsUnsignedLongLong(integer);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "a key is two integers in [0, 2**64), found %S", integer);
        Py_DECREF(integer);
        return -1;
    }
    Py_DECREF(integer);
    return 0;
}

static int take_key(PyObject *object, permutation_key *key) {
    if (!PyTuple_Check(object) || PyTuple_Size(object) != 2) {
        PyErr_Format(PyExc_TypeError, "key must be a tuple of two integers, found %R", object);
        return -1;
    }
    return take_key_word(PyTuple_GetItem(object, 0), &key->words[0]) < 0 ||
                   take_key_word(PyTuple_GetItem(object, 1), &key->words[1]) < 0
               ? -1
               : 0;
}

/* Fill `views` from (indices, domain, key, out). Return 0, or -1 with an exception set and nothing held. */
static int take_permutation(PyObject *const *args, permutation_views *views) {
    memset(views, 0, sizeof *views); /* PyBuffer_Release is a no-op for views that were never filled */
    if (take_int64(args[0], &views->indices, "indices must be a contiguous int64 array of one dimension") < 0 ||
        take_domain(args[1], &views->domain) < 0 || take_key(args[2], &views->key) < 0 ||
        take_array(args[3], &views->out, PyBUF_WRITABLE, "lq", 8,
                   "out must be a writable contiguous int64 array of one dimension") < 0) {
        release_permutation(views);
        return -1;
    }
    const Py_ssize_t indices = views->indices.len / 8, out = views->out.len / 8;
    if (indices != out) {
        release_permutation(views);
        PyErr_Format(PyExc_ValueError, "indices and out must be equally long, found %zd and %zd", indices, out);
        return -1;
    }
    return 0;
}

static PyObject *permuted(permutation_kernel *kernel, PyObject *const *args) {
    permutation_views views;
    if (take_permutation(args, &views) < 0) {
        return NULL;
    }
    const int64_t *indices = views.indices.buf, n = views.indices.len / 8;
    int64_t failed;
    if (views.indices.len >= RELEASE_GIL_BYTES) {
        Py_BEGIN_ALLOW_THREADS failed = kernel(views.key, views.domain, indices, n, views.out.buf);
        Py_END_ALLOW_THREADS
    } else {
        failed = kernel(views.key, views.domain, indices, n, views.out.buf);
    }
    if (failed >= 0) {
        PyErr_Format(PyExc_ValueError, "index %lld (%lld) is outside [0, %lld)", (long long)failed,
                     (long long)indices[failed], (long long)views.domain);
    }
    release_permutation(&views);
    if (failed >= 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *native_permute(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    return check_count("permute", n_args, 4, 4) < 0 ? NULL : permuted(permutation_forth, args);
}

static PyObject *native_permute_back(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    return check_count("permute_back", n_args, 4, 4) < 0 ? NULL : permuted(permutation_back, args);
}

PyMethodDef permutation_methods[] = {
    FAST(permute, "permute(indices, domain, key, out, /)\n--\n\n"
                  "Write where each index goes under a keyed permutation of [0, domain)."),
    FAST(permute_back, "permute_back(indices, domain, key, out, /)\n--\n\n"
                       "Write which index goes to each of these under a keyed permutation of [0, domain)."),
    {NULL, NULL, 0, NULL},
};
