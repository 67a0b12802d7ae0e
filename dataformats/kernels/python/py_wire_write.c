/* The wrapper of writing: from the values of a record to its bytes. Common values need no other Python objects:
 * integers, floats, arrays of the declared dtype, bytes, text, and lists of bytes or text. A function of the caller
 * converts all other values to arrays or bytes first. */
#include "python/py_native.h"

#include <math.h>
#include <string.h>

#include "wire/wire_write.h"

#define PLAN "dataformats.wire_plan"
#define MOST_DIMS 32

typedef enum { NUMBERS, BYTES, TEXT, OTHER, ITEMS } item;

/* How a field is written. */
typedef struct {
    wire_span name;
    int part, kind, required;
    item item;
    char letter; /* of numbers: 'b', 'i', 'u' or 'f', as numpy names the kinds of dtypes */
    int width;   /* bytes of a number */
    int n_dims;
    int64_t dims[MOST_DIMS]; /* -1: any number of elements */
} field;

typedef struct {
    wire_shape shape;
    PyObject *array_type, *scalar_type; /* numpy's: buffers of other types may mean something else */
    PyObject *names;                    /* a tuple, which keeps the names' bytes */
    int64_t n_fields;
    field fields[];
} plan;

/* Everything that one value holds until the record is written. */
typedef struct {
    Py_buffer view;
    PyObject *owned[2];
    wire_span *blobs;
    wire_span blob;
    uint8_t number[8]; /* little-endian */
} holder;

/* The functions called take_* return 1, 0 if the value must be converted first, or -1 with an exception set. */

/* ---- numbers */

static void little_endian(uint64_t bits, uint8_t *out, int width) {
    for (int i = 0; i < width; i++) {
        out[i] = (uint8_t)(bits >> (8 * i));
    }
}

static int one_number(const field *f, holder *held, int width, int is_signed, wire_value *out) {
    if (f->kind == WIRE_BYTES) {
        held->blob = (wire_span){held->number, held->number + width};
        out->blobs = &held->blob;
    }
    out->numbers = held->number;
    out->count = 1;
    out->width = width;
    out->is_signed = is_signed;
    return 1;
}

