#define _GNU_SOURCE
#include "reads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "process.h"
#include "read_op.h"

static const engine_kind *const kinds[] = {&engine_auto, &engine_uring, &engine_libaio, &engine_threads};

void engine_note(read_engine *engine, const char *what, int error) {
    if (!engine_is_broken(engine)) {
        engine->trouble.error = error;
        atomic_store_explicit(&engine->trouble.what, what, memory_order_release);
    }
}

static void tell(engine_trouble *trouble, const char *what, int error) {
    trouble->error = error;
    atomic_store(&trouble->what, what);
}

read_engine *engine_open_kind(const engine_kind *kind, engine_trouble *trouble) {
    read_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        tell(trouble, "calloc", ENOMEM);
        return NULL;
    }
    engine->kind = kind;
    engine->owner = this_process();
    if (kind->open(engine) < 0) {
        tell(trouble, atomic_load(&engine->trouble.what), engine->trouble.error);
        free(engine);
        return NULL;
    }
    return engine;
}

read_engine *engine_open(const char *name, engine_trouble *trouble) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return engine_open_kind(kinds[i], trouble);
        }
    }
    tell(trouble, "no engine of that name", EINVAL);
    return NULL;
}

void engine_close(read_engine *engine) {
    if (engine->owner == this_process()) {
        engine->kind->close(engine);
    }
    free(engine);
}

const char *engine_cold(const read_engine *engine) {
    return engine->kind->cold == NULL ? engine->kind->name : engine->kind->cold(engine);
}

int64_t reads_run(read_engine *engine, read_op *ops, int64_t n_ops) {
    for (int64_t i = 0; i < n_ops; i++) {
        op_begin(&ops[i]);
    }
    if (engine != NULL && engine->owner == this_process()) {
        engine->kind->run(engine, ops, n_ops);
    } else {
        for (int64_t i = 0; i < n_ops; i++) {
            op_finish(&ops[i]);
        }
    }
    for (int64_t i = 0; i < n_ops; i++) {
        if (ops[i].error != 0 || ops[i].done < ops[i].length) {
            return i;
        }
    }
    return -1;
}

int reads_try_first(const read_engine *engine) { return engine != NULL && engine->kind == &engine_auto; }
