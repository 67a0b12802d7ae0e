#ifndef DATAFORMATS_PY_BATCH_H
#define DATAFORMATS_PY_BATCH_H

#include "py_arguments.h"

#define ENGINE_CAPSULE "dataformats.read_engine"

extern PyMethodDef batch_methods[];

#endif
