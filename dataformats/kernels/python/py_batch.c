/* The wrapper of the batch kernels. */
#include "python/py_native.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "python/py_layout.h"

typedef struct {
    Py_buffer out, slice;
} out_views;

/* Memory of each thread. */
typedef struct {
    uint8_t *scratch;
    read_part *parts;
    map_copier *copier;
} worker_room;

/* Everything that a read holds. */
typedef struct {
    const laid_out *laid;
    held_files *known; /* NULL: without maps */
    out_views *outs;
    batch_file *files;
    batch_field *fields;
    batch plan;
    read_engine *engine;
    worker_room *workers;
    int n_workers;
    int64_t n_shares;
    atomic_int outcome; /* FAILED, NO_MEMORY, or 0 */
    int has_maps;       /* some files are mapped */
    atomic_int waited;  /* for a page of a map */
    int64_t n_left;     /* runs that were not in the page cache */
    uint8_t *scratch;
    read_request *requests;
    read_part *parts;
} batch_arguments;

#define FAILED 1
#define NO_MEMORY 2
#define SHARE_BYTES (64 << 10)   /* of cost, done by one thread at a time */
#define SHARED_BYTES (768 << 10) /* for less, waking threads costs more than they gain */

static void free_left(batch_arguments *held) {
    free(held->scratch);
    free(held->requests);
    free(held->parts);
    held->scratch = NULL;
    held->requests = NULL;
    held->parts = NULL;
}

static void release(batch_arguments *held) {
    for (int64_t i = 0; held->outs != NULL && i < held->laid->n_fields; i++) {
        PyBuffer_Release(&held->outs[i].out);
        PyBuffer_Release(&held->outs[i].slice);
    }
    free(held->outs);
    free(held->files);
    free(held->fields);
    free(held->plan.spans);
    free(held->plan.runs);
    for (int i = 0; held->workers != NULL && i < held->n_workers; i++) {
        free(held->workers[i].scratch);
        free(held->workers[i].parts);
        if (held->workers[i].copier != NULL) {
            map_copier_give(held->workers[i].copier);
        }
    }
    free(held->workers);
    free_left(held);
}

/* Fill the outputs of a field from a tuple: its array, the slice's array or None, the slice's begin and bytes. */
static int take_out(PyObject *tuple, out_views *views, batch_field *field) {
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != 4) {
        PyErr_SetString(PyExc_TypeError, "an output must be a tuple of out, and out, begin and bytes of the slice");
        return -1;
    }
    PyObject *slice = PyTuple_GetItem(tuple, 1);
    if (take_array(PyTuple_GetItem(tuple, 0), &views->out, PyBUF_WRITABLE, "B", 1,
                   "out must be a writable uint8 array") < 0) {
        return -1;
    }
    field->out = views->out.buf;
    field->n_out = views->out.len;
    if (slice == Py_None) {
        return 0;
    }
    const long long begin = PyLong_AsLongLong(PyTuple_GetItem(tuple, 2));
    const long long n_bytes = PyErr_Occurred() ? -1 : PyLong_AsLongLong(PyTuple_GetItem(tuple, 3));
    if (PyErr_Occurred() || take_array(slice, &views->slice, PyBUF_WRITABLE, "B", 1,
                                       "the slice's out must be a writable uint8 array") < 0) {
        return -1;
    }
    if (n_bytes < 1) {
        PyErr_Format(PyExc_ValueError, "a slice must have at least one byte, found %lld", n_bytes);
        return -1;
    }
    field->slice = (batch_slice){begin, n_bytes, views->slice.buf, views->slice.len};
    return 0;
}

static int take_fields(PyObject *tuple, batch_arguments *held) {
    const laid_out *laid = held->laid;
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != laid->n_fields) {
        PyErr_SetString(PyExc_TypeError, "outs must be a tuple, one for each field");
        return -1;
    }
    held->outs = calloc((size_t)laid->n_fields + 1, sizeof *held->outs);
    held->fields = room_for(laid->n_fields, sizeof *held->fields);
    if (held->outs == NULL || held->fields == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < laid->n_fields; i++) {
        held->fields[i] = laid->fields[i];
        if (take_out(PyTuple_GetItem(tuple, i), &held->outs[i], &held->fields[i]) < 0) {
            return -1;
        }
    }
    held->plan.fields = held->fields;
    held->plan.n_fields = laid->n_fields;
    return 0;
}

