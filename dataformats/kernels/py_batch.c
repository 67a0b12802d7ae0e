/* The wrapper of the batch kernels. */
#include "py_batch.h"

#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "py_engines.h"
#include "tfrecord.h"

#define INT64_FORMATS "lq"
#define FIELD_ITEMS 13

/* The arrays of one field, held while the kernel works. */
typedef struct {
    Py_buffer file, offset, length, stored, place, out, window_place, window_out;
} field_views;

/* All that a read holds. */
typedef struct {
    Py_buffer fds, memories, sizes, mtimes;
    field_views *views;
    batch_file *files;
    batch_field *fields;
    batch plan;
    uint8_t *scratch;
    read_op *ops;
    read_part *parts;
} batch_arguments;

static void release(batch_arguments *held) {
    PyBuffer_Release(&held->fds);
    PyBuffer_Release(&held->memories);
    PyBuffer_Release(&held->sizes);
    PyBuffer_Release(&held->mtimes);
    for (int64_t i = 0; held->views != NULL && i < held->plan.n_fields; i++) {
        PyBuffer_Release(&held->views[i].file);
        PyBuffer_Release(&held->views[i].offset);
        PyBuffer_Release(&held->views[i].length);
        PyBuffer_Release(&held->views[i].stored);
        PyBuffer_Release(&held->views[i].place);
        PyBuffer_Release(&held->views[i].out);
        PyBuffer_Release(&held->views[i].window_place);
        PyBuffer_Release(&held->views[i].window_out);
    }
    free(held->views);
    free(held->files);
    free(held->fields);
    free(held->plan.spans);
    free(held->plan.runs);
    free(held->scratch);
    free(held->ops);
    free(held->parts);
}

/* Allocate room for `n` items and one more, zeroed; NULL with an exception set. */
static void *room(int64_t n, size_t n_bytes) {
    void *memory = calloc((size_t)n + 1, n_bytes);
    return memory == NULL ? PyErr_NoMemory() : memory;
}

static int take_files(PyObject *const *args, batch_arguments *held) {
    if (take_array(args[0], &held->fds, 0, "i", 4, "fds must be an int32 array") < 0 ||
        take_array(args[1], &held->memories, 0, "LQ", 8, "memories must be a uint64 array") < 0 ||
        take_int64(args[2], &held->sizes, "sizes must be an int64 array") < 0 ||
        take_int64(args[3], &held->mtimes, "mtimes must be an int64 array") < 0) {
        return -1;
    }
    const Py_ssize_t n = held->sizes.len / 8;
    if (held->fds.len / 4 != n || held->memories.len / 8 != n || held->mtimes.len / 8 != n) {
        PyErr_SetString(PyExc_ValueError, "fds, memories, sizes and mtimes must be equally long");
        return -1;
    }
    held->files = room(n, sizeof *held->files);
    if (held->files == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        held->files[i] = (batch_file){
            (const uint8_t *)(uintptr_t)((const uint64_t *)held->memories.buf)[i],
            ((const int32_t *)held->fds.buf)[i],
            ((const int64_t *)held->sizes.buf)[i],
            ((const int64_t *)held->mtimes.buf)[i],
        };
    }
    held->plan.files = held->files;
    held->plan.n_files = n;
    return 0;
}

/* Fill `number` from an integer in [0, most]. */
static int take_small(PyObject *object, const char *name, long most, long *number) {
    *number = PyLong_AsLong(object);
    if (*number >= 0 && *number <= most) {
        return 0;
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "%s must be in [0, %ld], found %ld", name, most, *number);
    }
    return -1;
}

/* Fill the window of a field of `n` rows from its place, its array, where it begins and its bytes; 0 bytes: none. */
static int take_window(PyObject *const *items, Py_ssize_t n, field_views *views, batch_window *window) {
    window->begin = PyLong_AsLongLong(items[2]);
    window->n_bytes = window->begin == -1 && PyErr_Occurred() ? -1 : PyLong_AsLongLong(items[3]);
    if (PyErr_Occurred()) {
        return -1;
    }
    if (window->n_bytes == 0) {
        return 0;
    }
    if (take_int64(items[0], &views->window_place, "the window's place must be an int64 array") < 0 ||
        take_array(items[1], &views->window_out, PyBUF_WRITABLE, "B", 1,
                   "the window's out must be a writable uint8 array") < 0) {
        return -1;
    }
    if (views->window_place.len / 8 != n || window->n_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "a window must have a place for each blob, and bytes");
        return -1;
    }
    window->place = views->window_place.buf;
    window->out = views->window_out.buf;
    window->n_out = views->window_out.len;
    return 0;
}

