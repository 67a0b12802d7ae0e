#ifndef DATAFORMATS_PY_BATCH_H
#define DATAFORMATS_PY_BATCH_H

#include "py_arguments.h"

extern PyMethodDef batch_methods[];

#endif
