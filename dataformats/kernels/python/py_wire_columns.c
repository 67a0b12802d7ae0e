/* The wrapper of reading: from the records of a batch to its columns, in one call, or from one record to its values.
 * Functions of the caller allocate the arrays once the number of values is known. */
#include "python/py_native.h"

#include <string.h>

#include "wire/wire_columns.h"

#define PLAN "dataformats.wire_columns_plan"
#define MOST_BYTES ((int64_t)1 << 60) /* sums of a few of these do not overflow */

/* Flags of a column: see wire_columns.py. */
enum { FILLED = 1, SLICED = 2 };

/* The form of a value in a record: see wire_columns.py. */
enum { NO_VALUE, NUMBER, ROW, ELEMENTS, BYTES, TEXT, DECODED, FORMS };

typedef struct {
    wire_target target;
    PyObject *new_array, *new_present; /* of `targets`; new_present is None unless records may lack the value */
    int form;                          /* the rest is of `values` */
    int may_lack;        /* a record may lack the field */
    PyObject *name, *decode;
} field;

typedef struct {
    wire_shape shape;
    wire_names names;
    PyObject *targets, *new_int64s, *values;
    int is_closed; /* records must have no other names */
    int64_t n_fields;
    field *fields;
    uint8_t memory[]; /* of fields, and of the data of `names` */
} plan;

/* The arrays of a column. */
typedef struct {
    PyObject *first, *second, *present;
    Py_buffer first_view, second_view, present_view;
} output;

/* Everything that a call holds; all but the views is in `memory`. */
typedef struct {
    const plan *plan;
    Py_buffer buffer, starts, lengths;
    int64_t n_records;
    wire_slice slice;
    wire_block_kernel *block;
    void *memory;
    wire_feature *features;
    wire_column *columns;
    output *outputs;
    wire_target *targets;
    wire_dense *dense; /* of values that are not NULL: the columns that are filled while records are parsed */
    int64_t *scratch;
    uint8_t *strays;
} batch;

/* ---- arguments */

static int take_slice(PyObject *given, wire_slice *slice) {
    long long begin, n_bytes;
    *slice = (wire_slice){0, 0};
    if (given == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(given) || PyTuple_Size(given) != 2) {
        PyErr_SetString(PyExc_TypeError, "slice must be None, or begin and bytes");
        return -1;
    }
    begin = PyLong_AsLongLong(PyTuple_GetItem(given, 0));
    n_bytes = PyLong_AsLongLong(PyTuple_GetItem(given, 1));
    if (PyErr_Occurred()) {
        return -1;
    }
    if (begin < -MOST_BYTES || begin > MOST_BYTES || n_bytes < 1 || n_bytes > MOST_BYTES) {
        PyErr_SetString(PyExc_ValueError, "slice must begin in a record, and have at least one byte");
        return -1;
    }
    *slice = (wire_slice){begin, n_bytes};
    return 0;
}

/* Allocate the memory of a call, and divide it into its parts; NULL with an exception set. */
static void *cut_memory(batch *b) {
    const size_t n_fields = (size_t)b->plan->n_fields, n_records = (size_t)b->n_records;
    const size_t each = sizeof *b->columns + sizeof *b->outputs + sizeof *b->targets + sizeof *b->dense;
    const size_t n_scratch = 2 * (size_t)b->plan->names.n_names + 1;
    if (n_records >= SIZE_MAX / 2 / (n_fields + 1) / sizeof *b->features) {
        return PyErr_NoMemory();
    }
    const size_t n_features = n_fields * n_records;
    uint8_t *at = PyMem_Malloc(n_features * sizeof *b->features + n_fields * each + n_scratch * 8 + n_records + 1);
    b->memory = at;
    if (at == NULL) {
        return PyErr_NoMemory();
    }
    b->outputs = (output *)at;
    memset(b->outputs, 0, n_fields * (sizeof *b->outputs + sizeof *b->dense));
    b->dense = (wire_dense *)(at += n_fields * sizeof *b->outputs);
    b->targets = (wire_target *)(at += n_fields * sizeof *b->dense);
    b->columns = (wire_column *)(at += n_fields * sizeof *b->targets);
    b->features = (wire_feature *)(at += n_fields * sizeof *b->columns);
    b->scratch = (int64_t *)(at += n_features * sizeof *b->features);
    b->strays = at + n_scratch * 8;
    return b->memory;
}

