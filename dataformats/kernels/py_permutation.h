#ifndef DATAFORMATS_PY_PERMUTATION_H
#define DATAFORMATS_PY_PERMUTATION_H

#include "py_arguments.h"

extern PyMethodDef permutation_methods[];

#endif
