/* A ring of io_uring, by system calls: the part of the kernel's interface that reading needs.
 *
 * Linux only. Not thread-safe: use a ring under a lock. */
#ifndef DATAFORMATS_URING_H
#define DATAFORMATS_URING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel's structures (include/uapi/linux/io_uring.h), which many systems' headers lack or have in an old
 * version. */
typedef struct {
    uint8_t opcode, flags;
    uint16_t priority;
    int32_t fd;
    uint64_t offset, address;
    uint32_t length, rw_flags;
    uint64_t user_data, unused[3];
} uring_sqe;

typedef struct {
    uint64_t user_data;
    int32_t result; /* bytes, or a negative errno */
    uint32_t flags;
} uring_cqe;

#define URING_READV 1
#define URING_READ 22

typedef struct {
    int fd;
    unsigned n_waiting; /* pushed, and not yet taken by the kernel */
    void *rings;
    size_t rings_bytes;
    uring_sqe *sqes;
    size_t sqes_bytes;
    uring_cqe *cqes;
    _Atomic uint32_t *sq_head, *sq_tail, *cq_head, *cq_tail;
    uint32_t sq_mask, cq_mask;
} uring;

/* Fill `ring`. Return 0, or an errno and in `what` the call that failed; nothing stays open then. */
int uring_open(uring *ring, unsigned n_entries, const char **what);
void uring_close(uring *ring);

/* Return the next entry to fill, all zeros. There must be room: fewer than `n_entries` are waiting. */
uring_sqe *uring_push(uring *ring);

/* Drop entries that the kernel has not taken. */
void uring_unpush(uring *ring);

/* Submit the waiting entries; return when `n_wanted` answers are available, or sooner. Return 0, or an errno. */
int uring_enter(uring *ring, unsigned n_wanted);

/* Take an answer. Return 1, or 0 if there is none. */
int uring_pop(uring *ring, uring_cqe *answer);

#endif