/* Take (plan, buffer, starts, lengths, slice). Return 0, or -1 with an exception set. */
static int take(PyObject *const *args, batch *b) {
    b->plan = PyCapsule_GetPointer(args[0], PLAN);
    if (b->plan == NULL || take_slice(args[4], &b->slice) < 0 || take_bytes(args[1], &b->buffer) < 0 ||
        take_int64(args[2], &b->starts, "starts must be a contiguous int64 array of one dimension") < 0 ||
        take_int64(args[3], &b->lengths, "lengths must be a contiguous int64 array of one dimension") < 0) {
        return -1;
    }
    if (b->starts.len != b->lengths.len) {
        PyErr_Format(PyExc_ValueError, "starts and lengths must be equally long, found %zd and %zd",
                     b->starts.len / 8, b->lengths.len / 8);
        return -1;
    }
    b->n_records = b->starts.len / 8;
    return cut_memory(b) == NULL ? -1 : 0;
}

static void let_go_of(output *out) {
    PyBuffer_Release(&out->first_view);
    PyBuffer_Release(&out->second_view);
    PyBuffer_Release(&out->present_view);
    Py_CLEAR(out->first);
    Py_CLEAR(out->second);
    Py_CLEAR(out->present);
}

static void let_go(batch *b) {
    for (int64_t i = 0; b->memory != NULL && i < b->plan->n_fields; i++) {
        let_go_of(&b->outputs[i]);
    }
    PyMem_Free(b->memory);
    PyBuffer_Release(&b->buffer);
    PyBuffer_Release(&b->starts);
    PyBuffer_Release(&b->lengths);
}

/* ---- without the GIL, if there is much to do */

static int has_stray(const batch *b) { return memchr(b->strays, 1, (size_t)b->n_records) != NULL; }

static int is_any_sliced(const batch *b) {
    for (int64_t i = 0; i < b->plan->n_fields; i++) {
        if (b->columns[i].is_sliced) {
            return 1;
        }
    }
    return 0;
}

static void fit(batch *b, int is_dense) {
    const plan *p = b->plan;
    if (!is_dense) {
        memset(b->dense, 0, (size_t)p->n_fields * sizeof *b->dense);
        wire_columns_fit(b->targets, p->n_fields, b->features, b->n_records, b->starts.buf, b->lengths.buf, b->slice,
                         b->columns);
        return;
    }
    for (int64_t i = 0; i < p->n_fields; i++) {
        b->columns[i] = (wire_column){.fits = 1};
        if (b->dense[i].values == NULL) {
            wire_columns_fit(&b->targets[i], 1, b->features + i * b->n_records, b->n_records, b->starts.buf,
                             b->lengths.buf, b->slice, &b->columns[i]);
        }
    }
}

/* Find the features, and compute their columns. Return 0 if the caller must use the slow path. */
static int find(batch *b) {
    const plan *p = b->plan;
    int64_t failed = wire_find_dense(p->shape, b->buffer.buf, b->buffer.len, b->starts.buf, b->lengths.buf,
                                     b->n_records, &p->names, b->dense, b->block, b->scratch, b->features, b->strays);
    const int is_dense = failed < 0;
    if (failed == b->n_records) {
        failed = wire_find(p->shape, b->buffer.buf, b->buffer.len, b->starts.buf, b->lengths.buf, b->n_records,
                           &p->names, b->scratch, b->features, b->strays);
    }
    if (failed >= 0 || (p->is_closed && has_stray(b))) {
        return 0;
    }
    fit(b, is_dense);
    return b->slice.n_bytes == 0 || is_any_sliced(b);
}