static int take_int(const field *f, PyObject *value, holder *held, wire_value *out) {
    int overflow;
    const long long found = PyLong_AsLongLongAndOverflow(value, &overflow);
    const int bits = f->width * 8;
    if (found == -1 && PyErr_Occurred()) {
        return -1;
    }
    const int64_t highest = f->letter == 'u' ? (bits == 64 ? INT64_MAX : ((int64_t)1 << bits) - 1)
                                             : (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    const int64_t lowest = f->letter == 'u' ? 0 : -highest - 1;
    if (overflow || found < lowest || found > highest || f->kind == WIRE_BYTES) {
        return 0;
    }
    little_endian((uint64_t)found, held->number, 8);
    return one_number(f, held, 8, 1, out);
}

static int take_float(const field *f, PyObject *value, holder *held, wire_value *out) {
    const double found = PyFloat_AsDouble(value);
    uint64_t bits = 0;
    if (f->width == 8) {
        memcpy(&bits, &found, 8);
    } else {
        const float rounded = (float)found;
        uint32_t half;
        if (f->width != 4 || (isinf(rounded) && !isinf(found))) {
            return 0;
        }
        memcpy(&half, &rounded, 4);
        bits = half;
    }
    little_endian(bits, held->number, f->width);
    return one_number(f, held, f->width, 0, out);
}

static int has_dtype(const field *f, const Py_buffer *view) {
    static const char *const formats[] = {"?", "bhilq", "BHILQ", "efdg"};
    const char *format = view->format == NULL ? "B" : view->format;
    format += format[0] == '<' || format[0] == '='; /* the byte order of the machine, which is little-endian here */
    const int kind = f->letter == 'b' ? 0 : f->letter == 'i' ? 1 : f->letter == 'u' ? 2 : 3;
    return format[0] != '\0' && format[1] == '\0' && strchr(formats[kind], format[0]) != NULL &&
           view->itemsize == f->width;
}

static int has_shape(const field *f, const Py_buffer *view) {
    if (view->ndim != f->n_dims) {
        return 0;
    }
    for (int i = 0; i < f->n_dims; i++) {
        if (f->dims[i] >= 0 && f->dims[i] != view->shape[i]) {
            return 0;
        }
    }
    return 1;
}

/* An Int64List cannot hold integers from 2^63 on. */
static int is_listable(const field *f, const Py_buffer *view) {
    if (f->letter != 'u' || f->width != 8 || f->kind == WIRE_BYTES) {
        return 1;
    }
    const uint8_t *bytes = view->buf;
    for (Py_ssize_t i = 7; i < view->len; i += 8) {
        if (bytes[i] >= 0x80) {
            return 0;
        }
    }
    return 1;
}

/* Numbers without a list are bytes: one value, or one value for each element of a sequence. */
static int as_blobs(const field *f, holder *held, wire_value *out) {
    const uint8_t *bytes = held->view.buf;
    const int is_sequence = f->n_dims > 0 && f->dims[0] < 0;
    const Py_ssize_t count = is_sequence ? held->view.shape[0] : 1;
    const Py_ssize_t n_bytes = count > 0 ? held->view.len / count : 0;
    held->blobs = PyMem_Malloc((size_t)(count + 1) * sizeof *held->blobs);
    if (held->blobs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        held->blobs[i] = (wire_span){bytes + i * n_bytes, bytes + (i + 1) * n_bytes};
    }
    out->blobs = held->blobs;
    out->count = count;
    return 1;
}

static int take_buffer(const field *f, PyObject *value, holder *held, wire_value *out) {
    if (PyObject_GetBuffer(value, &held->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (!has_dtype(f, &held->view) || !has_shape(f, &held->view) || !is_listable(f, &held->view)) {
        PyBuffer_Release(&held->view);
        return 0;
    }
    if (f->kind == WIRE_BYTES) {
        return as_blobs(f, held, out);
    }
    out->numbers = held->view.buf;
    out->count = held->view.len / f->width;
    out->width = f->width;
    out->is_signed = f->letter == 'i';
    return 1;
}

static int take_numbers(const plan *p, const field *f, PyObject *value, holder *held, wire_value *out) {
    if (f->n_dims == 0 && PyLong_CheckExact(value)) {
        return f->letter == 'i' || f->letter == 'u' ? take_int(f, value, held, out) : 0;
    }
    if (f->n_dims == 0 && PyFloat_CheckExact(value)) {
        return f->letter == 'f' ? take_float(f, value, held, out) : 0;
    }
    if (f->n_dims == 0 && f->letter == 'b' && (value == Py_True || value == Py_False)) {
        held->number[0] = value == Py_True;
        return one_number(f, held, 1, 0, out);
    }
    /* numpy's scalars of text and dates expose their bytes as numbers; text may be one byte. */
    if ((PyObject *)Py_TYPE(value) == p->array_type ||
        (f->n_dims == 0 && PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)p->scalar_type) &&
         !PyBytes_Check(value))) {
        return take_buffer(f, value, held, out);
    }
    return 0;
}

/* ---- bytes and text */

/* Set `blob` to the bytes of one element. */
static int take_blob(item wanted, PyObject *value, wire_span *blob) {
    Py_ssize_t n_bytes;
    const char *bytes;
    if (wanted == TEXT && PyUnicode_CheckExact(value)) {
        bytes = PyUnicode_AsUTF8AndSize(value, &n_bytes);
        if (bytes == NULL) {
            PyErr_Clear(); /* lone surrogates: the caller's conversion raises */
            return 0;
        }
    } else if (wanted == BYTES && PyBytes_CheckExact(value)) {
        bytes = PyBytes_AsString(value);
        n_bytes = PyBytes_Size(value);
    } else {
        return 0;
    }
    blob->at = (const uint8_t *)bytes;
    blob->end = blob->at + n_bytes;
    return 1;
}

static int take_elements(item wanted, PyObject *value, holder *held, wire_value *out) {
    PyObject *elements = PySequence_Tuple(value);
    const Py_ssize_t count = elements == NULL ? 0 : PyTuple_Size(elements);
    held->owned[1] = elements;
    held->blobs = elements == NULL ? NULL : PyMem_Malloc((size_t)(count + 1) * sizeof *held->blobs);
    if (held->blobs == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!take_blob(wanted, PyTuple_GetItem(elements, i), &held->blobs[i])) {
            return 0;
        }
    }
    out->blobs = held->blobs;
    out->count = count;
    return 1;
}

static int take_blobs(item wanted, int is_sequence, PyObject *value, holder *held, wire_value *out) {
    if (is_sequence) {
        return PyList_CheckExact(value) || PyTuple_CheckExact(value) ? take_elements(wanted, value, held, out) : 0;
    }
    out->blobs = &held->blob;
    out->count = 1;
    return take_blob(wanted, value, &held->blob);
}

