#define _GNU_SOURCE
#include "io/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/engine.h"
#include "io/process.h"
#include "io/request.h"

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

int64_t run_requests(read_engine *engine, read_request *requests, int64_t n_requests) {
    for (int64_t i = 0; i < n_requests; i++) {
        request_begin(&requests[i]);
    }
    if (engine != NULL && engine->owner == this_process()) {
        engine->kind->run(engine, requests, n_requests);
    } else {
        for (int64_t i = 0; i < n_requests; i++) {
            request_finish(&requests[i]);
        }
    }
    for (int64_t i = 0; i < n_requests; i++) {
        if (requests[i].error != 0 || requests[i].done < requests[i].length) {
            return i;
        }
    }
    return -1;
}

int read_tries_first(const read_engine *engine) { return engine != NULL && engine->kind == &engine_auto; }
