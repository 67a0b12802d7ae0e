/* A bounded number of threads that share the work of a calling thread. */
#ifndef DATAFORMATS_THREAD_POOL_H
#define DATAFORMATS_THREAD_POOL_H

#include <stdint.h>

typedef struct thread_pool thread_pool;

/* Do one item; other threads do others at the same time. `worker`: the number of the thread; 0 is the caller of
 * `pool_share`, and no two threads have the same number at once. */
typedef void pool_work(void *context, int64_t item, int worker);

/* Return a pool of at most `most_threads` threads, none of them started; or NULL and `errno`. */
thread_pool *pool_open(int most_threads);

/* End and join all threads. The pool must not be in use. */
void pool_close(thread_pool *pool);

/* Do the items [0, n) in this thread and at most `n_workers` others, which are started if missing. Any number of
 * threads may call it at once. Return 0, or the errno with which the system refused to start any thread. */
int pool_share(thread_pool *pool, int n_workers, pool_work *work, void *context, int64_t n);

#endif