/* Fill the files from their descriptors; `with_memory`: also copy files in memory. */
static int take_descriptors(PyObject *object, int with_memory, batch_arguments *held) {
    const laid_out *laid = held->laid;
    Py_buffer fds;
    if (take_array(object, &fds, 0, "il", 4, "fds must be an int32 array") < 0) {
        return -1;
    }
    if (fds.len / 4 != laid->n_files) {
        PyErr_SetString(PyExc_ValueError, "fds must be as long as the files that were laid out");
    } else if ((held->files = room_for(laid->n_files, sizeof *held->files)) != NULL) {
        for (int64_t i = 0; i < laid->n_files; i++) {
            held->files[i] = laid->files[i];
            held->files[i].fd = ((const int32_t *)fds.buf)[i];
            if (laid->files[i].memory != NULL && !with_memory) {
                held->files[i].memory = NULL;
                held->files[i].fd = BATCH_SKIP;
            }
        }
        held->plan.files = held->files;
        held->plan.n_files = laid->n_files;
    }
    PyBuffer_Release(&fds);
    return held->plan.files == NULL ? -1 : 0;
}

/* Allocate the spans and runs of files that are not in memory. */
static int make_room(batch_arguments *held) {
    batch *plan = &held->plan;
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_files; i++) {
        n += plan->files[i].memory == NULL && plan->files[i].fd != BATCH_SKIP;
    }
    if (n == 0) {
        return 0;
    }
    n = 0;
    for (int64_t i = 0; i < plan->n_fields; i++) {
        n += plan->fields[i].extents.n;
    }
    plan->spans = room_for(n, sizeof *plan->spans);
    plan->runs = plan->spans == NULL ? NULL : room_for(n, sizeof *plan->runs);
    return plan->runs == NULL ? -1 : 0;
}

/* Do one share of the work that needs no waiting. */
static void do_share(void *context, int64_t share, int worker) {
    batch_arguments *held = context;
    worker_room *room = &held->workers[worker];
    const batch *plan = &held->plan;
    if (atomic_load_explicit(&held->outcome, memory_order_relaxed) != 0) {
        return;
    }
    if (plan->n_runs > 0 && room->scratch == NULL) {
        room->scratch = malloc((size_t)plan->n_scratch + 1);
        const int64_t most = plan->n_spans * BATCH_SPAN_PARTS;
        room->parts = malloc((size_t)(most < READ_MAX_PARTS ? most : READ_MAX_PARTS) * sizeof *room->parts);
        if (room->scratch == NULL || room->parts == NULL) {
            atomic_store(&held->outcome, NO_MEMORY);
            return;
        }
    }
    if (held->has_maps && room->copier == NULL) {
        room->copier = map_copier_take();
    }
    int waited = atomic_load_explicit(&held->waited, memory_order_relaxed);
    if (batch_copy(plan, share, held->n_shares) < 0 ||
        (plan->n_runs > 0 && batch_try(plan, held->engine, share, held->n_shares, room->scratch, room->parts,
                                       held->has_maps ? room->copier : NULL, &waited) < 0)) {
        atomic_store(&held->outcome, FAILED);
    }
    if (waited) {
        atomic_store(&held->waited, 1);
    }
}

/* Read the runs that need waiting. */
static int read_left(batch_arguments *held) {
    int64_t n_scratch;
    const int64_t n = held->n_left = batch_left(&held->plan, &n_scratch);
    if (n > 0) {
        held->scratch = malloc((size_t)n_scratch + 1);
        held->requests = malloc((size_t)n * sizeof *held->requests);
        held->parts = malloc((size_t)held->plan.n_spans * BATCH_SPAN_PARTS * sizeof *held->parts);
        if (held->scratch == NULL || held->requests == NULL || held->parts == NULL) {
            return NO_MEMORY;
        }
    }
    return batch_read(&held->plan, held->engine, n, held->scratch, held->requests, held->parts) < 0 ? FAILED : 0;
}

/* Do the read that was planned, with threads if it is large. Return FAILED, NO_MEMORY or 0. */
static int run_planned(batch_arguments *held, thread_pool *pool) {
    const int64_t n_bytes = batch_effort(&held->plan);
    held->n_shares = held->n_workers > 1 && n_bytes >= SHARED_BYTES ? n_bytes / SHARE_BYTES : 1;
    if (held->n_shares == 1) {
        do_share(held, 0, 0);
    } else {
        pool_share(pool, held->n_workers - 1, do_share, held, held->n_shares);
    }
    const int outcome = atomic_load(&held->outcome);
    return outcome != 0 || held->plan.n_runs == 0 ? outcome : read_left(held);
}

