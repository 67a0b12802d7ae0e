/* The wrapper of the batch kernels. */
#include "py_batch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "py_engines.h"
#include "py_layout.h"

typedef struct {
    Py_buffer out, window;
} out_views;

/* All that a read holds. */
typedef struct {
    const laid_out *laid;
    out_views *outs;
    batch_file *files;
    batch_field *fields;
    batch plan;
    uint8_t *scratch;
    read_op *ops;
    read_part *parts;
} batch_arguments;

static void release(batch_arguments *held) {
    for (int64_t i = 0; held->outs != NULL && i < held->laid->n_fields; i++) {
        PyBuffer_Release(&held->outs[i].out);
        PyBuffer_Release(&held->outs[i].window);
    }
    free(held->outs);
    free(held->files);
    free(held->fields);
    free(held->plan.spans);
    free(held->plan.runs);
    free(held->scratch);
    free(held->ops);
    free(held->parts);
}

/* Fill the outputs of a field from a tuple of its array, the window's array or None, and where that begins and its
 * bytes. */
static int take_out(PyObject *tuple, out_views *views, batch_field *field) {
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != 4) {
        PyErr_SetString(PyExc_TypeError, "an output must be a tuple of out, and the window's out, begin and bytes");
        return -1;
    }
    PyObject *window = PyTuple_GetItem(tuple, 1);
    if (take_array(PyTuple_GetItem(tuple, 0), &views->out, PyBUF_WRITABLE, "B", 1,
                   "out must be a writable uint8 array") < 0) {
        return -1;
    }
    field->out = views->out.buf;
    field->n_out = views->out.len;
    if (window == Py_None) {
        return 0;
    }
    const long long begin = PyLong_AsLongLong(PyTuple_GetItem(tuple, 2));
    const long long n_bytes = PyErr_Occurred() ? -1 : PyLong_AsLongLong(PyTuple_GetItem(tuple, 3));
    if (PyErr_Occurred() || take_array(window, &views->window, PyBUF_WRITABLE, "B", 1,
                                       "the window's out must be a writable uint8 array") < 0) {
        return -1;
    }
    if (n_bytes < 1) {
        PyErr_Format(PyExc_ValueError, "a window must have bytes, found %lld", n_bytes);
        return -1;
    }
    field->window = (batch_window){begin, n_bytes, views->window.buf, views->window.len};
    return 0;
}

/* Cut a field down to the blobs of one of `n` shares of about as many bytes. */
static void cut(batch_field *field, int64_t share, int64_t n) {
    const int64_t rows = field->extents.n, total = field->place[rows];
    const int64_t first = share == 0 ? 0 : layout_row_at(field->place, rows, total / n * share);
    const int64_t stop = share == n - 1 ? rows : layout_row_at(field->place, rows, total / n * (share + 1));
    field->extents.file += first;
    field->extents.offset += first;
    field->extents.length += first;
    field->extents.stored += field->extents.stored == NULL ? 0 : first;
    field->extents.n = stop - first;
    field->place += first;
    if (field->window.n_bytes != 0) {
        field->window.out += first * field->window.n_bytes;
        field->window.n_out -= first * field->window.n_bytes;
    }
}

static int take_fields(PyObject *tuple, long share, long n_shares, batch_arguments *held) {
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
        cut(&held->fields[i], share, n_shares);
    }
    held->plan.fields = held->fields;
    held->plan.n_fields = laid->n_fields;
    return 0;
}

/* Fill the files from their descriptors; `with_memory`: what lies in memory is copied as well. */
static int take_descriptors(PyObject *object, int with_memory, batch_arguments *held) {
    const laid_out *laid = held->laid;
    Py_buffer fds;
    if (take_array(object, &fds, 0, "i", 4, "fds must be an int32 array") < 0) {
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
                held->files[i].fd = BATCH_LEFT;
            }
        }
        held->plan.files = held->files;
        held->plan.n_files = laid->n_files;
    }
    PyBuffer_Release(&fds);
    return held->plan.files == NULL ? -1 : 0;
}

/* Make room for the spans and runs of what is not in memory. */
static int make_room(batch_arguments *held) {
    batch *plan = &held->plan;
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_files; i++) {
        n += plan->files[i].memory == NULL && plan->files[i].fd != BATCH_LEFT;
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

static PyObject *native_read_laid(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    long share, n_shares, with_memory;
    if (check_count("read_laid", n_args, 7, 7) < 0 || take_small(args[4], "share", LONG_MAX, &share) < 0 ||
        take_small(args[5], "n_shares", LONG_MAX, &n_shares) < 0 ||
        take_small(args[6], "with_memory", 1, &with_memory) < 0) {
        return NULL;
    }
    if (share >= n_shares) {
        return PyErr_Format(PyExc_ValueError, "share must be in [0, %ld), found %ld", n_shares, share);
    }
    batch_arguments held;
    memset(&held, 0, sizeof held);
    read_engine *engine = NULL;
    held.laid = laid_in(args[0]);
    if (held.laid == NULL || take_engine(args[3], &engine) < 0) {
        return NULL;
    }
    if (take_fields(args[1], share, n_shares, &held) < 0 || take_descriptors(args[2], (int)with_memory, &held) < 0 ||
        make_room(&held) < 0) {
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

PyMethodDef batch_methods[] = {
    FAST(read_laid, "read_laid(laid, outs, fds, engine, share, n_shares, with_memory, /)\n--\n\n"
                    "Read what was laid out to its places; return False where anything failed."),
    {NULL, NULL, 0, NULL},
};
