/* Plain reads by a bounded pool of threads, after advice to the system. */
#define _GNU_SOURCE /* before any header: clock_gettime */
#include "io/engine.h"

#include <errno.h>

#if defined(__unix__) || defined(__APPLE__)

#include <unistd.h>

#include "io/process.h"
#include "io/request.h"
#include "io/thread_pool.h"

#define MOST_THREADS 16
#define THREADS_PER_CPU 4 /* they wait more than they work */
/* Waking threads costs some 30 microseconds, and far more if other work has the processors; after advice, or from
 * memory, most batches are read before that. */
#define ALONE_NS 500000

static int n_workers(void) {
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const long n = n_cpus < 1 ? THREADS_PER_CPU : n_cpus * THREADS_PER_CPU;
    return n < MOST_THREADS ? (int)n : MOST_THREADS;
}

static int threads_open(read_engine *engine) {
    engine->state = pool_open(n_workers());
    if (engine->state == NULL) {
        engine_note(engine, "calloc", errno);
        return -1;
    }
    return 0;
}

static void threads_close(read_engine *engine) { pool_close(engine->state); }

/* Read requests one after the other for a while. Return their number. */
static int64_t read_alone(read_request *requests, int64_t n_requests) {
    const int64_t stop = now_ns() + ALONE_NS;
    int64_t n_read = 0;
    while (n_read < n_requests) {
        request_finish(&requests[n_read++]);
        if (now_ns() > stop) {
            break;
        }
    }
    return n_read;
}

static void read_one(void *requests, int64_t item, int worker) {
    (void)worker;
    request_finish((read_request *)requests + item);
}

static void threads_run(read_engine *engine, read_request *requests, int64_t n_requests) {
    requests_advise_if_cold(requests, n_requests);
    const int64_t n_read = read_alone(requests, n_requests);
    requests += n_read;
    n_requests -= n_read;
    if (n_requests > 1) {
        requests_advise_if_cold(requests, n_requests); /* the first of all may have been cached */
    }
    const int refusal = pool_share(engine->state, MOST_THREADS, read_one, requests, n_requests);
    if (refusal != 0) {
        engine_note(engine, "pthread_create", refusal);
    }
}

#else
static int threads_open(read_engine *engine) {
    engine_note(engine, "threads of POSIX are missing", ENOSYS);
    return -1;
}

static void threads_close(read_engine *engine) { (void)engine; }

static void threads_run(read_engine *engine, read_request *requests, int64_t n_requests) {
    (void)engine;
    (void)requests;
    (void)n_requests;
}
#endif

const engine_kind engine_threads = {"threads", threads_open, threads_run, threads_close, NULL};
