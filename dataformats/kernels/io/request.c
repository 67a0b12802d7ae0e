#define _GNU_SOURCE /* before any header: preadv, syscall */
#include "io/request.h"

#include <errno.h>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#endif

#ifdef __linux__
#include <sys/syscall.h>
/* The C library of the oldest systems for which wheels are built lacks it; the kernel may have it. */
#if !defined(SYS_preadv2) && defined(__x86_64__)
#define SYS_preadv2 327
#elif !defined(SYS_preadv2) && defined(__aarch64__)
#define SYS_preadv2 286
#endif
#define NOWAIT 8 /* RWF_NOWAIT of <linux/fs.h> */
#endif

/* One call reads no more than the default read-ahead: the kernel silently cuts longer advice. */
#define ADVICE_BYTES (128 * 1024)
/* Beyond this much of one request, the kernel's read-ahead has started. */
#define ADVICE_MOST (8 * 1024 * 1024)

void request_begin(read_request *request) {
    const int fits = request->offset >= 0 && request->length >= 0 && request->offset <= INT64_MAX - request->length;
    request->done = 0;
    request->error = fits && request->n_parts >= 1 && request->n_parts <= READ_MAX_PARTS ? 0 : EINVAL;
}

void request_advance(read_request *request, int64_t n_bytes) {
    request->done += n_bytes;
    while (request->n_parts > 1 && (size_t)n_bytes >= request->parts->n_bytes) {
        n_bytes -= (int64_t)request->parts->n_bytes;
        request->parts++;
        request->n_parts--;
    }
    request->parts->base = (char *)request->parts->base + n_bytes;
    request->parts->n_bytes -= (size_t)n_bytes;
}

#if defined(__unix__) || defined(__APPLE__)
_Static_assert(sizeof(read_part) == sizeof(struct iovec), "read_part is a struct iovec");

static ssize_t read_some(const read_request *request) {
    const off_t offset = (off_t)(request->offset + request->done);
    /* A tenth faster than preadv, which checks the parts one by one. */
    return request->n_parts == 1 ? pread(request->fd, request->parts->base, request->parts->n_bytes, offset)
                            : preadv(request->fd, (const struct iovec *)request->parts, request->n_parts, offset);
}

void request_finish(read_request *request) {
    while (!request_is_done(request)) {
        const ssize_t n_bytes = read_some(request);
        if (n_bytes > 0) {
            request_advance(request, n_bytes);
        } else if (n_bytes == 0) {
            return;
        } else if (errno != EINTR) {
            request->error = errno;
        }
    }
}
#else
void request_finish(read_request *request) {
    if (!request_is_done(request)) {
        request->error = ENOSYS;
    }
}
#endif

request_warmth request_try(read_request *request) {
#ifdef SYS_preadv2
    const int64_t offset = request->offset + request->done;
    const long n_bytes = syscall(SYS_preadv2, request->fd, request->parts, (unsigned long)request->n_parts,
                                 (unsigned long)offset, (unsigned long)((uint64_t)offset >> 32), NOWAIT);
    if (n_bytes >= 0) {
        request_advance(request, n_bytes);
        return n_bytes == 0 || request_is_done(request) ? REQUEST_READ : REQUEST_COLD;
    }
    if (errno == EAGAIN || errno == EINTR) {
        return REQUEST_COLD;
    }
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) {
        return REQUEST_UNKNOWN;
    }
    request_finish(request); /* failed: the result of a plain read counts */
    return REQUEST_READ;
#else
    (void)request;
    return REQUEST_UNKNOWN;
#endif
}

void request_advise(const read_request *request) {
#ifdef POSIX_FADV_WILLNEED
    const int64_t begin = request->offset + request->done, left = request->length - request->done;
    const int64_t n_bytes = left < ADVICE_MOST ? left : ADVICE_MOST;
    for (int64_t done = 0; done < n_bytes; done += ADVICE_BYTES) {
        const int64_t here = n_bytes - done < ADVICE_BYTES ? n_bytes - done : ADVICE_BYTES;
        (void)posix_fadvise(request->fd, (off_t)(begin + done), (off_t)here, POSIX_FADV_WILLNEED);
    }
#else
    (void)request;
#endif
}

static void advise_all(const read_request *requests, int64_t n_requests) {
    for (int64_t i = 0; i < n_requests; i++) {
        if (!request_is_done(&requests[i])) {
            request_advise(&requests[i]);
        }
    }
}

void requests_advise_if_cold(read_request *requests, int64_t n_requests) {
    if (n_requests > 1 && !request_is_done(&requests[0]) && request_try(&requests[0]) != REQUEST_READ) {
        advise_all(requests, n_requests);
    }
}

void requests_read_advised(read_request *requests, int64_t n_requests) {
    advise_all(requests, n_requests);
    for (int64_t i = 0; i < n_requests; i++) {
        request_finish(&requests[i]);
    }
}
