/* Reads cached data at once, and cold data together by an engine that waits for many reads. */
#include "io/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "io/request.h"

typedef struct {
    read_engine *threads;
    read_engine *uring; /* NULL if refused */
} auto_state;

static int auto_open(read_engine *engine) {
    engine_trouble trouble = {NULL, 0};
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

static int has_ring(const auto_state *state) {
    return state->uring != NULL && !engine_is_broken(state->uring);
}

static const char *auto_cold(const read_engine *engine) {
    return has_ring(engine->state) ? engine_uring.name : "advised reads";
}

/* Read cached data. Return the engine for the rest, or NULL: advice is enough. */
static read_engine *read_warm(const auto_state *state, read_request *requests, int64_t n_requests) {
    read_engine *next = NULL;
    for (int64_t i = 0; i < n_requests; i++) {
        /* Also after the first cold request: newer kernels begin to fetch requested data. */
        const request_warmth warmth = request_is_done(&requests[i]) ? REQUEST_READ : request_try(&requests[i]);
        if (warmth == REQUEST_UNKNOWN) {
            return state->threads; /* they measure which reads are slow */
        }
        if (warmth == REQUEST_COLD && has_ring(state)) {
            next = state->uring;
        }
    }
    return next;
}

static void auto_run(read_engine *engine, read_request *requests, int64_t n_requests) {
    read_engine *next = read_warm(engine->state, requests, n_requests);
    if (next == NULL) {
        requests_read_advised(requests, n_requests);
    } else {
        next->kind->run(next, requests, n_requests);
        if (engine_is_broken(next)) {
            engine_note(engine, next->trouble.what, next->trouble.error);
        }
    }
}

const engine_kind engine_auto = {"auto", auto_open, auto_run, auto_close, auto_cold};