static void fill(batch *b) {
    for (int64_t i = 0; i < b->plan->n_fields; i++) {
        output *out = &b->outputs[i];
        if (b->columns[i].fits && b->dense[i].values == NULL) {
            b->columns[i].fits =
                wire_column_fill(b->plan->shape, b->buffer.buf, b->buffer.len, &b->targets[i],
                                 b->features + i * b->n_records, b->n_records, &b->columns[i],
                                 out->first_view.buf, out->second_view.buf, b->block);
            if (out->present != NULL) {
                wire_write_present(b->features + i * b->n_records, b->n_records, out->present_view.buf);
            }
        }
    }
}

/* Return the number of bytes to parse, without the slice. The lengths are not validated yet. */
static int64_t bytes_to_find(const batch *b) {
    const int64_t *lengths = b->lengths.buf;
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < b->n_records && n_bytes < RELEASE_GIL_BYTES; i++) {
        const int64_t sliced = b->slice.n_bytes;
        n_bytes += lengths[i] > sliced && lengths[i] <= b->buffer.len ? lengths[i] - sliced : 0;
    }
    return n_bytes;
}

static int64_t bytes_to_fill(const batch *b) {
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < b->plan->n_fields; i++) {
        n_bytes += b->columns[i].is_sliced || b->dense[i].values != NULL ? 0 : b->columns[i].n_bytes;
    }
    return n_bytes;
}

static int find_freely(batch *b) {
    int found;
    if (bytes_to_find(b) < RELEASE_GIL_BYTES) {
        return find(b);
    }
    Py_BEGIN_ALLOW_THREADS found = find(b);
    Py_END_ALLOW_THREADS
    return found;
}

static void fill_freely(batch *b) {
    if (bytes_to_fill(b) < RELEASE_GIL_BYTES) {
        fill(b);
        return;
    }
    Py_BEGIN_ALLOW_THREADS fill(b);
    Py_END_ALLOW_THREADS
}

/* ---- arrays */

static int overlap(const Py_buffer *a, const Py_buffer *b) {
    const uintptr_t begin = (uintptr_t)a->buf, other = (uintptr_t)b->buf;
    return begin < other + (size_t)b->len && other < begin + (size_t)a->len;
}

