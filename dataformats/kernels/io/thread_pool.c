#define _GNU_SOURCE /* before any header: clock_gettime */
#include "io/thread_pool.h"

#include <errno.h>
#include <stddef.h>

#if defined(__unix__) || defined(__APPLE__)

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "io/process.h"

/* Waking a sleeping thread takes some 30 microseconds at best: workers are mostly done before that. */
#define SPIN_NS 60000

/* The work of one call. It lives on the caller's stack; the caller waits until no worker uses it. */
typedef struct job {
    pool_work *work;
    void *context;
    int64_t n;
    atomic_int_fast64_t next; /* the first item that is not taken */
    int n_wanted, n_came;     /* workers, under the pool's lock */
    atomic_int n_working;     /* changed under the pool's lock */
    struct job *following;
} job;

struct thread_pool {
    pthread_mutex_t lock;
    pthread_cond_t posted, left; /* a job, or closing; a worker has left its job */
    job *jobs;                   /* that want workers */
    int closing, n_threads, most_threads, refusal; /* refusal: an errno */
    pthread_t threads[];
};

thread_pool *pool_open(int most_threads) {
    thread_pool *pool = calloc(1, sizeof *pool + (size_t)most_threads * sizeof pool->threads[0]);
    if (pool != NULL) {
        pthread_mutex_init(&pool->lock, NULL);
        pthread_cond_init(&pool->posted, NULL);
        pthread_cond_init(&pool->left, NULL);
        pool->most_threads = most_threads;
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

static void do_items(job *job, int worker) {
    int64_t item;
    while ((item = atomic_fetch_add(&job->next, 1)) < job->n) {
        job->work(job->context, item, worker);
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
        const int worker = ++job->n_came;
        if (worker == job->n_wanted) {
            withdraw(pool, job);
        }
        atomic_fetch_add(&job->n_working, 1);
        pthread_mutex_unlock(&pool->lock);
        do_items(job, worker);
        pthread_mutex_lock(&pool->lock);
        withdraw(pool, job); /* no items are left to take */
        atomic_fetch_sub(&job->n_working, 1); /* the last access to the job: its caller may continue */
        pthread_cond_broadcast(&pool->left);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Start missing threads, up to `n_wanted`. They block signals. Call under the lock. */
static void start(thread_pool *pool, int n_wanted) {
    if (pool->n_threads >= n_wanted || pool->refusal != 0) {
        return;
    }
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

/* Wait until no worker uses a job that was withdrawn. */
static void wait_for_workers(thread_pool *pool, job *job) {
    for (const int64_t stop = now_ns() + SPIN_NS; atomic_load(&job->n_working) > 0 && now_ns() < stop;) {
    }
    if (atomic_load(&job->n_working) == 0) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&job->n_working) > 0) {
        pthread_cond_wait(&pool->left, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

int pool_share(thread_pool *pool, int n_workers, pool_work *work, void *context, int64_t n) {
    job job = {.work = work, .context = context, .n = n};
    n_workers = n - 1 < n_workers ? (int)(n - 1) : n_workers;
    job.n_wanted = n_workers < pool->most_threads ? n_workers : pool->most_threads;
    if (job.n_wanted < 1) {
        do_items(&job, 0);
        return 0;
    }
    pthread_mutex_lock(&pool->lock);
    start(pool, job.n_wanted);
    const int refusal = pool->n_threads == 0 ? pool->refusal : 0;
    post(pool, &job);
    for (int i = 0; i < pool->n_threads && i < job.n_wanted; i++) {
        pthread_cond_signal(&pool->posted);
    }
    pthread_mutex_unlock(&pool->lock);
    do_items(&job, 0);
    pthread_mutex_lock(&pool->lock);
    withdraw(pool, &job);
    pthread_mutex_unlock(&pool->lock);
    wait_for_workers(pool, &job);
    return refusal;
}

#else
thread_pool *pool_open(int most_threads) {
    (void)most_threads;
    errno = ENOSYS;
    return NULL;
}

void pool_close(thread_pool *pool) { (void)pool; }

int pool_share(thread_pool *pool, int n_workers, pool_work *work, void *context, int64_t n) {
    (void)pool, (void)n_workers;
    for (int64_t item = 0; item < n; item++) {
        work(context, item, 0);
    }
    return 0;
}
#endif
