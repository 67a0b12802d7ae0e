#ifndef DATAFORMATS_PY_GATHER_H
#define DATAFORMATS_PY_GATHER_H

#include "py_arguments.h"

extern PyMethodDef gather_methods[];

#endif