/* Map the files with short runs, if the last read found everything in the page cache. */
static void add_maps(batch_arguments *held) {
    const batch *plan = &held->plan;
    int32_t last = -1;
    if (held->known == NULL || atomic_load(&held->known->warmth) != WARMTH_WARM || plan->n_runs == 0 ||
        !read_tries_first(held->engine) || (held->workers[0].copier = map_copier_take()) == NULL) {
        return;
    }
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const int32_t number = plan->spans[plan->runs[i].first].file;
        if (number != last && batch_is_short(plan, &plan->runs[i])) {
            batch_file *file = &held->files[number];
            file->map = map_of(held->known, number, file->fd, file->n_bytes);
            held->has_maps |= file->map != NULL;
            last = number;
        }
    }
}

/* Read again without maps, after a failure with them. */
static int run_again(batch_arguments *held, thread_pool *pool) {
    for (int64_t i = 0; i < held->plan.n_files; i++) {
        held->files[i].map = NULL;
    }
    held->has_maps = 0;
    atomic_store(&held->outcome, 0);
    free_left(held);
    const int outcome = batch_plan(&held->plan) < 0 ? FAILED : run_planned(held, pool);
    if (outcome == 0) {
        atomic_store(&held->known->warmth, WARMTH_NEVER); /* another file has the name, or the system refuses */
    }
    return outcome;
}

/* Plan and do the read, without the GIL. Return FAILED, NO_MEMORY or 0. */
static int run(batch_arguments *held, thread_pool *pool) {
    if (batch_plan(&held->plan) < 0) {
        return FAILED;
    }
    add_maps(held);
    const int outcome = run_planned(held, pool);
    if (outcome == FAILED && held->has_maps) {
        return run_again(held, pool);
    }
    if (held->known != NULL && held->plan.n_runs > 0 && atomic_load(&held->known->warmth) != WARMTH_NEVER) {
        const int is_warm = outcome == 0 && held->n_left == 0 && !atomic_load(&held->waited);
        atomic_store(&held->known->warmth, is_warm ? WARMTH_WARM : WARMTH_UNKNOWN);
    }
    return outcome;
}

static PyObject *native_read_laid(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    long n_threads, with_memory;
    if (check_count("read_laid", n_args, 7, 7) < 0 || take_small(args[5], "n_threads", INT_MAX - 1, &n_threads) < 0 ||
        take_small(args[6], "with_memory", 1, &with_memory) < 0) {
        return NULL;
    }
    batch_arguments held;
    memset(&held, 0, sizeof held);
    thread_pool *pool = NULL;
    held.laid = laid_in(args[0]);
    if (held.laid == NULL || take_engine(args[3], &held.engine) < 0 || take_thread_pool(args[4], &pool) < 0) {
        return NULL;
    }
    const int most = pool == NULL ? 1 : 1 + MAX_THREADS;
    held.n_workers = n_threads < 1 ? 1 : n_threads < most ? (int)n_threads : most;
    held.workers = calloc((size_t)held.n_workers, sizeof *held.workers);
    if (held.workers == NULL) {
        return PyErr_NoMemory();
    }
    if (take_fields(args[1], &held) < 0 || take_descriptors(args[2], (int)with_memory, &held) < 0 ||
        make_room(&held) < 0) {
        release(&held);
        return NULL;
    }
    held.plan.crc32 = state_of(module)->crc32;
    held.plan.crc32c = state_of(module)->crc32c;
    held.known = files_in(held.laid->held);
    int outcome;
    Py_BEGIN_ALLOW_THREADS outcome = run(&held, pool);
    Py_END_ALLOW_THREADS release(&held);
    return outcome == NO_MEMORY ? PyErr_NoMemory() : PyBool_FromLong(outcome == 0);
}

/* ---- one record */

/* The extent of the blob of a field, and its place. */
typedef struct {
    int64_t offset, length, place[2];
    uint32_t stored;
    int32_t file, number; /* of its file: in the plan, and in the dataset */
} record_blob;

/* Look the blob of field `i` up, and allocate it, if it lies in its file and has at most `max_bytes`. Return it, NULL
 * without an exception if it cannot be read here, or NULL with one. */
