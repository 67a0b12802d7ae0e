/* The wrapper of the read engines. */
#include "python/py_native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/engine.h"

#define CAPSULE "dataformats.read_engine"

int take_engine(PyObject *object, read_engine **engine) {
    *engine = NULL;
    if (object == Py_None) {
        return 0;
    }
    *engine = PyCapsule_GetPointer(object, CAPSULE);
    return *engine == NULL ? -1 : 0;
}

static void destroy(PyObject *capsule) { engine_close(PyCapsule_GetPointer(capsule, CAPSULE)); }

/* Raise OSError(errno, "what: why"). */
static PyObject *refuse(const char *what, int error) {
    PyObject *arguments = NULL, *message = PyUnicode_FromFormat("%s: %s", what, strerror(error));
    if (message != NULL) {
        arguments = Py_BuildValue("(iN)", error, message);
    }
    if (arguments != NULL) {
        PyErr_SetObject(PyExc_OSError, arguments);
        Py_DECREF(arguments);
    }
    return NULL;
}

static PyObject *native_engine_open(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("engine_open", n_args, 1, 1) < 0) {
        return NULL;
    }
    PyObject *name = PyUnicode_AsUTF8String(args[0]);
    if (name == NULL) {
        return NULL;
    }
    engine_trouble trouble = {NULL, 0};
    read_engine *engine = engine_open(PyBytes_AsString(name), &trouble);
    Py_DECREF(name);
    if (engine == NULL) {
        return refuse(trouble.what, trouble.error);
    }
    PyObject *capsule = PyCapsule_New(engine, CAPSULE, destroy);
    if (capsule == NULL) {
        engine_close(engine);
    }
    return capsule;
}

static PyObject *native_engine_state(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("engine_state", n_args, 1, 1) < 0) {
        return NULL;
    }
    const read_engine *engine = PyCapsule_GetPointer(args[0], CAPSULE);
    if (engine == NULL) {
        return NULL;
    }
    return Py_BuildValue("(szi)", engine_cold(engine), engine->trouble.what,
                         engine_is_broken(engine) ? engine->trouble.error : 0);
}

/* The arguments of engine_read, all of the same length but the buffer. */
typedef struct {
    Py_buffer fds, offsets, lengths, places, buffer, done;
    int64_t n;
} read_views;

static void release_reads(read_views *views) {
    PyBuffer_Release(&views->fds);
    PyBuffer_Release(&views->offsets);
    PyBuffer_Release(&views->lengths);
    PyBuffer_Release(&views->places);
    PyBuffer_Release(&views->buffer);
    PyBuffer_Release(&views->done);
}

/* Check that every extent has its place in the buffer. Return 0, or -1 with an exception set. */
static int check_reads(const read_views *views) {
    const int64_t *lengths = views->lengths.buf, *places = views->places.buf;
    if (views->fds.len / 4 != views->n || views->lengths.len / 8 != views->n ||
        views->places.len / 8 != views->n || views->done.len / 8 != views->n) {
        PyErr_SetString(PyExc_ValueError, "fds, offsets, lengths, places and done must be equally long");
        return -1;
    }
    for (int64_t i = 0; i < views->n; i++) {
        const int64_t place = places[i], length = lengths[i];
        if (length < 0 || place < 0 || place > views->buffer.len || length > views->buffer.len - place) {
            PyErr_Format(PyExc_ValueError,
                         "extent %lld of %lld bytes at place %lld is outside the buffer of %zd bytes", (long long)i,
                         (long long)length, (long long)place, views->buffer.len);
            return -1;
        }
    }
    return 0;
}

static int take_reads(PyObject *const *args, read_views *views) {
    memset(views, 0, sizeof *views); /* PyBuffer_Release is a no-op for views that were never filled */
    if (take_array(args[0], &views->fds, 0, "il", 4,
                   "fds must be a contiguous int32 array of one dimension") < 0 ||
        take_int64(args[1], &views->offsets, "offsets must be a contiguous int64 array of one dimension") <
            0 ||
        take_int64(args[2], &views->lengths, "lengths must be a contiguous int64 array of one dimension") <
            0 ||
        take_int64(args[3], &views->places, "places must be a contiguous int64 array of one dimension") < 0 ||
        PyObject_GetBuffer(args[4], &views->buffer, PyBUF_WRITABLE) < 0 ||
        take_array(args[5], &views->done, PyBUF_WRITABLE, "lq", 8,
                   "done must be a writable contiguous int64 array of one dimension") < 0) {
        release_reads(views);
        return -1;
    }
    views->n = views->offsets.len / 8;
    if (check_reads(views) < 0) {
        release_reads(views);
        return -1;
    }
    return 0;
}

