/* io_uring through the page cache: cold reads wait in the kernel, all at once.
 *
 * Regular files only: on a pipe, which a plain read refuses, the ring would wait for bytes forever. */
#define _GNU_SOURCE
#include "io/engine.h"

#include <errno.h>

#ifdef __linux__

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "io/request.h"
#include "io/uring.h"

#define DEPTH 256
#define MOST_BYTES (1 << 30) /* the length of a READ has 32 bits, and the kernel limits it to less than 2 GiB */

typedef struct {
    pthread_mutex_t lock;
    uring ring;
} uring_state;

/* The reads of one call in flight. */
typedef struct {
    uring *ring;
    read_request *requests;
    int64_t n_requests, next;
    unsigned n_flying; /* pushed, and not yet answered */
} flight;

static int uring_engine_open(read_engine *engine) {
    const char *what = "calloc";
    int error = ENOMEM;
    uring_state *state = calloc(1, sizeof *state);
    if (state != NULL) {
        error = uring_open(&state->ring, DEPTH, &what);
    }
    if (error != 0) {
        free(state);
        engine_note(engine, what, error);
        return -1;
    }
    pthread_mutex_init(&state->lock, NULL);
    engine->state = state;
    return 0;
}

static void uring_engine_close(read_engine *engine) {
    uring_state *state = engine->state;
    uring_close(&state->ring);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

static void push(flight *flight, int64_t number) {
    const read_request *request = &flight->requests[number];
    uring_sqe *entry = uring_push(flight->ring);
    const int single = request->n_parts == 1;
    entry->opcode = single ? URING_READ : URING_READV;
    entry->fd = request->fd;
    entry->offset = (uint64_t)(request->offset + request->done);
    entry->address = (uint64_t)(uintptr_t)(single ? request->parts->base : (void *)request->parts);
    entry->length = !single                           ? (uint32_t)request->n_parts
                    : request->parts->n_bytes < MOST_BYTES ? (uint32_t)request->parts->n_bytes
                                                      : MOST_BYTES;
    entry->user_data = (uint64_t)number;
    flight->n_flying++;
}

static void fill(flight *flight) {
    for (; flight->next < flight->n_requests && flight->n_flying < DEPTH; flight->next++) {
        if (!request_is_done(&flight->requests[flight->next])) {
            push(flight, flight->next);
        }
    }
}

/* Take all available answers. Short reads are continued. Failed reads are done again by this thread, so that the result
 * of a plain read counts: after a cancellation, an old kernel, or a failing disk. */
static void land(flight *flight, int again) {
    uring_cqe answer;
    while (uring_pop(flight->ring, &answer)) {
        read_request *request = &flight->requests[answer.user_data];
        flight->n_flying--;
        if (answer.result > 0) {
            request_advance(request, answer.result);
        }
        if (answer.result < 0) {
            request_finish(request);
        } else if (answer.result > 0 && again && !request_is_done(request)) {
            push(flight, (int64_t)answer.user_data);
        }
    }
}

/* Wait for submitted reads without the ring, because the kernel writes to the caller's memory until they end. */
static void drain(flight *flight) {
    const struct timespec pause = {0, 100 * 1000};
    flight->n_flying -= flight->ring->n_waiting;
    uring_unpush(flight->ring);
    for (land(flight, 0); flight->n_flying > 0; land(flight, 0)) {
        nanosleep(&pause, NULL);
    }
}

/* Keep the ring full until all is read. Return 0, or an errno with nothing in flight. */
static int fly(flight *flight) {
    for (fill(flight); flight->n_flying > 0; fill(flight)) {
        const unsigned n_wanted =
            flight->next < flight->n_requests ? (flight->n_flying + 3) / 4 : flight->n_flying;
        const int error = uring_enter(flight->ring, n_wanted);
        const int stuck = (error == EAGAIN || error == EBUSY) && flight->n_flying > flight->ring->n_waiting;
        if (error != 0 && error != EINTR && !stuck) {
            drain(flight);
            return error;
        }
        land(flight, 1);
    }
    return 0;
}

static void uring_engine_run(read_engine *engine, read_request *requests, int64_t n_requests) {
    uring_state *state = engine->state;
    if (!engine_is_broken(engine) && pthread_mutex_trylock(&state->lock) == 0) {
        flight flight = {.ring = &state->ring, .requests = requests, .n_requests = n_requests};
        const int error = fly(&flight);
        if (error != 0) {
            engine_note(engine, "io_uring_enter", error);
        }
        pthread_mutex_unlock(&state->lock);
    }
    requests_read_advised(requests, n_requests); /* if another thread has the ring, or it broke; else nothing is left */
}

#else
static int uring_engine_open(read_engine *engine) {
    engine_note(engine, "io_uring is a part of Linux", ENOSYS);
    return -1;
}

static void uring_engine_close(read_engine *engine) { (void)engine; }

static void uring_engine_run(read_engine *engine, read_request *requests, int64_t n_requests) {
    (void)engine;
    (void)requests;
    (void)n_requests;
}
#endif

const engine_kind engine_uring = {"uring", uring_engine_open, uring_engine_run, uring_engine_close, NULL};