static PyObject *new_blob(PyObject *const *args, int64_t i, long long max_bytes, record_blob *blobs,
                          batch_arguments *held) {
    const held_extents *from = extents_in(PyTuple_GetItem(args[0], (Py_ssize_t)i));
    const held_files *files = files_in(args[2]);
    const long long row = from == NULL ? -1 : PyLong_AsLongLong(args[1]);
    const long fd = row < 0 ? -1 : PyLong_AsLong(PyList_GetItem(args[4], (Py_ssize_t)i));
    record_blob *blob = &blobs[i];
    const int64_t record = row;
    *blob = (record_blob){.file = (int32_t)i};
    if (PyErr_Occurred() || row < 0 ||
        held_look_up(from, &record, 1, &blob->number, &blob->offset, &blob->length, &blob->stored) >= 0) {
        return NULL;
    }
    const batch_field *all = &from->field;
    blob->place[1] = blob->length;
    if (blob->number < 0 || blob->number >= files->n || blob->length > max_bytes) {
        return NULL;
    }
    held->files[i] = file_at(files, blob->number);
    held->files[i].fd = (int)fd;
    if ((held->files[i].memory == NULL && fd < 0) ||
        !layout_lies_in(held->files[i].n_bytes, blob->offset, blob->length, all->head, all->tail)) {
        return NULL;
    }
    if (i > 0 && blobs[i - 1].number == blob->number) {
        blob->file = blobs[i - 1].file; /* so that neighbors are read as one */
    }
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)blob->length);
    if (bytes != NULL) {
        batch_field *field = &held->fields[i];
        *field = *all;
        field->extents = (layout_extents){&blob->file, &blob->offset, &blob->length,
                                          from->has_stored ? &blob->stored : NULL, 1};
        field->place = blob->place;
        field->out = (uint8_t *)PyByteArray_AsString(bytes);
        field->n_out = blob->length;
    }
    return bytes;
}

/* Return a new list of the blobs, one a field, and fill the plan; NULL if one cannot be read here, or an exception. */
static PyObject *new_blobs(PyObject *const *args, record_blob *blobs, batch_arguments *held) {
    const int64_t n = PyTuple_Size(args[0]);
    long long left = PyLong_AsLongLong(args[3]);
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);
    for (int64_t i = 0; list != NULL && i < n; i++) {
        PyObject *bytes = new_blob(args, i, left, blobs, held);
        left -= bytes == NULL ? 0 : blobs[i].length;
        if (bytes == NULL || PyList_Append(list, bytes) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(bytes);
    }
    held->plan.files = held->files;
    held->plan.fields = held->fields;
    held->plan.n_files = held->plan.n_fields = n;
    return list;
}

static int run_freely(batch_arguments *held) {
    int outcome;
    if (held->plan.spans == NULL) {
        return run(held, NULL); /* all are in memory, and short */
    }
    Py_BEGIN_ALLOW_THREADS outcome = run(held, NULL);
    Py_END_ALLOW_THREADS return outcome;
}

/* Return the blobs of a record; NULL without an exception if the caller must read them otherwise, or with one. */
static PyObject *read_blobs(PyObject *const *args, batch_arguments *held) {
    const int64_t n = PyTuple_Size(args[0]);
    held->files = room_for(n, sizeof *held->files);
    held->fields = room_for(n, sizeof *held->fields);
    held->workers = calloc(1, sizeof *held->workers);
    held->n_workers = 1;
    record_blob *blobs = room_for(n, sizeof *blobs);
    PyObject *list = NULL;
    if (held->workers == NULL) {
        PyErr_NoMemory();
    } else if (held->files != NULL && held->fields != NULL && blobs != NULL) {
        list = new_blobs(args, blobs, held);
    }
    if (list != NULL) {
        const int outcome = make_room(held) < 0 ? NO_MEMORY : run_freely(held);
        if (outcome != 0) {
            Py_CLEAR(list);
        }
        if (outcome == NO_MEMORY) {
            PyErr_NoMemory();
        }
    }
    free(blobs);
    return list;
}

static PyObject *native_read_record(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    batch_arguments held;
    memset(&held, 0, sizeof held);
    if (check_count("read_record", n_args, 6, 6) < 0 || take_engine(args[5], &held.engine) < 0 ||
        files_in(args[2]) == NULL) {
        return NULL;
    }
    if (!PyTuple_Check(args[0]) || !PyList_Check(args[4]) || PyTuple_Size(args[0]) != PyList_Size(args[4])) {
        PyErr_SetString(PyExc_TypeError, "indexes must be a tuple, and fds a list as long");
        return NULL;
    }
    held.plan.crc32 = state_of(module)->crc32;
    held.plan.crc32c = state_of(module)->crc32c;
    PyObject *list = read_blobs(args, &held);
    release(&held);
    if (list == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return list;
}

PyMethodDef batch_methods[] = {
    FAST(read_record, "read_record(indexes, row, files, max_bytes, fds, engine, /)\n--\n\n"
                      "Return the blobs of a record, one a field, or None where they cannot be read."),
    FAST(read_laid, "read_laid(laid, outs, fds, engine, threads, n_threads, with_memory, /)\n--\n\n"
                    "Read a layout to its places; return False if anything failed."),
    {NULL, NULL, 0, NULL},
};