/* Does extent `i` begin where the one before it ends? */
static int follows(const read_views *views, int64_t i) {
    const int32_t *fds = views->fds.buf;
    const int64_t *offsets = views->offsets.buf, *lengths = views->lengths.buf;
    return fds[i] == fds[i - 1] && offsets[i - 1] >= 0 && offsets[i - 1] <= INT64_MAX - lengths[i - 1] &&
           offsets[i] == offsets[i - 1] + lengths[i - 1];
}

/* Combine extents that follow each other in a file into one scattered read. Return the number of reads, and in `done`
 * the read of each extent. */
static int64_t gather_requests(const read_views *views, read_request *requests, read_part *parts) {
    const int32_t *fds = views->fds.buf;
    const int64_t *offsets = views->offsets.buf, *lengths = views->lengths.buf, *places = views->places.buf;
    int64_t *number_of = views->done.buf, n_requests = 0;
    for (int64_t i = 0; i < views->n; i++) {
        parts[i] = (read_part){(char *)views->buffer.buf + places[i], (size_t)lengths[i]};
        if (n_requests > 0 && follows(views, i) && requests[n_requests - 1].n_parts < READ_MAX_PARTS &&
            requests[n_requests - 1].length <= INT64_MAX - lengths[i]) {
            requests[n_requests - 1].n_parts++;
            requests[n_requests - 1].length += lengths[i];
        } else {
            requests[n_requests++] = (read_request){
                .fd = fds[i], .n_parts = 1, .offset = offsets[i], .length = lengths[i], .parts = &parts[i]};
        }
        number_of[i] = n_requests - 1;
    }
    return n_requests;
}

/* Change `done` from the read of each extent to the bytes that it got. */
static void share_out(const read_views *views, const read_request *requests) {
    const int64_t *lengths = views->lengths.buf;
    int64_t *done = views->done.buf, number = -1, left = 0;
    for (int64_t i = 0; i < views->n; i++) {
        if (done[i] != number) {
            number = done[i];
            left = requests[number].done;
        }
        done[i] = left < lengths[i] ? left : lengths[i];
        left -= done[i];
    }
}

static PyObject *read_all(read_engine *engine, const read_views *views) {
    const size_t n = (size_t)views->n;
    read_request *requests = calloc(n + 1, sizeof *requests); /* one more, because calloc(0) may return NULL */
    read_part *parts = calloc(n + 1, sizeof *parts);
    PyObject *result = NULL;
    if (requests == NULL || parts == NULL) {
        PyErr_NoMemory();
    } else {
        const int64_t n_requests = gather_requests(views, requests, parts);
        int64_t first;
        Py_BEGIN_ALLOW_THREADS first = run_requests(engine, requests, n_requests);
        while (first >= 0 && first < n_requests && requests[first].error == 0) {
            first++; /* short at the end of a file: no error */
        }
        Py_END_ALLOW_THREADS share_out(views, requests);
        result = first < 0 || first == n_requests ? Py_NewRef(Py_None) : refuse("read", requests[first].error);
    }
    free(parts);
    free(requests);
    return result;
}

static PyObject *native_engine_read(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    read_engine *engine;
    read_views views;
    if (check_count("engine_read", n_args, 7, 7) < 0 || take_engine(args[0], &engine) < 0 ||
        take_reads(args + 1, &views) < 0) {
        return NULL;
    }
    PyObject *result = read_all(engine, &views);
    release_reads(&views);
    return result;
}

PyMethodDef engine_methods[] = {
    FAST(engine_open, "engine_open(name, /)\n--\n\nReturn a capsule with a new engine, or raise OSError."),
    FAST(engine_state, "engine_state(engine, /)\n--\n\n"
                       "Return (the engine for cold files, the call that was refused or None, its errno)."),
    FAST(engine_read, "engine_read(engine, fds, offsets, lengths, places, buffer, done, /)\n--\n\n"
                      "Read extents of files into places of a buffer, and write the number of bytes that each got."),
    {NULL, NULL, 0, NULL},
};
