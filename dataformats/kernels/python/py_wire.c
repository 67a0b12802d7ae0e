/* The wrapper of reading batches of Examples, SequenceExamples and OFRecords. */
#include "python/py_native.h"

#include <string.h>

#include "wire/wire.h"

#define MOST_VIEWS 9
#define ROW ((Py_ssize_t)sizeof(wire_feature))

/* The required type of an argument: a C-contiguous array of any shape, of int64 ('q') or bytes ('B'). */
typedef struct {
    const char *name;
    char item;
    int flags; /* PyBUF_WRITABLE, or 0 */
} wanted;

/* The buffers of a call, released together. */
typedef struct {
    Py_buffer views[MOST_VIEWS];
    int n_views;
} held;

static void release(held *taken) {
    while (taken->n_views > 0) {
        PyBuffer_Release(&taken->views[--taken->n_views]);
    }
}

static int is_of(const Py_buffer *view, char item) {
    const char *format = view->format == NULL ? "B" : view->format;
    const Py_ssize_t width = item == 'q' ? 8 : 1;
    return format[0] != '\0' && format[1] == '\0' && strchr(item == 'q' ? "lq" : "B", format[0]) != NULL &&
           view->itemsize == width && (uintptr_t)view->buf % (size_t)width == 0;
}

/* Fill `taken` with the arguments from `args[1]` on, and return the first one, a shape; -1 with an exception set
 * and nothing held. */
static int take(PyObject *const *args, const wanted *wants, int n_wants, held *taken) {
    taken->n_views = 0;
    const long shape = PyLong_AsLong(args[0]);
    if (shape == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (shape < 0 || shape >= WIRE_SHAPES) {
        PyErr_Format(PyExc_ValueError, "shape must be in [0, %d), found %ld", WIRE_SHAPES, shape);
        return -1;
    }
    for (int i = 0; i < n_wants; i++) {
        Py_buffer *view = &taken->views[i];
        if (PyObject_GetBuffer(args[i + 1], view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | wants[i].flags) < 0) {
            release(taken);
            return -1;
        }
        taken->n_views++;
        if (!is_of(view, wants[i].item)) {
            release(taken);
            PyErr_Format(PyExc_TypeError, "%s must be a contiguous array of %s", wants[i].name,
                         wants[i].item == 'q' ? "int64" : "uint8");
            return -1;
        }
    }
    return (int)shape;
}

static PyObject *refuse(held *taken) {
    release(taken);
    PyErr_SetString(PyExc_ValueError, "the lengths of the arrays do not fit each other");
    return NULL;
}

static PyObject *answer(held *taken, int64_t number) {
    release(taken);
    return PyLong_FromLongLong(number);
}

/* ---- finding */

static const wanted FIND[MOST_VIEWS] = {
    {"buffer", 'B', 0},
    {"starts", 'q', 0},
    {"lengths", 'q', 0},
    {"names", 'B', 0},
    {"ends", 'q', 0},
    {"parts", 'B', 0},
    {"features", 'q', PyBUF_WRITABLE},
    {"surveys", 'q', PyBUF_WRITABLE},
    {"strays", 'B', PyBUF_WRITABLE},
};

/* Return whether `ends` divide `n_bytes` bytes into names. */
static int are_ends(const int64_t *ends, int64_t n_names, int64_t n_bytes) {
    int64_t last = 0;
    for (int64_t i = 0; i < n_names; i++) {
        if (ends[i] < last) {
            return 0;
        }
        last = ends[i];
    }
    return last == n_bytes;
}

static int fit(const Py_buffer *v, const wire_names *names) {
    const Py_ssize_t n_records = v[1].len / 8;
    return v[2].len == v[1].len && v[5].len == names->n_names && names->n_wanted <= names->n_names &&
           are_ends(names->ends, names->n_names, v[3].len) && v[6].len == names->n_wanted * n_records * ROW &&
           v[8].len == n_records;
}

/* `scratch`: three times n_names, and 1. */
static int64_t find_and_survey(int shape, const Py_buffer *v, wire_names *names, int64_t *scratch) {
    const int64_t n_records = v[1].len / 8;
    wire_feature *features = v[6].buf;
    wire_survey *surveys = v[7].buf;
    wire_sort_names(names, scratch);
    names->sorted = scratch;
    const int64_t failed = wire_find((wire_shape)shape, v[0].buf, v[0].len, v[1].buf, v[2].buf, n_records, names,
                                     scratch + names->n_names, features, v[8].buf);
    for (int64_t i = 0; failed < 0 && i < names->n_wanted; i++) {
        surveys[i] = wire_survey_of(features + i * n_records, n_records);
    }
    return failed;
}

static PyObject *native_wire_find(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    held taken;
    const int shape = check_count("wire_find", n_args, 1 + MOST_VIEWS, 1 + MOST_VIEWS) < 0
                          ? -1
                          : take(args, FIND, MOST_VIEWS, &taken);
    if (shape < 0) {
        return NULL;
    }
    const Py_buffer *v = taken.views;
    wire_names names = {v[3].buf, v[4].buf, v[5].buf, v[4].len / 8, v[7].len / (Py_ssize_t)sizeof(wire_survey), NULL};
    if (!fit(v, &names)) {
        return refuse(&taken);
    }
    int64_t *scratch = PyMem_Malloc((size_t)(3 * names.n_names + 1) * sizeof *scratch);
    if (scratch == NULL) {
        release(&taken);
        return PyErr_NoMemory();
    }
    int64_t failed;
    Py_BEGIN_ALLOW_THREADS failed = find_and_survey(shape, v, &names, scratch);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
    return answer(&taken, failed);
}

static PyObject *native_wire_survey(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    static const wanted survey[] = {{"features", 'q', 0}, {"survey", 'q', PyBUF_WRITABLE}};
    (void)module;
    held taken;
    if (check_count("wire_survey", n_args, 3, 3) < 0 || take(args, survey, 2, &taken) < 0) {
        return NULL;
    }
    if (taken.views[0].len % ROW != 0 || taken.views[1].len != sizeof(wire_survey)) {
        return refuse(&taken);
    }
    *(wire_survey *)taken.views[1].buf = wire_survey_of(taken.views[0].buf, taken.views[0].len / ROW);
    return answer(&taken, -1);
}

/* ---- values */

/* Take `(shape, buffer, features, out...)`. */
static int take_values(PyObject *const *args, const wanted *wants, int n_wants, held *taken) {
    const int shape = take(args, wants, n_wants, taken);
    if (shape >= 0 && taken->views[1].len % ROW != 0) {
        refuse(taken);
        return -1;
    }
    return shape;
}

static int take_kind(PyObject *object) {
    const long kind = PyLong_AsLong(object);
    if (kind >= WIRE_FLOATS && kind < WIRE_KINDS) {
        return (int)kind;
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "kind must be one of numbers, found %ld", kind);
    }
    return -1;
}

