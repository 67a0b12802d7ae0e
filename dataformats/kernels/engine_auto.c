/* What is in memory is read at once; what is not, all together by an engine that waits for many. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>

#include "read_op.h"

typedef struct {
    read_engine *threads;
    read_engine *uring; /* NULL where it is refused */
} auto_state;

static int auto_open(read_engine *engine) {
    engine_trouble trouble = {0};
    auto_state *state = calloc(1, sizeof *state);
    if (state != NULL) {
        state->threads = engine_open_kind(&engine_threads, &trouble);
    }
    if (state == NULL || state->threads == NULL) {
        engine_note(engine, "calloc", ENOMEM);
        free(state);
        return -1;
    }
    state->uring = engine_open_kind(&engine_uring, &trouble);
    if (state->uring == NULL) {
        engine_note(engine, trouble.what, trouble.error);
    }
    engine->state = state;
    return 0;
}

static void auto_close(read_engine *engine) {
    auto_state *state = engine->state;
    if (state->uring != NULL) {
        engine_close(state->uring);
    }
    engine_close(state->threads);
    free(state);
}

static read_engine *deep(const auto_state *state) {
    return state->uring != NULL && !engine_is_broken(state->uring) ? state->uring : state->threads;
}

static const char *auto_cold(const read_engine *engine) {
    const auto_state *state = engine->state;
    return deep(state)->kind->name;
}

/* Also the rest is tried after the first that is cold: newer kernels begin to fetch what they are asked for. */
static void auto_run(read_engine *engine, read_op *ops, int64_t n_ops) {
    const auto_state *state = engine->state;
    read_engine *next = NULL;
    for (int64_t i = 0; i < n_ops; i++) {
        const op_warmth warmth = op_is_done(&ops[i]) ? OP_READ : op_try(&ops[i]);
        if (warmth == OP_UNKNOWN) { /* the clock of the threads finds out */
            next = state->threads;
            break;
        }
        next = warmth == OP_COLD ? deep(state) : next;
    }
    if (next != NULL) {
        next->kind->run(next, ops, n_ops);
        if (engine_is_broken(next)) {
            engine_note(engine, next->trouble.what, next->trouble.error);
        }
    }
}

const engine_kind engine_auto = {"auto", auto_open, auto_run, auto_close, auto_cold};