static int take_field(PyObject *tuple, field_views *views, batch_field *field) {
    PyObject *items[FIELD_ITEMS];
    long head, tail, check;
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != FIELD_ITEMS) {
        PyErr_SetString(PyExc_TypeError, "a field must be a tuple of file, offset, length, stored, place, out, "
                                         "head, tail and check, and the window's place, out, begin and bytes");
        return -1;
    }
    for (Py_ssize_t i = 0; i < FIELD_ITEMS; i++) {
        items[i] = PyTuple_GetItem(tuple, i);
    }
    if (take_array(items[0], &views->file, 0, "i", 4, "file must be an int32 array") < 0 ||
        take_int64(items[1], &views->offset, "offset must be an int64 array") < 0 ||
        take_int64(items[2], &views->length, "length must be an int64 array") < 0 ||
        (items[3] != Py_None &&
         take_array(items[3], &views->stored, 0, "IL", 4, "stored must be a uint32 array, or None") < 0) ||
        take_int64(items[4], &views->place, "place must be an int64 array") < 0 ||
        take_array(items[5], &views->out, PyBUF_WRITABLE, "B", 1, "out must be a writable uint8 array") < 0 ||
        take_small(items[6], "head", BATCH_MAX_FRAMING, &head) < 0 ||
        take_small(items[7], "tail", BATCH_MAX_FRAMING, &tail) < 0 ||
        take_small(items[8], "check", BATCH_TFRECORD, &check) < 0) {
        return -1;
    }
    const Py_ssize_t n = views->offset.len / 8;
    if (views->file.len / 4 != n || views->length.len / 8 != n || views->place.len / 8 < n ||
        (items[3] != Py_None && views->stored.len / 4 != n)) {
        PyErr_SetString(PyExc_ValueError, "file, offset, length, stored and place must be equally long");
        return -1;
    }
    if ((check == BATCH_LENGTH && head < 8) || (check == BATCH_TFRECORD && (head < TFRECORD_HEAD || tail < TFRECORD_TAIL))) {
        PyErr_SetString(PyExc_ValueError, "the check needs a longer head or tail");
        return -1;
    }
    *field = (batch_field){views->file.buf, views->offset.buf, views->length.buf, views->stored.buf,
                           views->place.buf, n, head, tail, (batch_check)check, views->out.buf,
                           views->out.len, {0}};
    return take_window(&items[9], n, views, &field->window);
}

/* Take the fields, and make room for as many spans and runs as there are rows. */
static int take_fields(PyObject *tuple, batch_arguments *held) {
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "fields must be a tuple");
        return -1;
    }
    const Py_ssize_t n = PyTuple_Size(tuple);
    int64_t n_rows = 0;
    if ((held->views = room(n, sizeof *held->views)) == NULL ||
        (held->fields = room(n, sizeof *held->fields)) == NULL) {
        return -1;
    }
    held->plan.fields = held->fields;
    held->plan.n_fields = n;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (take_field(PyTuple_GetItem(tuple, i), &held->views[i], &held->fields[i]) < 0) {
            return -1;
        }
        n_rows += held->fields[i].n;
    }
    held->plan.spans = room(n_rows, sizeof *held->plan.spans);
    held->plan.runs = held->plan.spans == NULL ? NULL : room(n_rows, sizeof *held->plan.runs);
    return held->plan.runs == NULL ? -1 : 0;
}

/* Plan and do the read, without the GIL. Return 1, or 0 where something failed; -1 where memory is short. */
static int run(batch_arguments *held, read_engine *engine) {
    batch *plan = &held->plan;
    if (batch_plan(plan) < 0 || batch_copy(plan) < 0) {
        return 0;
    }
    if (plan->n_runs == 0) {
        return 1;
    }
    held->scratch = malloc((size_t)plan->n_scratch + 1);
    held->ops = malloc((size_t)plan->n_runs * sizeof *held->ops);
    held->parts = malloc((size_t)plan->n_spans * BATCH_SPAN_PARTS * sizeof *held->parts);
    if (held->scratch == NULL || held->ops == NULL || held->parts == NULL) {
        return -1;
    }
    return batch_read(plan, engine, held->scratch, held->ops, held->parts) == 0;
}

static PyObject *native_read_batch(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    if (check_count("read_batch", n_args, 6, 6) < 0) {
        return NULL;
    }
    batch_arguments held;
    memset(&held, 0, sizeof held);
    read_engine *engine = NULL;
    if (take_engine(args[5], &engine) < 0 || take_files(args, &held) < 0 || take_fields(args[4], &held) < 0) {
        release(&held);
        return NULL;
    }
    held.plan.crc32 = state_of(module)->crc32;
    held.plan.crc32c = state_of(module)->crc32c;
    int done;
    Py_BEGIN_ALLOW_THREADS done = run(&held, engine);
    Py_END_ALLOW_THREADS release(&held);
    return done < 0 ? PyErr_NoMemory() : PyBool_FromLong(done);
}

/* Release a struct of nothing but views. */
static void release_all(void *views, size_t n_bytes) {
    Py_buffer *all = views;
    for (size_t i = 0; i < n_bytes / sizeof *all; i++) {
        PyBuffer_Release(&all[i]);
    }
}

typedef struct {
    Py_buffer starts, offset, length, stored, indices, file_out, offset_out, length_out, stored_out;
} locate_views;

