#define _GNU_SOURCE /* before any header: clock_gettime */
#include "thread_pool.h"

#if defined(__unix__) || defined(__APPLE__)

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "read_op.h"

#define MOST_THREADS 16
#define THREADS_PER_CPU 4 /* they wait more than they work */
/* Waking threads costs some 30 microseconds, and far more where other work has the processors; after advice,
 * or from memory, most batches are read before anybody is called. */
#define ALONE_NS 500000

/* One call's reads. It lies on the caller's stack, who waits until no helper holds it. */
typedef struct job {
    read_op *ops;
    int64_t n_ops;
    atomic_int_fast64_t next; /* the first that nobody has taken */
    int n_helpers;            /* under the pool's lock */
    struct job *following;
} job;

struct thread_pool {
    pthread_mutex_t lock;
    pthread_cond_t posted, left; /* a job, or the end; a helper has left its job */
    job *jobs;
    int closing, n_threads, refusal; /* refusal: an errno */
    pthread_t threads[MOST_THREADS];
};

thread_pool *pool_open(void) {
    thread_pool *pool = calloc(1, sizeof *pool);
    if (pool != NULL) {
        pthread_mutex_init(&pool->lock, NULL);
        pthread_cond_init(&pool->posted, NULL);
        pthread_cond_init(&pool->left, NULL);
    }
    return pool;
}

static void post(thread_pool *pool, job *job) {
    struct job **end = &pool->jobs;
    while (*end != NULL) {
        end = &(*end)->following;
    }
    *end = job;
}

static void withdraw(thread_pool *pool, const job *job) {
    for (struct job **link = &pool->jobs; *link != NULL; link = &(*link)->following) {
        if (*link == job) {
            *link = job->following;
            return;
        }
    }
}

static void work(job *job) {
    int64_t number;
    while ((number = atomic_fetch_add(&job->next, 1)) < job->n_ops) {
        op_finish(&job->ops[number]);
    }
}

static void *help(void *argument) {
    thread_pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        job *job = pool->jobs;
        if (job == NULL) {
            pthread_cond_wait(&pool->posted, &pool->lock);
            continue;
        }
        job->n_helpers++;
        pthread_mutex_unlock(&pool->lock);
        work(job);
        pthread_mutex_lock(&pool->lock);
        withdraw(pool, job); /* nothing of it is left to take */
        job->n_helpers--;
        pthread_cond_broadcast(&pool->left);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Start what is missing of all threads; signals are the business of others. Under the lock. */
static void start(thread_pool *pool) {
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const int n_wanted = n_cpus < 1                                ? THREADS_PER_CPU
                         : n_cpus * THREADS_PER_CPU < MOST_THREADS ? (int)n_cpus * THREADS_PER_CPU
                                                                   : MOST_THREADS;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->n_threads < n_wanted && pool->refusal == 0) {
        pool->refusal = pthread_create(&pool->threads[pool->n_threads], NULL, help, pool);
        pool->n_threads += pool->refusal == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void pool_close(thread_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->closing = 1;
    pthread_cond_broadcast(&pool->posted);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_threads; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->posted);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Read one after the other for a while. Return how many were read. */
static int64_t read_alone(read_op *ops, int64_t n_ops) {
    const int64_t stop = now_ns() + ALONE_NS;
    int64_t n_read = 0;
    while (n_read < n_ops) {
        op_finish(&ops[n_read++]);
        if (now_ns() > stop) {
            break;
        }
    }
    return n_read;
}

int pool_run(thread_pool *pool, read_op *ops, int64_t n_ops) {
    const int64_t n_read = read_alone(ops, n_ops);
    job job = {.ops = ops + n_read, .n_ops = n_ops - n_read};
    if (job.n_ops < 2) {
        work(&job);
        return 0;
    }
    ops_advise_if_cold(job.ops, job.n_ops); /* the first of all may have been in memory */
    pthread_mutex_lock(&pool->lock);
    start(pool);
    const int refusal = pool->n_threads == 0 ? pool->refusal : 0;
    post(pool, &job);
    for (int i = 0; i < pool->n_threads && i < job.n_ops - 1; i++) {
        pthread_cond_signal(&pool->posted);
    }
    pthread_mutex_unlock(&pool->lock);
    work(&job);
    pthread_mutex_lock(&pool->lock);
    withdraw(pool, &job);
    while (job.n_helpers > 0) {
        pthread_cond_wait(&pool->left, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return refusal;
}

#else
typedef int dataformats_no_thread_pool; /* an empty file is not C */
#endif
