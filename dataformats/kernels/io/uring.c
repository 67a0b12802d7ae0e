#define _GNU_SOURCE /* before any header: syscall, madvise */
#include "io/uring.h"

#ifdef __linux__

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_io_uring_setup /* the same on every architecture that Python has wheels for */
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#endif

#define ENTER_GETEVENTS 1u
#define OFFSET_RINGS 0
#define OFFSET_SQES 0x10000000
/* IORING_FEAT_SINGLE_MMAP, _NODROP (no answer is lost) and _RW_CUR_POS, which came with READ in Linux 5.6. */
#define FEATURES ((1u << 0) | (1u << 1) | (1u << 3))

typedef struct {
    uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, unused[3];
} sq_offsets;

typedef struct {
    uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, unused[3];
} cq_offsets;

typedef struct {
    uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, unused[3];
    sq_offsets sq;
    cq_offsets cq;
} ring_params;

_Static_assert(sizeof(uring_sqe) == 64 && sizeof(uring_cqe) == 16 && sizeof(ring_params) == 120,
               "the kernel's layout");

static void *map(const uring *ring, size_t n_bytes, long offset) {
    void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, offset);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(memory, n_bytes, MADV_DONTFORK); /* not mapped in a forked child */
    return memory;
}

static void find_parts(uring *ring, const ring_params *params) {
    char *rings = ring->rings;
    ring->sq_head = (_Atomic uint32_t *)(rings + params->sq.head);
    ring->sq_tail = (_Atomic uint32_t *)(rings + params->sq.tail);
    ring->cq_head = (_Atomic uint32_t *)(rings + params->cq.head);
    ring->cq_tail = (_Atomic uint32_t *)(rings + params->cq.tail);
    ring->sq_mask = *(uint32_t *)(rings + params->sq.ring_mask);
    ring->cq_mask = *(uint32_t *)(rings + params->cq.ring_mask);
    ring->cqes = (uring_cqe *)(rings + params->cq.cqes);
    uint32_t *array = (uint32_t *)(rings + params->sq.array);
    for (uint32_t i = 0; i < params->sq_entries; i++) {
        array[i] = i;
    }
}

static int map_parts(uring *ring, const ring_params *params) {
    const size_t sq_bytes = params->sq.array + params->sq_entries * sizeof(uint32_t);
    const size_t cq_bytes = params->cq.cqes + params->cq_entries * sizeof(uring_cqe);
    ring->rings_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    ring->sqes_bytes = params->sq_entries * sizeof(uring_sqe);
    ring->rings = map(ring, ring->rings_bytes, OFFSET_RINGS);
    if (ring->rings == NULL) {
        return errno;
    }
    ring->sqes = map(ring, ring->sqes_bytes, OFFSET_SQES);
    return ring->sqes == NULL ? errno : 0;
}

int uring_open(uring *ring, unsigned n_entries, const char **what) {
    ring_params params;
    memset(&params, 0, sizeof params);
    memset(ring, 0, sizeof *ring);
    *what = "io_uring_setup";
    ring->fd = (int)syscall(SYS_io_uring_setup, n_entries, &params); /* it is close-on-exec */
    if (ring->fd < 0) {
        return errno;
    }
    int error = ENOSYS;
    *what = "the features of io_uring";
    if ((params.features & FEATURES) == FEATURES) {
        *what = "mmap of the ring";
        error = map_parts(ring, &params);
    }
    if (error != 0) {
        uring_close(ring);
        return error;
    }
    find_parts(ring, &params);
    return 0;
}

void uring_close(uring *ring) {
    if (ring->sqes != NULL) {
        munmap(ring->sqes, ring->sqes_bytes);
    }
    if (ring->rings != NULL) {
        munmap(ring->rings, ring->rings_bytes);
    }
    close(ring->fd);
}

uring_sqe *uring_push(uring *ring) {
    const uint32_t tail = atomic_load_explicit(ring->sq_tail, memory_order_relaxed);
    uring_sqe *entry = &ring->sqes[(tail + ring->n_waiting) & ring->sq_mask];
    ring->n_waiting++; /* the kernel sees it at uring_enter */
    memset(entry, 0, sizeof *entry);
    return entry;
}

/* Without a kernel thread (SQPOLL), the kernel takes entries only during the call, so the tail may move back. */
void uring_unpush(uring *ring) { ring->n_waiting = 0; }

int uring_enter(uring *ring, unsigned n_wanted) {
    const uint32_t tail = atomic_load_explicit(ring->sq_tail, memory_order_relaxed);
    atomic_store_explicit(ring->sq_tail, tail + ring->n_waiting, memory_order_release);
    const long n_taken =
        syscall(SYS_io_uring_enter, ring->fd, ring->n_waiting, n_wanted, ENTER_GETEVENTS, NULL, (size_t)0);
    const int error = n_taken < 0 ? errno : 0;
    /* The kernel's count, also after an error: entries that it took will be answered. The rest is offered again. */
    const uint32_t head = atomic_load_explicit(ring->sq_head, memory_order_acquire);
    ring->n_waiting = tail + ring->n_waiting - head;
    atomic_store_explicit(ring->sq_tail, head, memory_order_relaxed);
    return error;
}

int uring_pop(uring *ring, uring_cqe *answer) {
    const uint32_t head = atomic_load_explicit(ring->cq_head, memory_order_relaxed);
    if (head == atomic_load_explicit(ring->cq_tail, memory_order_acquire)) {
        return 0;
    }
    *answer = ring->cqes[head & ring->cq_mask];
    atomic_store_explicit(ring->cq_head, head + 1, memory_order_release);
    return 1;
}

#else
typedef int dataformats_no_uring; /* an empty file is not C */
#endif
