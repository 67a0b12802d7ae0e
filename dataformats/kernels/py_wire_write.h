#ifndef DATAFORMATS_PY_WIRE_WRITE_H
#define DATAFORMATS_PY_WIRE_WRITE_H

#include "py_arguments.h"

extern PyMethodDef wire_write_methods[];

#endif