static int take_index(PyObject *const *args, locate_views *views) {
    const int has_stored = args[3] != Py_None;
    if (take_int64(args[0], &views->starts, "starts must be an int64 array") < 0 ||
        take_int64(args[1], &views->offset, "offset must be an int64 array") < 0 ||
        take_int64(args[2], &views->length, "length must be an int64 array") < 0 ||
        (has_stored &&
         take_array(args[3], &views->stored, 0, "IL", 4, "stored must be a uint32 array, or None") < 0) ||
        take_int64(args[4], &views->indices, "indices must be an int64 array") < 0) {
        return -1;
    }
    const int64_t *starts = views->starts.buf;
    const Py_ssize_t n_starts = views->starts.len / 8, n = views->offset.len / 8;
    if (n_starts < 1 || starts[0] != 0 || starts[n_starts - 1] != n || views->length.len / 8 != n ||
        (has_stored && views->stored.len / 4 != n)) {
        PyErr_SetString(PyExc_ValueError, "starts must rise from 0 to the number of records of the other arrays");
        return -1;
    }
    return 0;
}

static int take_located(PyObject *const *args, locate_views *views) {
    const int has_stored = args[3] != Py_None;
    if (take_array(args[5], &views->file_out, PyBUF_WRITABLE, "i", 4, "file must be an int32 array") < 0 ||
        take_array(args[6], &views->offset_out, PyBUF_WRITABLE, INT64_FORMATS, 8,
                   "offset must be an int64 array") < 0 ||
        take_array(args[7], &views->length_out, PyBUF_WRITABLE, INT64_FORMATS, 8,
                   "length must be an int64 array") < 0 ||
        (has_stored && take_uint32_out(args[8], &views->stored_out, "stored must be a uint32 array") < 0)) {
        return -1;
    }
    const Py_ssize_t n = views->indices.len / 8;
    if (views->file_out.len / 4 != n || views->offset_out.len / 8 != n || views->length_out.len / 8 != n ||
        (has_stored && views->stored_out.len / 4 != n)) {
        PyErr_SetString(PyExc_ValueError, "the outputs must be as long as indices");
        return -1;
    }
    return 0;
}

static PyObject *native_locate(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("locate", n_args, 9, 9) < 0) {
        return NULL;
    }
    locate_views views;
    memset(&views, 0, sizeof views);
    PyObject *failed = NULL;
    if (take_index(args, &views) == 0 && take_located(args, &views) == 0) {
        failed = PyLong_FromLongLong(batch_locate(
            views.starts.buf, views.starts.len / 8 - 1, views.offset.buf, views.length.buf, views.stored.buf,
            views.indices.buf, views.indices.len / 8, views.file_out.buf, views.offset_out.buf,
            views.length_out.buf, views.stored_out.buf));
    }
    release_all(&views, sizeof views);
    return failed;
}

typedef struct {
    Py_buffer sizes, file, offset, length, place;
} places_views;

static int take_extents(PyObject *const *args, places_views *views) {
    if (take_int64(args[0], &views->sizes, "sizes must be an int64 array") < 0 ||
        take_array(args[1], &views->file, 0, "i", 4, "file must be an int32 array") < 0 ||
        take_int64(args[2], &views->offset, "offset must be an int64 array") < 0 ||
        take_int64(args[3], &views->length, "length must be an int64 array") < 0 ||
        take_array(args[7], &views->place, PyBUF_WRITABLE, INT64_FORMATS, 8, "place must be an int64 array") < 0) {
        return -1;
    }
    const Py_ssize_t n = views->offset.len / 8;
    if (views->file.len / 4 != n || views->length.len / 8 != n || views->place.len / 8 != n + 1) {
        PyErr_SetString(PyExc_ValueError, "file, offset and length must be equally long, place one longer");
        return -1;
    }
    return 0;
}

static PyObject *native_places(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("places", n_args, 8, 8) < 0) {
        return NULL;
    }
    long head, tail;
    const long long max_bytes = PyLong_AsLongLong(args[6]);
    if ((max_bytes == -1 && PyErr_Occurred()) || take_small(args[4], "head", BATCH_MAX_FRAMING, &head) < 0 ||
        take_small(args[5], "tail", BATCH_MAX_FRAMING, &tail) < 0) {
        return NULL;
    }
    places_views views;
    memset(&views, 0, sizeof views);
    PyObject *total = NULL;
    if (take_extents(args, &views) == 0) {
        total = PyLong_FromLongLong(batch_places(views.sizes.buf, views.sizes.len / 8, views.file.buf,
                                                 views.offset.buf, views.length.buf, views.offset.len / 8, head,
                                                 tail, max_bytes, views.place.buf));
    }
    release_all(&views, sizeof views);
    return total;
}

PyMethodDef batch_methods[] = {
    FAST(read_batch, "read_batch(fds, memories, sizes, mtimes, fields, engine, /)\n--\n\n"
                     "Read the blobs of all fields to their places; return False where anything failed."),
    FAST(locate, "locate(starts, offset, length, stored, indices, file, offset, length, stored, /)\n--\n\n"
                 "Write where records lie; return -1, or the first position that is no record."),
    FAST(places, "places(sizes, file, offset, length, head, tail, max_bytes, place, /)\n--\n\n"
                 "Lay blobs out back to back; return their bytes, or -1 where one does not fit its file."),
    {NULL, NULL, 0, NULL},
};
