#ifndef DATAFORMATS_PY_HELPERS_H
#define DATAFORMATS_PY_HELPERS_H

#include "py_arguments.h"
#include "thread_pool.h"

#define MOST_HELPERS 64

/* Fill `pool` with that of a capsule that `helpers_open` made, or NULL for None, and in a forked child, which has none
 * of its threads. Return 0, or -1 with an exception set. The capsule must stay referenced while the pool is used. */
int take_helpers(PyObject *object, thread_pool **pool);

extern PyMethodDef helpers_methods[];

#endif
