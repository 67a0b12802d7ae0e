#ifndef DATAFORMATS_PY_WIRE_COLUMNS_H
#define DATAFORMATS_PY_WIRE_COLUMNS_H

#include "py_arguments.h"

extern PyMethodDef wire_columns_methods[];

#endif