static PyObject *native_wire_numbers(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    static const wanted numbers[] = {{"buffer", 'B', 0}, {"features", 'q', 0}, {"out", 'B', PyBUF_WRITABLE}};
    wire_block_kernel *block = n_args > 5 && args[5] == Py_True ? wire_block_portable : state_of(module)->varints;
    held taken;
    if (check_count("wire_numbers", n_args, 5, 6) < 0) {
        return NULL;
    }
    const int kind = take_kind(args[4]);
    const int shape = kind < 0 ? -1 : take_values(args, numbers, 3, &taken);
    if (shape < 0) {
        return NULL;
    }
    const Py_buffer *v = taken.views;
    int64_t failed;
    Py_BEGIN_ALLOW_THREADS failed = wire_numbers((wire_shape)shape, v[0].buf, v[0].len, v[1].buf, v[1].len / ROW,
                                                 kind, v[2].buf, v[2].len, block);
    Py_END_ALLOW_THREADS
    return answer(&taken, failed);
}

static PyObject *native_wire_places(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    static const wanted places[] = {{"buffer", 'B', 0},
                                    {"features", 'q', 0},
                                    {"starts", 'q', PyBUF_WRITABLE},
                                    {"lengths", 'q', PyBUF_WRITABLE}};
    (void)module;
    held taken;
    const int shape =
        check_count("wire_places", n_args, 5, 5) < 0 ? -1 : take_values(args, places, 4, &taken);
    if (shape < 0) {
        return NULL;
    }
    const Py_buffer *v = taken.views;
    if (v[2].len != v[3].len) {
        return refuse(&taken);
    }
    int64_t failed;
    Py_BEGIN_ALLOW_THREADS failed = wire_places((wire_shape)shape, v[0].buf, v[0].len, v[1].buf, v[1].len / ROW,
                                                v[2].buf, v[3].buf, v[2].len / 8);
    Py_END_ALLOW_THREADS
    return answer(&taken, failed);
}

static PyObject *native_wire_steps(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    static const wanted steps[] = {{"buffer", 'B', 0}, {"lists", 'q', 0}, {"out", 'q', PyBUF_WRITABLE}};
    (void)module;
    held taken;
    const int shape = check_count("wire_steps", n_args, 4, 4) < 0 ? -1 : take_values(args, steps, 3, &taken);
    if (shape < 0) {
        return NULL;
    }
    const Py_buffer *v = taken.views;
    if (v[2].len % ROW != 0) {
        return refuse(&taken);
    }
    int64_t failed;
    Py_BEGIN_ALLOW_THREADS failed = wire_steps((wire_shape)shape, v[0].buf, v[0].len, v[1].buf, v[1].len / ROW,
                                               v[2].buf, v[2].len / ROW);
    Py_END_ALLOW_THREADS
    return answer(&taken, failed);
}

PyMethodDef wire_methods[] = {
    FAST(wire_find, "wire_find(shape, buffer, starts, lengths, names, ends, parts, features, surveys, strays, /)\n"
                    "--\n\nFind features; return -1, or the number of the first record that does not parse."),
    FAST(wire_survey, "wire_survey(shape, features, survey, /)\n--\n\nWrite a summary of features."),
    FAST(wire_numbers, "wire_numbers(shape, buffer, features, out, kind, portable=False, /)\n--\n\n"
                       "Write all numbers of a kind; by portable C only, for tests, or by the kernel for this machine."),
    FAST(wire_places,
         "wire_places(shape, buffer, features, starts, lengths, /)\n--\n\nWrite the places of bytes values."),
    FAST(wire_steps, "wire_steps(shape, buffer, lists, out, /)\n--\n\nWrite the features in lists."),
    {NULL, NULL, 0, NULL},
};
