/* A bounded number of threads that help others to finish their work. */
#ifndef DATAFORMATS_THREAD_POOL_H
#define DATAFORMATS_THREAD_POOL_H

#include <stdint.h>

typedef struct thread_pool thread_pool;

/* Do one item; several threads do others at the same time. `worker`: who does it; 0 is the caller of `pool_share`, and
 * no number is that of two threads at once. */
typedef void pool_work(void *context, int64_t item, int worker);

/* Return a pool without threads, which will have at most so many; or NULL and `errno`. */
thread_pool *pool_open(int most_threads);

/* End and join all threads. Nobody may be using the pool. */
void pool_close(thread_pool *pool);

/* Do the items [0, n), in this thread, while at most `n_helpers` others help, who are started where they are missing.
 * Any number of threads may call it at once. Return 0, or the errno of the system's refusal to start any. */
int pool_share(thread_pool *pool, int n_helpers, pool_work *work, void *context, int64_t n);

#endif
