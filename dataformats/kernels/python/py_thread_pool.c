/* The wrapper of the thread pool for large batches. */
#include "python/py_native.h"

#include <errno.h>
#include <stdlib.h>

#include "io/process.h"

#define CAPSULE "dataformats.thread_pool"

typedef struct {
    thread_pool *pool;
    long owner; /* the process that opened it */
} owned_pool;

int take_thread_pool(PyObject *object, thread_pool **pool) {
    *pool = NULL;
    if (object == Py_None) {
        return 0;
    }
    const owned_pool *found = PyCapsule_GetPointer(object, CAPSULE);
    if (found == NULL) {
        return -1;
    }
    *pool = found->owner == this_process() ? found->pool : NULL;
    return 0;
}

static void destroy(PyObject *capsule) {
    owned_pool *found = PyCapsule_GetPointer(capsule, CAPSULE);
    if (found->owner == this_process()) { /* else its lock may be held forever */
        pool_close(found->pool);
    }
    free(found);
}

static PyObject *native_thread_pool_open(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    long most;
    if (check_count("thread_pool_open", n_args, 1, 1) < 0 || take_small(args[0], "most", MAX_THREADS, &most) < 0) {
        return NULL;
    }
    owned_pool *made = malloc(sizeof *made);
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    *made = (owned_pool){pool_open((int)most), this_process()};
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

PyMethodDef thread_pool_methods[] = {
    FAST(thread_pool_open, "thread_pool_open(most, /)\n--\n\n"
                       "Return a capsule with a pool of at most `most` threads, none of them started."),
    {NULL, NULL, 0, NULL},
};