/* Return `new_array(n)`, and fill `view` with it; it must have exactly `n_bytes`. NULL with an exception set. */
static PyObject *made(const batch *b, PyObject *new_array, int64_t n, int64_t n_bytes, Py_buffer *view) {
    PyObject *number = PyLong_FromLongLong(n);
    PyObject *array = number == NULL ? NULL : PyObject_CallFunctionObjArgs(new_array, number, NULL);
    Py_XDECREF(number);
    if (array == NULL || PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        Py_XDECREF(array);
        return NULL;
    }
    if (view->len != n_bytes || (uintptr_t)view->buf % 8 != 0) {
        PyErr_Format(PyExc_ValueError, "expected an aligned array of %lld bytes, found %zd", (long long)n_bytes,
                     view->len);
        Py_DECREF(array);
        return NULL;
    }
    if (overlap(view, &b->buffer)) {
        PyErr_SetString(PyExc_ValueError, "expected a new array, found one that overlaps the records");
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

/* Allocate the array of the records that have the value. Return 0, or -1 with an exception set. */
static int make_present(const batch *b, int64_t i) {
    output *out = &b->outputs[i];
    out->present = made(b, b->plan->fields[i].new_present, b->n_records, b->n_records, &out->present_view);
    return out->present == NULL ? -1 : 0;
}

/* Allocate the arrays of a column that fits. Return 0, or -1 with an exception set. */
static int make_arrays(const batch *b, int64_t i, output *out) {
    const wire_column *column = &b->columns[i];
    const field *f = &b->plan->fields[i];
    const int is_placed = f->target.output == WIRE_PLACED;
    if (!column->is_sliced && out->first == NULL) {
        PyObject *new_array = is_placed ? b->plan->new_int64s : f->new_array;
        out->first = made(b, new_array, column->values, column->n_bytes, &out->first_view);
        if (out->first == NULL) {
            return -1;
        }
    }
    if (f->target.output != WIRE_DENSE) {
        const int64_t n = b->n_records + !is_placed;
        out->second = made(b, b->plan->new_int64s, n, n * 8, &out->second_view);
    }
    if (column->lacks && out->present == NULL) {
        make_present(b, i);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int make_all(const batch *b) {
    for (int64_t i = 0; i < b->plan->n_fields; i++) {
        if (b->columns[i].fits && make_arrays(b, i, &b->outputs[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Allocate the dense columns, whose sizes are known before records are parsed. None that their bytes cannot fill: a
 * number has at most eight bytes, and at least one is stored. Return 0, or -1 with an exception set. */
static int make_dense(const batch *b) {
    for (int64_t i = 0; i < b->plan->n_fields; i++) {
        const field *f = &b->plan->fields[i];
        const int64_t row_bytes = f->target.size * f->target.width;
        output *out = &b->outputs[i];
        b->targets[i] = f->target;
        if (f->target.output != WIRE_DENSE || b->slice.n_bytes != 0 || row_bytes / 8 > b->buffer.len / b->n_records) {
            continue;
        }
        out->first = made(b, f->new_array, b->n_records, b->n_records * row_bytes, &out->first_view);
        if (out->first == NULL || (f->target.may_lack && make_present(b, i) < 0)) {
            return -1;
        }
        b->dense[i] = wire_dense_of(&b->targets[i], out->first_view.buf, out->present_view.buf);
    }
    return 0;
}

/* Return the rows of features of a name instead of its column. */
static int put_features(const batch *b, int64_t i, output *out) {
    const int64_t n_bytes = b->n_records * (int64_t)sizeof(wire_feature);
    let_go_of(out);
    out->first = made(b, b->plan->new_int64s, n_bytes / 8, n_bytes, &out->first_view);
    if (out->first == NULL) {
        return -1;
    }
    memcpy(out->first_view.buf, b->features + i * b->n_records, (size_t)n_bytes);
    return 0;
}

/* Return (how, first, second, present) of a column; NULL with an exception set. */
static PyObject *described(const batch *b, int64_t i) {
    const wire_column *column = &b->columns[i];
    output *out = &b->outputs[i];
    if (!column->fits && put_features(b, i, out) < 0) {
        return NULL;
    }
    return Py_BuildValue("(iOOO)", (column->fits ? FILLED : 0) | (column->is_sliced ? SLICED : 0),
                         out->first == NULL ? Py_None : out->first, out->second == NULL ? Py_None : out->second,
                         out->present == NULL ? Py_None : out->present);
}

static PyObject *described_all(const batch *b) {
    PyObject *all = PyTuple_New((Py_ssize_t)b->plan->n_fields);
    for (int64_t i = 0; all != NULL && i < b->plan->n_fields; i++) {
        PyObject *one = described(b, i);
        if (one == NULL || PyTuple_SetItem(all, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(all);
        }
    }
    return all;
}

static PyObject *columns_of(batch *b) {
    if (b->n_records == 0) {
        Py_RETURN_NONE;
    }
    if (make_dense(b) < 0) {
        return NULL;
    }
    if (!find_freely(b)) {
        Py_RETURN_NONE;
    }
    if (make_all(b) < 0) {
        return NULL;
    }
    fill_freely(b);
    return described_all(b);
}

static PyObject *native_wire_columns(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    batch b;
    memset(&b, 0, sizeof b);
    b.block = state_of(module)->varints;
    PyObject *columns =
        check_count("wire_columns", n_args, 5, 5) < 0 || take(args, &b) < 0 ? NULL : columns_of(&b);
    let_go(&b);
    return columns;
}

/* ---- one record */

/* Return a number in little-endian bytes as a Python number. */
static PyObject *number_in(const uint8_t *bytes, const wire_target *target) {
    uint64_t bits = 0;
    for (int i = 0; i < target->width; i++) {
        bits |= (uint64_t)bytes[i] << (8 * i);
    }
    if (target->letter == 'f' && target->width == 4) {
        const uint32_t half = (uint32_t)bits;
        float value;
        memcpy(&value, &half, sizeof value);
        return PyFloat_FromDouble(value);
    }
    if (target->letter == 'f') {
        double value;
        memcpy(&value, &bits, sizeof value);
        return PyFloat_FromDouble(value);
    }
    if (target->letter == 'i') {
        const uint64_t sign = (uint64_t)1 << (8 * target->width - 1);
        return PyLong_FromLongLong((int64_t)((bits ^ sign) - sign));
    }
    return target->letter == 'b' ? PyBool_FromLong(bits != 0) : PyLong_FromUnsignedLongLong(bits);
}

static PyObject *number_of(const batch *b, int64_t i) {
    uint8_t bytes[8];
    if (b->columns[i].n_bytes > (int64_t)sizeof bytes ||
        !wire_column_fill(b->plan->shape, b->buffer.buf, b->buffer.len, &b->targets[i], &b->features[i], 1,
                          &b->columns[i], bytes, NULL, b->block)) {
        return NULL;
    }
    return number_in(bytes, &b->targets[i]);
}

/* Return the array of a column of one record, or its only row. */
static PyObject *array_of(const batch *b, int64_t i) {
    const wire_column *column = &b->columns[i];
    const field *f = &b->plan->fields[i];
    output *out = &b->outputs[i];
    int64_t offsets[2];
    out->first = made(b, f->new_array, column->values, column->n_bytes, &out->first_view);
    if (out->first == NULL ||
        !wire_column_fill(b->plan->shape, b->buffer.buf, b->buffer.len, &b->targets[i], &b->features[i], 1, column,
                          out->first_view.buf, offsets, b->block)) {
        return NULL;
    }
    if (f->form == ROW) {
        return PySequence_GetItem(out->first, 0);
    }
    Py_INCREF(out->first);
    return out->first;
}

static PyObject *bytes_of(const batch *b, int64_t i) {
    const field *f = &b->plan->fields[i];
    const wire_feature *feature = &b->features[i];
    if (feature->begin < 0 || feature->begin > feature->end || feature->end > b->buffer.len) {
        return NULL;
    }
    const char *from = (const char *)b->buffer.buf + feature->begin;
    const Py_ssize_t n = (Py_ssize_t)(feature->end - feature->begin);
    if (f->form == BYTES) {
        return PyBytes_FromStringAndSize(from, n);
    }
    if (f->form == TEXT) {
        return PyUnicode_DecodeUTF8(from, n, "strict");
    }
    PyObject *bytes = PyByteArray_FromStringAndSize(from, n);
    PyObject *value = bytes == NULL ? NULL : PyObject_CallFunctionObjArgs(f->decode, bytes, NULL);
    Py_XDECREF(bytes);
    return value;
}

/* Return the value of a field that fits; NULL if it does not after all, or with an exception. */
static PyObject *value_of(const batch *b, int64_t i) {
    switch (b->plan->fields[i].form) {
    case NUMBER:
        return number_of(b, i);
    case ROW:
    case ELEMENTS:
        return array_of(b, i);
    case BYTES:
    case TEXT:
    case DECODED:
        return bytes_of(b, i);
    default:
        return NULL;
    }
}

/* Prepare for finding: numbers go straight to the rows of their features, which then are not written. */
static void place_numbers(batch *b) {
    for (int64_t i = 0; i < b->plan->n_fields; i++) {
        const field *f = &b->plan->fields[i];
        b->targets[i] = f->target;
        if (f->form == NUMBER) {
            uint8_t *value = (uint8_t *)&b->features[i], *present = value + sizeof(int64_t);
            b->dense[i] = wire_dense_of(&b->targets[i], value, f->target.may_lack ? present : NULL);
        }
    }
}

/* Return a dict of the values; NULL if a batch must be decoded instead, or with an exception. */
static PyObject *record_of(batch *b) {
    place_numbers(b);
    PyObject *record = find(b) ? PyDict_New() : NULL;
    for (int64_t i = 0; record != NULL && i < b->plan->n_fields; i++) {
        const field *f = &b->plan->fields[i];
        const int is_placed = b->dense[i].values != NULL;
        const uint8_t *present = b->dense[i].present;
        if (is_placed ? present != NULL && !*present : f->may_lack && b->features[i].kind <= WIRE_MISSING) {
            continue;
        }
        PyObject *value = is_placed              ? number_in(b->dense[i].values, &b->targets[i])
                          : b->columns[i].fits ? value_of(b, i)
                                               : NULL;
        if (value == NULL || PyDict_SetItem(record, f->name, value) < 0) {
            Py_CLEAR(record);
        }
        Py_XDECREF(value);
    }
    return record;
}

static PyObject *native_wire_record(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    batch b;
    memset(&b, 0, sizeof b);
    b.block = state_of(module)->varints;
    PyObject *record = NULL;
    if (check_count("wire_record", n_args, 2, 2) == 0 && (b.plan = PyCapsule_GetPointer(args[0], PLAN)) != NULL &&
        b.plan->values != NULL && take_bytes(args[1], &b.buffer) == 0) {
        int64_t start = 0, length = b.buffer.len;
        b.starts.buf = &start;
        b.lengths.buf = &length;
        b.n_records = 1;
        record = cut_memory(&b) == NULL ? NULL : record_of(&b);
    }
    let_go(&b);
    if (record == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return record;
}

/* ---- plans */

static void release_plan(plan *p) {
    Py_XDECREF(p->targets);
    Py_XDECREF(p->new_int64s);
    Py_XDECREF(p->values);
    PyMem_Free(p);
}

static void drop_plan(PyObject *capsule) { release_plan(PyCapsule_GetPointer(capsule, PLAN)); }

/* Fill a field from (output, letter, width, size, new_array, new_present). */
static int plan_field(PyObject *described, field *f) {
    int kind, letter, width;
    long long size;
    if (!PyArg_ParseTuple(described, "iCiLOO", &kind, &letter, &width, &size, &f->new_array, &f->new_present)) {
        return -1;
    }
    const int may_lack = f->new_present != Py_None;
    if (kind < 0 || kind >= WIRE_OUTPUTS || !is_number(letter, width) || size < 1 || size > INT32_MAX ||
        (kind == WIRE_PLACED && may_lack)) {
        PyErr_SetString(PyExc_ValueError, "expected an output, letter, width and size of wire_columns.Output");
        return -1;
    }
    f->target = (wire_target){(wire_output)kind, (char)letter, width, size, may_lack};
    f->form = NO_VALUE;
    return 0;
}

/* Fill the value of a field from (form, may_lack, name, decode). */
static int plan_value(PyObject *described, field *f) {
    if (!PyArg_ParseTuple(described, "ipUO", &f->form, &f->may_lack, &f->name, &f->decode)) {
        return -1;
    }
    if (f->form < 0 || f->form >= FORMS) {
        PyErr_SetString(PyExc_ValueError, "expected a form of wire_columns.ValueForm");
        return -1;
    }
    return 0;
}

/* Return the bytes of all names, tuples (part, name); -1 with an exception set. */
static Py_ssize_t bytes_of_names(PyObject *names) {
    Py_ssize_t n_bytes = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
        int part;
        PyObject *name;
        if (!PyArg_ParseTuple(PyTuple_GetItem(names, i), "iS", &part, &name)) {
            return -1;
        }
        n_bytes += PyBytes_Size(name);
    }
    return n_bytes;
}

/* Copy names to memory of sufficient size, and sort them. */
static wire_names copied_names(PyObject *names, Py_ssize_t n_wanted, int64_t *ends, int64_t *sorted, uint8_t *parts,
                               uint8_t *bytes) {
    const Py_ssize_t n_names = PyTuple_Size(names);
    int64_t done = 0;
    for (Py_ssize_t i = 0; i < n_names; i++) {
        PyObject *pair = PyTuple_GetItem(names, i), *name = PyTuple_GetItem(pair, 1);
        const Py_ssize_t n_bytes = PyBytes_Size(name);
        memcpy(bytes + done, PyBytes_AsString(name), (size_t)n_bytes);
        parts[i] = PyLong_AsLong(PyTuple_GetItem(pair, 0)) != 0;
        ends[i] = done += n_bytes;
    }
    const wire_names copied = {bytes, ends, parts, n_names, n_wanted, sorted};
    wire_sort_names(&copied, sorted);
    return copied;
}

static plan *new_plan(wire_shape shape, PyObject *names, PyObject *targets, int is_closed, PyObject *new_int64s,
                      PyObject *values) {
    const Py_ssize_t n_bytes = bytes_of_names(names), n_names = PyTuple_Size(names), n_fields = PyTuple_Size(targets);
    if (n_bytes < 0) {
        return NULL;
    }
    const size_t of_fields = (size_t)n_fields * sizeof(field), of_ends = (size_t)n_names * 8;
    plan *p = PyMem_Malloc(sizeof *p + of_fields + 2 * of_ends + (size_t)(n_names + n_bytes) + 1);
    if (p == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    uint8_t *const ends = p->memory + of_fields, *const sorted = ends + of_ends, *const parts = sorted + of_ends;
    *p = (plan){.shape = shape, .targets = targets, .new_int64s = new_int64s, .values = values};
    p->is_closed = is_closed;
    p->n_fields = n_fields;
    p->fields = (field *)p->memory;
    p->names = copied_names(names, n_fields, (int64_t *)ends, (int64_t *)sorted, parts, parts + n_names);
    Py_INCREF(targets);
    Py_INCREF(new_int64s);
    Py_XINCREF(values);
    return p;
}

static PyObject *native_wire_columns_plan(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("wire_columns_plan", n_args, 5, 6) < 0) {
        return NULL;
    }
    const long shape = PyLong_AsLong(args[0]);
    if (shape < 0 || shape >= WIRE_SHAPES || !PyTuple_CheckExact(args[1]) || !PyTuple_CheckExact(args[2]) ||
        PyTuple_Size(args[2]) > PyTuple_Size(args[1])) {
        return PyErr_Format(PyExc_TypeError, "expected a shape, a tuple of names, a tuple of as many columns or fewer");
    }
    PyObject *values = n_args < 6 || args[5] == Py_None ? NULL : args[5];
    if (values != NULL && (!PyTuple_CheckExact(values) || PyTuple_Size(values) != PyTuple_Size(args[2]))) {
        return PyErr_Format(PyExc_TypeError, "expected a tuple of a value for each column");
    }
    plan *p = new_plan((wire_shape)shape, args[1], args[2], args[3] == Py_True, args[4], values);
    PyObject *capsule = p == NULL ? NULL : PyCapsule_New(p, PLAN, drop_plan);
    if (p != NULL && capsule == NULL) {
        release_plan(p);
    }
    for (int64_t i = 0; capsule != NULL && i < p->n_fields; i++) {
        if (plan_field(PyTuple_GetItem(args[2], (Py_ssize_t)i), &p->fields[i]) < 0 ||
            (values != NULL && plan_value(PyTuple_GetItem(values, (Py_ssize_t)i), &p->fields[i]) < 0)) {
            Py_CLEAR(capsule);
        }
    }
    return capsule;
}

PyMethodDef wire_columns_methods[] = {
    FAST(wire_columns_plan, "wire_columns_plan(shape, names, outputs, closed, new_int64s, values=None, /)\n--\n\n"
                            "Return how the columns of records are made."),
    FAST(wire_record, "wire_record(plan, record, /)\n--\n\n"
                      "Return the values of one record; None if it must be decoded as a batch."),
    FAST(wire_columns, "wire_columns(plan, buffer, starts, lengths, slice, /)\n--\n\n"
                       "Return the columns of records; None if any record needs the slow path."),
    {NULL, NULL, 0, NULL},
};
