#ifndef DATAFORMATS_PY_SCAN_H
#define DATAFORMATS_PY_SCAN_H

#include "py_arguments.h"

extern PyMethodDef scan_methods[];

#endif
