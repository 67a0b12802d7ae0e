/* The interface of read engines: for authors of an engine, and for the wrapper. */
#ifndef DATAFORMATS_ENGINE_H
#define DATAFORMATS_ENGINE_H

#include <stdatomic.h>

#include "io/read.h"

/* Why an engine cannot work as its name says: the call `what` failed with `error`, an errno. */
typedef struct {
    const char *_Atomic what; /* NULL: no trouble */
    int error;                /* written before `what` */
} engine_trouble;

/* One kind of engine. `open` and `run` store failures in `engine->trouble`. */
typedef struct {
    const char *name;
    int (*open)(read_engine *engine);                              /* 0; or -1, with nothing left open */
    /* Read the missing bytes. Thread-safe. */
    void (*run)(read_engine *engine, read_request *requests, int64_t n_requests);
    void (*close)(read_engine *engine);                            /* only in the process that opened it */
    const char *(*cold)(const read_engine *engine);                /* the engine for cold files; NULL: itself */
} engine_kind;

struct read_engine {
    const engine_kind *kind;
    long owner; /* the process that opened it; no other may use it */
    void *state;
    engine_trouble trouble;
};

extern const engine_kind engine_auto, engine_uring, engine_libaio, engine_threads;

/* Return a new engine of that name. NULL: it does not run here; `trouble` has the reason. */
read_engine *engine_open(const char *name, engine_trouble *trouble);
read_engine *engine_open_kind(const engine_kind *kind, engine_trouble *trouble);

/* Close an engine that is not in use. In a forked child this only frees the memory. */
void engine_close(read_engine *engine);

/* Return the name of the engine that reads cold files. */
const char *engine_cold(const read_engine *engine);

/* Store why an engine cannot work as its name says. Only the first reason is kept. */
void engine_note(read_engine *engine, const char *what, int error);

static inline int engine_is_broken(const read_engine *engine) {
    return atomic_load_explicit(&engine->trouble.what, memory_order_acquire) != NULL;
}

#endif
