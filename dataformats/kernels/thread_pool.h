/* A bounded number of threads that help others to finish their reads. */
#ifndef DATAFORMATS_THREAD_POOL_H
#define DATAFORMATS_THREAD_POOL_H

#include "reads.h"

typedef struct thread_pool thread_pool;

/* Return a pool without threads, or NULL and `errno`. */
thread_pool *pool_open(void);

/* End and join all threads. Nobody may be using the pool. */
void pool_close(thread_pool *pool);

/* Read what is missing, in this thread first; threads help, and are started, if that takes long.
 * Any number of threads may call it at once. Return 0, or the errno of the system's refusal to start any. */
int pool_run(thread_pool *pool, read_op *ops, int64_t n_ops);

#endif
