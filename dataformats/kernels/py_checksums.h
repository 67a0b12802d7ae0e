#ifndef DATAFORMATS_PY_CHECKSUMS_H
#define DATAFORMATS_PY_CHECKSUMS_H

#include "py_arguments.h"

extern PyMethodDef checksum_methods[];

#endif
