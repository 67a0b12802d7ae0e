/* The wrapper of the scans. */
#include "python/py_native.h"

#include <string.h>

#include "scan/scan.h"

#define JSON_STATE "state must be a writable int64 array of the open brackets, from 0 on, and 0, 1 or 2"

typedef struct {
    Py_buffer window, lengths, footers;
    int64_t at;
} scan_views;

static void release_scan(scan_views *views) {
    PyBuffer_Release(&views->window);
    PyBuffer_Release(&views->lengths);
    PyBuffer_Release(&views->footers);
}

/* Fill `position` from an integer in [0, 2**63). Return 0, or -1 with an exception set. */
static int take_position(PyObject *object, const char *name, int64_t *position) {
    PyObject *integer = PyNumber_Index(object);
    if (integer == NULL) {
        return -1;
    }
    const long long found = PyLong_AsLongLong(integer);
    if (found < 0) { /* also if it does not fit */
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s must be in [0, 2**63), found %S", name, integer);
        Py_DECREF(integer);
        return -1;
    }
    Py_DECREF(integer);
    *position = found;
    return 0;
}

static int take_lengths(PyObject *object, Py_buffer *view) {
    return take_array(object, view, PyBUF_WRITABLE, "lq", 8,
                      "lengths must be a writable contiguous int64 array of one dimension");
}

static int take_footers(PyObject *object, Py_buffer *view) {
    return take_uint32_out(object, view,
                           "footers must be a writable contiguous uint32 array of one dimension");
}

/* Fill `views` from (window, at, lengths, footers); without footers, `n_args` is 3. Return 0, or -1 with an
 * exception set and nothing held. */
static int take_scan(PyObject *const *args, Py_ssize_t n_args, scan_views *views) {
    memset(views, 0, sizeof *views); /* PyBuffer_Release is a no-op for views that were never filled */
    if (take_bytes(args[0], &views->window) < 0 || take_position(args[1], "at", &views->at) < 0 ||
        take_lengths(args[2], &views->lengths) < 0 || (n_args > 3 && take_footers(args[3], &views->footers) < 0)) {
        release_scan(views);
        return -1;
    }
    const Py_ssize_t lengths = views->lengths.len / 8, footers = views->footers.len / 4;
    if (n_args > 3 && lengths != footers) {
        release_scan(views);
        PyErr_Format(PyExc_ValueError, "lengths and footers must be equally long, found %zd and %zd", lengths,
                     footers);
        return -1;
    }
    return 0;
}

static PyObject *scan_result(scan_found found) {
    return Py_BuildValue("(LLi)", (long long)found.n_frames, (long long)found.stop, found.why);
}

static PyObject *native_scan_tfrecord(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    scan_views views;
    scan_found found;
    crc_kernel *crc32c = state_of(module)->crc32c;
    if (check_count("scan_tfrecord", n_args, 4, 4) < 0 || take_scan(args, n_args, &views) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS found =
        scan_tfrecord(crc32c, views.window.buf, views.window.len, views.at, views.lengths.buf,
                      views.footers.buf, views.lengths.len / 8);
    Py_END_ALLOW_THREADS release_scan(&views);
    return scan_result(found);
}

static PyObject *native_scan_ofrecord(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    scan_views views;
    scan_found found;
    if (check_count("scan_ofrecord", n_args, 3, 3) < 0 || take_scan(args, n_args, &views) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS found =
        scan_ofrecord(views.window.buf, views.window.len, views.at, views.lengths.buf, views.lengths.len / 8);
    Py_END_ALLOW_THREADS release_scan(&views);
    return scan_result(found);
}

static PyObject *native_scan_tfrecord_header(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    Py_buffer window;
    int64_t at, most, found;
    crc_kernel *crc32c = state_of(module)->crc32c;
    if (check_count("scan_tfrecord_header", n_args, 3, 3) < 0 || take_position(args[1], "at", &at) < 0 ||
        take_position(args[2], "most", &most) < 0 || take_bytes(args[0], &window) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS found = scan_tfrecord_header(crc32c, window.buf, window.len, at, most);
    Py_END_ALLOW_THREADS PyBuffer_Release(&window);
    return PyLong_FromLongLong(found);
}

static PyObject *native_scan_lines(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    scan_views views;
    scan_lines_found found;
    if (check_count("scan_lines", n_args, 3, 3) < 0 || take_scan(args, n_args, &views) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS found =
        scan_lines(views.window.buf, views.window.len, views.at, views.lengths.buf, views.lengths.len / 8);
    Py_END_ALLOW_THREADS release_scan(&views);
    return Py_BuildValue("(LLLL)", (long long)found.n_lines, (long long)found.stop, (long long)found.n_crlf,
                         (long long)found.n_blank);
}

static PyObject *native_scan_json(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    scan_views views;
    Py_buffer state;
    if (check_count("scan_json", n_args, 5, 5) < 0) {
        return NULL;
    }
    PyObject *const scanned[] = {args[0], args[1], args[4]};
    const long level = PyLong_AsLong(args[2]);
    if ((level == -1 && PyErr_Occurred()) || take_scan(scanned, 3, &views) < 0) {
        return NULL;
    }
    if (take_array(args[3], &state, PyBUF_WRITABLE, "lq", 8, JSON_STATE) < 0) {
        release_scan(&views);
        return NULL;
    }
    const int64_t *given = state.buf;
    const int is_state = state.len == sizeof(scan_json_state) && given[0] >= 0 && given[0] <= INT64_MAX / 2 &&
                         given[1] >= 0 && given[1] <= 2;
    scan_found found = {0, 0, SCAN_ENDS};
    if (is_state && (level == 0 || level == 1)) {
        Py_BEGIN_ALLOW_THREADS found =
            scan_json(views.window.buf, views.window.len, views.at, (int)level, state.buf, views.lengths.buf,
                      views.lengths.len / 8);
        Py_END_ALLOW_THREADS
    } else if (is_state) {
        PyErr_Format(PyExc_ValueError, "level must be 0 or 1, found %ld", level);
    } else {
        PyErr_SetString(PyExc_ValueError, JSON_STATE);
    }
    PyBuffer_Release(&state);
    release_scan(&views);
    return PyErr_Occurred() ? NULL : scan_result(found);
}

PyMethodDef scan_methods[] = {
    FAST(scan_tfrecord, "scan_tfrecord(window, at, lengths, footers, /)\n--\n\n"
                        "Walk through the TFRecords of a window; return (frames, stop, why)."),
    FAST(scan_ofrecord, "scan_ofrecord(window, at, lengths, /)\n--\n\n"
                        "Walk through the OFRecords of a window; return (frames, stop, why)."),
    FAST(scan_tfrecord_header, "scan_tfrecord_header(window, at, most, /)\n--\n\n"
                               "Return where the first header of a TFRecord of up to `most` bytes could stand, or -1."),
    FAST(scan_lines, "scan_lines(window, at, lengths, /)\n--\n\n"
                     "Find the ends of the lines of a window; return (lines, stop, crlf, blank)."),
    FAST(scan_json, "scan_json(window, at, level, state, ends, /)\n--\n\n"
                    "Find the ends of the values of a JSON document in a window; return (values, stop, why)."),
    {NULL, NULL, 0, NULL},
};
