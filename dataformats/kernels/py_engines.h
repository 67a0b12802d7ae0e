#ifndef DATAFORMATS_PY_ENGINES_H
#define DATAFORMATS_PY_ENGINES_H

#include "py_arguments.h"
#include "reads.h"

/* Return the engine in a capsule that `engine_open` made, or NULL for None, in `engine`.
 * Return 0, or -1 with an exception set. The capsule must stay referenced while the engine is used. */
int take_engine(PyObject *object, read_engine **engine);

extern PyMethodDef engine_methods[];

#endif
