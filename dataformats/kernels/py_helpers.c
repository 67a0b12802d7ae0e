/* The wrapper of the threads that help with large batches. */
#include "py_helpers.h"

#include <errno.h>
#include <stdlib.h>

#include "process.h"

#define CAPSULE "dataformats.helpers"

typedef struct {
    thread_pool *pool;
    long owner; /* the process that opened it */
} helpers;

int take_helpers(PyObject *object, thread_pool **pool) {
    *pool = NULL;
    if (object == Py_None) {
        return 0;
    }
    const helpers *found = PyCapsule_GetPointer(object, CAPSULE);
    if (found == NULL) {
        return -1;
    }
    *pool = found->owner == this_process() ? found->pool : NULL;
    return 0;
}

static void destroy(PyObject *capsule) {
    helpers *found = PyCapsule_GetPointer(capsule, CAPSULE);
    if (found->owner == this_process()) { /* else its lock may be held for ever */
        pool_close(found->pool);
    }
    free(found);
}

static PyObject *native_helpers_open(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    long most;
    if (check_count("helpers_open", n_args, 1, 1) < 0 || take_small(args[0], "most", MOST_HELPERS, &most) < 0) {
        return NULL;
    }
    helpers *made = malloc(sizeof *made);
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    *made = (helpers){pool_open((int)most), this_process()};
    if (made->pool == NULL) {
        free(made);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject *capsule = PyCapsule_New(made, CAPSULE, destroy);
    if (capsule == NULL) {
        pool_close(made->pool);
        free(made);
    }
    return capsule;
}

PyMethodDef helpers_methods[] = {
    FAST(helpers_open, "helpers_open(most, /)\n--\n\n"
                       "Return a capsule of at most so many threads, of which none is started yet."),
    {NULL, NULL, 0, NULL},
};