/* ---- records */

/* Take a value without conversion. */
static int take_as_is(const plan *p, const field *f, PyObject *value, holder *held, wire_value *out) {
    if (f->item == NUMBERS) {
        return take_numbers(p, f, value, held, out);
    }
    if (f->item == OTHER || f->n_dims > 1 || (f->n_dims == 1 && f->dims[0] >= 0)) {
        return 0;
    }
    return take_blobs(f->item, f->n_dims == 1, value, held, out);
}

static void let_go(holder *held) {
    PyBuffer_Release(&held->view);
    PyMem_Free(held->blobs);
    Py_CLEAR(held->owned[0]);
    Py_CLEAR(held->owned[1]);
    memset(held, 0, sizeof *held);
}

/* Take the result of `normalize(i, value)`: an array of the declared dtype, a list of bytes, or bytes, which are the
 * message. */
static int take_normalized(const plan *p, int64_t i, PyObject *value, PyObject *normalize, holder *held,
                           wire_value *out) {
    const field *f = &p->fields[i];
    let_go(held);
    PyObject *made = PyObject_CallFunction(normalize, "LO", (long long)i, value);
    if (made == NULL) {
        return -1;
    }
    held->owned[0] = made;
    int taken;
    if (PyBytes_CheckExact(made)) {
        out->kind = WIRE_STEPS;
        taken = take_blobs(BYTES, 0, made, held, out);
    } else {
        taken = f->item == NUMBERS     ? take_numbers(p, f, made, held, out)
                : f->kind == WIRE_BYTES ? take_blobs(BYTES, 1, made, held, out)
                                        : 0;
    }
    if (taken == 0) {
        PyErr_Format(PyExc_TypeError, "expected the normalized value of field %lld in its declared type, found %R",
                     (long long)i,
                     (PyObject *)Py_TYPE(made));
    }
    return taken == 1 ? 1 : -1;
}

static int is_absent(const plan *p, PyObject *given, int64_t i) {
    return PyTuple_GetItem(given, (Py_ssize_t)i) == Py_None && !p->fields[i].required;
}

/* Fill `values` from a tuple. Return their number, or -1 with an exception set. */
static int64_t take_all(const plan *p, PyObject *given, PyObject *normalize, holder *held, wire_value *values) {
    int64_t n_values = 0;
    for (int64_t i = 0; i < p->n_fields; i++) {
        const field *f = &p->fields[i];
        PyObject *value = PyTuple_GetItem(given, (Py_ssize_t)i);
        if (is_absent(p, given, i)) {
            continue;
        }
        wire_value *out = &values[n_values++];
        memset(out, 0, sizeof *out);
        out->name = f->name;
        out->part = f->part;
        out->kind = f->kind;
        int taken = value == Py_None ? 0 : take_as_is(p, f, value, &held[i], out);
        taken = taken == 0 ? take_normalized(p, i, value, normalize, &held[i], out) : taken;
        if (taken < 0) {
            return -1;
        }
    }
    return n_values;
}

/* Return the record; NULL with an exception set. `*changed`: -1, or the value that changed meanwhile. */
static PyObject *written(const plan *p, wire_value *values, int64_t n_values, int64_t *changed) {
    PyObject *record = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)wire_write_size(p->shape, values, n_values));
    if (record != NULL) {
        *changed = wire_write(p->shape, values, n_values, (uint8_t *)PyBytes_AsString(record));
    }
    return record;
}

/* Return the number of the field of value `number`. */
static int64_t field_of(const plan *p, PyObject *given, int64_t number) {
    int64_t i = 0;
    while (is_absent(p, given, i) || number-- > 0) {
        i++;
    }
    return i;
}

static PyObject *native_wire_write(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    const plan *p = check_count("wire_write", n_args, 3, 3) < 0 ? NULL : PyCapsule_GetPointer(args[0], PLAN);
    if (p == NULL) {
        return NULL;
    }
    if (!PyTuple_CheckExact(args[1]) || PyTuple_Size(args[1]) != p->n_fields) {
        return PyErr_Format(PyExc_TypeError, "values must be a tuple of %lld", (long long)p->n_fields);
    }
    const size_t n_fields = (size_t)p->n_fields + 1;
    holder *held = PyMem_Malloc(n_fields * sizeof *held);
    wire_value *values = PyMem_Malloc(n_fields * sizeof *values);
    int64_t changed = -1;
    PyObject *record = NULL;
    if (held == NULL || values == NULL) {
        PyErr_NoMemory();
    } else {
        memset(held, 0, n_fields * sizeof *held);
        const int64_t n_values = take_all(p, args[1], args[2], held, values);
        record = n_values < 0 ? NULL : written(p, values, n_values, &changed);
        for (int64_t i = 0; i < p->n_fields; i++) {
            let_go(&held[i]);
        }
    }
    PyMem_Free(held);
    PyMem_Free(values);
    if (changed >= 0) {
        Py_CLEAR(record);
        return PyLong_FromLongLong(field_of(p, args[1], changed));
    }
    return record;
}

