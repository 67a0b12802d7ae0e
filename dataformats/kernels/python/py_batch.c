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
} worker_room;

/* Everything that a read holds. */
typedef struct {
    const laid_out *laid;
    out_views *outs;
    batch_file *files;
    batch_field *fields;
    batch plan;
    read_engine *engine;
    worker_room *workers;
    int n_workers;
    int64_t n_shares;
    atomic_int outcome; /* FAILED, NO_MEMORY, or 0 */
    uint8_t *scratch;
    read_request *requests;
    read_part *parts;
} batch_arguments;

#define FAILED 1
#define NO_MEMORY 2
#define SHARE_BYTES (64 << 10)   /* of cost, done by one thread at a time */
#define SHARED_BYTES (768 << 10) /* for less, waking threads costs more than they gain */

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
    }
    free(held->workers);
    free(held->scratch);
    free(held->requests);
    free(held->parts);
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
        room->parts = malloc(READ_MAX_PARTS * sizeof *room->parts);
        if (room->scratch == NULL || room->parts == NULL) {
            atomic_store(&held->outcome, NO_MEMORY);
            return;
        }
    }
    if (batch_copy(plan, share, held->n_shares) < 0 ||
        (plan->n_runs > 0 && batch_try(plan, held->engine, share, held->n_shares, room->scratch, room->parts) < 0)) {
        atomic_store(&held->outcome, FAILED);
    }
}

/* Read the runs that need waiting. */
static int read_left(batch_arguments *held) {
    int64_t n_scratch;
    const int64_t n = batch_left(&held->plan, &n_scratch);
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

/* Plan and do the read, without the GIL, with threads if it is large. Return FAILED, NO_MEMORY or 0. */
static int run(batch_arguments *held, thread_pool *pool) {
    if (batch_plan(&held->plan) < 0) {
        return FAILED;
    }
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
    int outcome;
    Py_BEGIN_ALLOW_THREADS outcome = run(&held, pool);
    Py_END_ALLOW_THREADS release(&held);
    return outcome == NO_MEMORY ? PyErr_NoMemory() : PyBool_FromLong(outcome == 0);
}

PyMethodDef batch_methods[] = {
    FAST(read_laid, "read_laid(laid, outs, fds, engine, threads, n_threads, with_memory, /)\n--\n\n"
                    "Read a layout to its places; return False if anything failed."),
    {NULL, NULL, 0, NULL},
};
