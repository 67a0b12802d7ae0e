/* The module: its state and its functions. */
#include "python/py_native.h"
#include "python/py_layout.h"

#include "checksum/crc.h"

/* Return a new list of the names that run here, fastest first, or NULL with an exception set. */
static PyObject *names_of(const crc_variant *variants) {
    PyObject *names = PyList_New(0);
    for (; names != NULL && variants->name != NULL; variants++) {
        if (!variants->runs_here()) {
            continue;
        }
        PyObject *name = PyUnicode_FromString(variants->name);
        if (name == NULL || PyList_Append(names, name) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *native_variants(PyObject *module, PyObject *ignored) {
    (void)module;
    (void)ignored;
    PyObject *crc32c = names_of(crc32c_variants), *crc32 = names_of(crc32_variants), *variants = NULL;
    if (crc32c != NULL && crc32 != NULL) {
        variants = Py_BuildValue("{s:O,s:O}", "crc32c", crc32c, "crc32", crc32);
    }
    Py_XDECREF(crc32c);
    Py_XDECREF(crc32);
    return variants;
}

static PyMethodDef methods[] = {
    {"variants", native_variants, METH_NOARGS,
     "variants()\n--\n\nReturn the names of the variants that run here, fastest first, for each checksum."},
    {NULL, NULL, 0, NULL},
};

/* The functions of each kind of kernel, one file of the wrapper each. */
static PyMethodDef *const tables[] = {
    batch_methods,       bytes_methods, checksum_methods, engine_methods,       gather_methods,
    image_methods,       json_methods, layout_methods, pack_methods, permutation_methods, scan_methods,
    thread_pool_methods, wire_columns_methods, wire_methods, wire_write_methods,
};

static int native_exec(PyObject *module) {
    native_state *state = state_of(module);
    state->crc32c = crc_choose(crc32c_variants);
    state->crc32 = crc_choose(crc32_variants);
    state->varints = wire_choose_block();
    state->resample = resample_choose();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (PyModule_AddFunctions(module, tables[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)native_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The compiled kernels. Go through dataformats.kernels.",
    .m_size = sizeof(native_state),
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
