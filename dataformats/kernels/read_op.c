#define _GNU_SOURCE /* before any header: preadv, syscall */
#include "read_op.h"

#include <errno.h>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#endif

#ifdef __linux__
#include <sys/syscall.h>
/* The C library of the oldest systems that wheels are built on does not know it; the kernel may. */
#if !defined(SYS_preadv2) && defined(__x86_64__)
#define SYS_preadv2 327
#elif !defined(SYS_preadv2) && defined(__aarch64__)
#define SYS_preadv2 286
#endif
#define NOWAIT 8 /* RWF_NOWAIT of <linux/fs.h> */
#endif

/* One call reads no more than the default read-ahead: the kernel silently cuts longer advice. */
#define ADVICE_BYTES (128 * 1024)
/* Behind this much of one stretch the kernel's own read-ahead is under way. */
#define ADVICE_MOST (8 * 1024 * 1024)

void op_begin(read_op *op) {
    const int fits = op->offset >= 0 && op->length >= 0 && op->offset <= INT64_MAX - op->length;
    op->done = 0;
    op->error = fits && op->n_parts >= 1 && op->n_parts <= READ_MAX_PARTS ? 0 : EINVAL;
}

void op_advance(read_op *op, int64_t n_bytes) {
    op->done += n_bytes;
    while (op->n_parts > 1 && (size_t)n_bytes >= op->parts->n_bytes) {
        n_bytes -= (int64_t)op->parts->n_bytes;
        op->parts++;
        op->n_parts--;
    }
    op->parts->base = (char *)op->parts->base + n_bytes;
    op->parts->n_bytes -= (size_t)n_bytes;
}

#if defined(__unix__) || defined(__APPLE__)
_Static_assert(sizeof(read_part) == sizeof(struct iovec), "read_part is a struct iovec");

static ssize_t read_some(const read_op *op) {
    const off_t offset = (off_t)(op->offset + op->done);
    /* A tenth faster than preadv, which has the parts checked one by one. */
    return op->n_parts == 1 ? pread(op->fd, op->parts->base, op->parts->n_bytes, offset)
                            : preadv(op->fd, (const struct iovec *)op->parts, op->n_parts, offset);
}

void op_finish(read_op *op) {
    while (!op_is_done(op)) {
        const ssize_t n_bytes = read_some(op);
        if (n_bytes > 0) {
            op_advance(op, n_bytes);
        } else if (n_bytes == 0) {
            return;
        } else if (errno != EINTR) {
            op->error = errno;
        }
    }
}
#else
void op_finish(read_op *op) {
    if (!op_is_done(op)) {
        op->error = ENOSYS;
    }
}
#endif

op_warmth op_try(read_op *op) {
#ifdef SYS_preadv2
    const int64_t offset = op->offset + op->done;
    const long n_bytes = syscall(SYS_preadv2, op->fd, op->parts, (unsigned long)op->n_parts,
                                 (unsigned long)offset, (unsigned long)((uint64_t)offset >> 32), NOWAIT);
    if (n_bytes >= 0) {
        op_advance(op, n_bytes);
        return n_bytes == 0 || op_is_done(op) ? OP_READ : OP_COLD;
    }
    if (errno == EAGAIN || errno == EINTR) {
        return OP_COLD;
    }
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) {
        return OP_UNKNOWN;
    }
    op_finish(op); /* a failure: what a plain read says of it counts */
    return OP_READ;
#else
    (void)op;
    return OP_UNKNOWN;
#endif
}

void op_advise(const read_op *op) {
#ifdef POSIX_FADV_WILLNEED
    const int64_t begin = op->offset + op->done, left = op->length - op->done;
    const int64_t stop = begin + (left < ADVICE_MOST ? left : ADVICE_MOST);
    for (int64_t at = begin; at < stop; at += ADVICE_BYTES) {
        (void)posix_fadvise(op->fd, (off_t)at, (off_t)(stop - at < ADVICE_BYTES ? stop - at : ADVICE_BYTES),
                            POSIX_FADV_WILLNEED);
    }
#else
    (void)op;
#endif
}

static void advise_all(const read_op *ops, int64_t n_ops) {
    for (int64_t i = 0; i < n_ops; i++) {
        if (!op_is_done(&ops[i])) {
            op_advise(&ops[i]);
        }
    }
}

void ops_advise_if_cold(read_op *ops, int64_t n_ops) {
    if (n_ops > 1 && !op_is_done(&ops[0]) && op_try(&ops[0]) != OP_READ) {
        advise_all(ops, n_ops);
    }
}

void ops_read_advised(read_op *ops, int64_t n_ops) {
    advise_all(ops, n_ops);
    for (int64_t i = 0; i < n_ops; i++) {
        op_finish(&ops[i]);
    }
}
