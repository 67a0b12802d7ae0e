/* Shared by the files of the wrapper: the module's state, the conversion of arguments, and the method tables.
 *
 * The wrapper is this folder, the only files that know Python.h. They unpack buffers, call kernels, and raise. The
 * module keeps the kernels for this machine in its state, so there are no globals, and any number of interpreters and
 * threads may use it. */
#ifndef DATAFORMATS_PY_NATIVE_H
#define DATAFORMATS_PY_NATIVE_H

#if !defined(Py_GIL_DISABLED) && !defined(Py_LIMITED_API)
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <stdint.h>

#include "checksum/crc.h"
#include "image/resample_rows.h"
#include "io/read.h"
#include "io/thread_pool.h"
#include "wire/wire_varints.h"

/* Below this many bytes, releasing and taking the GIL costs more than the work. */
#define RELEASE_GIL_BYTES 32768

typedef struct {
    crc_kernel *crc32c;
    crc_kernel *crc32;
    wire_block_kernel *varints;
    const resample_variant *resample;
} native_state;

native_state *state_of(PyObject *module);

/* An entry of a method table for `native_NAME`, called with METH_FASTCALL. */
#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))native_##name, METH_FASTCALL, doc}

/* The functions below return 0, or -1 with an exception set. The caller releases filled views; PyBuffer_Release is a
 * no-op for a view of zeros. */

/* Check the number of positional arguments. */
int check_count(const char *name, Py_ssize_t found, Py_ssize_t least, Py_ssize_t most);

/* Fill `view` with the bytes of `data`, any C-contiguous buffer. */
int take_bytes(PyObject *data, Py_buffer *view);

/* Fill `value` from an integer in [0, 2**32). */
int take_value(PyObject *object, uint32_t *value);

/* Fill `number` from an integer in [0, most]. */
int take_small(PyObject *object, const char *name, long most, long *number);

/* Fill `view` with an aligned, C-contiguous array of one dimension whose items are `n_bytes` wide and whose
 * format is one of `formats`; `message` is the text of the TypeError. `flags`: PyBUF_WRITABLE, or 0. */
int take_array(PyObject *object, Py_buffer *view, int flags, const char *formats, Py_ssize_t n_bytes,
               const char *message);

/* Return whether numpy has numbers of this kind, 'b', 'i', 'u' or 'f', and this width in bytes, 1, 2, 4 or 8. */
int is_number(int letter, int width);

int take_int64(PyObject *object, Py_buffer *view, const char *message);
int take_uint32_out(PyObject *object, Py_buffer *view, const char *message);

/* Allocate uninitialized memory for `n + 1` items; NULL with an exception set. */
void *room_for(int64_t n, size_t n_bytes);

/* Fill `engine` from a capsule of `engine_open`; NULL for None. The capsule must stay referenced while it is used. */
int take_engine(PyObject *object, read_engine **engine);

#define MAX_THREADS 64

/* Fill `pool` from a capsule of `thread_pool_open`; NULL for None, and in a forked child, which has none of its
 * threads. The capsule must stay referenced while it is used. */
int take_thread_pool(PyObject *object, thread_pool **pool);

/* The functions of the module: one table a file. */
extern PyMethodDef batch_methods[], bytes_methods[], checksum_methods[], engine_methods[], gather_methods[], image_methods[], json_methods[],
    layout_methods[], pack_methods[], permutation_methods[], scan_methods[], thread_pool_methods[], wire_methods[], wire_columns_methods[],
    wire_write_methods[];

#endif
