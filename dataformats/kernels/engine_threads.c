/* Plain reads by a bounded pool of threads, with the system told beforehand what will be read. */
#include "engine.h"

#include <errno.h>

#if defined(__unix__) || defined(__APPLE__)

#include "read_op.h"
#include "thread_pool.h"

static int threads_open(read_engine *engine) {
    engine->state = pool_open();
    if (engine->state == NULL) {
        engine_note(engine, "calloc", errno);
        return -1;
    }
    return 0;
}

static void threads_close(read_engine *engine) { pool_close(engine->state); }

static void threads_run(read_engine *engine, read_op *ops, int64_t n_ops) {
    ops_advise_if_cold(ops, n_ops);
    const int refusal = pool_run(engine->state, ops, n_ops);
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

static void threads_run(read_engine *engine, read_op *ops, int64_t n_ops) {
    (void)engine;
    (void)ops;
    (void)n_ops;
}
#endif

const engine_kind engine_threads = {"threads", threads_open, threads_run, threads_close, NULL};