/* ---- plans */

static void release_plan(plan *p) {
    Py_DECREF(p->array_type);
    Py_DECREF(p->scalar_type);
    Py_DECREF(p->names);
    PyMem_Free(p);
}

static void drop_plan(PyObject *capsule) { release_plan(PyCapsule_GetPointer(capsule, PLAN)); }

/* Return whether the values of a field go to lists of its kind, or are messages. */
static int is_storable(wire_shape shape, const field *f) {
    if (f->kind == WIRE_STEPS) {
        return f->item == OTHER && (f->part == 0 || shape == WIRE_SEQUENCE_EXAMPLE);
    }
    if (f->part != 0 || f->kind <= WIRE_MISSING || f->kind >= WIRE_KINDS || !wire_has_lists(shape, f->kind)) {
        return 0;
    }
    if (f->kind == WIRE_FLOATS || f->kind == WIRE_DOUBLES) {
        return f->item == NUMBERS && f->letter == 'f' && f->width == wire_width(f->kind);
    }
    return f->kind == WIRE_BYTES || (f->item == NUMBERS && f->letter != 'f');
}

/* Fill a field from (name, part, kind, required, item, letter, width, dims). */
static int plan_field(PyObject *described, wire_shape shape, field *f) {
    PyObject *name, *dims;
    int kind_of_item, letter;
    if (!PyArg_ParseTuple(described, "SiipiCiO!", &name, &f->part, &f->kind, &f->required, &kind_of_item, &letter,
                          &f->width, &PyTuple_Type, &dims)) {
        return -1;
    }
    f->n_dims = (int)PyTuple_Size(dims);
    f->item = (item)kind_of_item;
    f->letter = (char)letter;
    if (f->n_dims > MOST_DIMS || f->part < 0 || f->part > 1 || kind_of_item < 0 || kind_of_item >= ITEMS ||
        !is_number(letter, f->width) || !is_storable(shape, f)) {
        PyErr_SetString(PyExc_ValueError, "expected a field of wire_write.Field");
        return -1;
    }
    f->name.at = (const uint8_t *)PyBytes_AsString(name);
    f->name.end = f->name.at + PyBytes_Size(name);
    for (int i = 0; i < f->n_dims; i++) {
        f->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *native_wire_plan(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("wire_plan", n_args, 4, 4) < 0) {
        return NULL;
    }
    const long shape = PyLong_AsLong(args[0]);
    if (shape < 0 || shape >= WIRE_SHAPES || !PyTuple_CheckExact(args[1]) || !PyType_Check(args[2]) ||
        !PyType_Check(args[3])) {
        return PyErr_Format(PyExc_TypeError, "expected a shape, a tuple of fields, and two types");
    }
    const Py_ssize_t n_fields = PyTuple_Size(args[1]);
    plan *p = PyMem_Malloc(sizeof *p + (size_t)n_fields * sizeof p->fields[0]);
    if (p == NULL) {
        return PyErr_NoMemory();
    }
    *p = (plan){(wire_shape)shape, args[2], args[3], args[1], n_fields};
    Py_INCREF(p->array_type);
    Py_INCREF(p->scalar_type);
    Py_INCREF(p->names);
    PyObject *capsule = PyCapsule_New(p, PLAN, drop_plan);
    if (capsule == NULL) {
        release_plan(p);
    }
    for (Py_ssize_t i = 0; capsule != NULL && i < n_fields; i++) {
        if (plan_field(PyTuple_GetItem(args[1], i), p->shape, &p->fields[i]) < 0) {
            Py_CLEAR(capsule);
        }
    }
    return capsule;
}

PyMethodDef wire_write_methods[] = {
    FAST(wire_plan, "wire_plan(shape, fields, array_type, scalar_type, /)\n--\n\nReturn how records are written."),
    FAST(wire_write, "wire_write(plan, values, normalize, /)\n--\n\n"
                     "Return the bytes of a record, or the number of a field whose array changed meanwhile."),
    {NULL, NULL, 0, NULL},
};
