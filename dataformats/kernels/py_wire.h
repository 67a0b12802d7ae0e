#ifndef DATAFORMATS_PY_WIRE_H
#define DATAFORMATS_PY_WIRE_H

#include "py_arguments.h"

extern PyMethodDef wire_methods[];

#endif
