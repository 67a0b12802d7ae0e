/* What an engine is, for those who write one and for the wrapper that opens one. */
#ifndef DATAFORMATS_ENGINE_H
#define DATAFORMATS_ENGINE_H

#include <stdatomic.h>

#include "io/read.h"

/* Why an engine does not do what its name says: `what` was refused with `error`, an errno. */
typedef struct {
    const char *_Atomic what; /* NULL: nothing is wrong */
    int error;                /* written before `what` */
} engine_trouble;

/* How one kind of engine works. `open` and `run` note what goes wrong in `engine->trouble`. */
typedef struct {
    const char *name;
    int (*open)(read_engine *engine);                              /* 0; or -1, with nothing left open */
    void (*run)(read_engine *engine, read_request *requests, int64_t n_requests); /* reads what is missing; thread-safe */
    void (*close)(read_engine *engine);                            /* only in the process that opened it */
    const char *(*cold)(const read_engine *engine);                /* what reads cold files; NULL: itself */
} engine_kind;

struct read_engine {
    const engine_kind *kind;
    long owner; /* the process that opened it; in any other one it must not be touched */
    void *state;
    engine_trouble trouble;
};

extern const engine_kind engine_auto, engine_uring, engine_libaio, engine_threads;

/* Return a new engine of that name. NULL: it does not run here, and `trouble` says why. */
read_engine *engine_open(const char *name, engine_trouble *trouble);
read_engine *engine_open_kind(const engine_kind *kind, engine_trouble *trouble);

/* Close it; nobody may be using it. In a forked child that only frees the memory. */
void engine_close(read_engine *engine);

/* Return the name of what reads files that are not in memory. */
const char *engine_cold(const read_engine *engine);

/* Note why an engine does not do what its name says. Only the first reason is kept. */
void engine_note(read_engine *engine, const char *what, int error);

static inline int engine_is_broken(const read_engine *engine) {
    return atomic_load_explicit(&engine->trouble.what, memory_order_acquire) != NULL;
}

#endif
