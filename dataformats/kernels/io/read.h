/* Reads many stretches of files into memory, by one of several engines.
 *
 * An engine is opened by the wrapper and used by any number of threads at once. It is not to be used in a
 * forked child: the child opens its own. */
#ifndef DATAFORMATS_READ_H
#define DATAFORMATS_READ_H

#include <stddef.h>
#include <stdint.h>

/* A piece of memory: the layout of POSIX's `struct iovec`. */
typedef struct {
    void *base;
    size_t n_bytes;
} read_part;

/* One stretch of a file, scattered over pieces of memory. */
typedef struct {
    int fd;
    int n_parts;      /* in [1, READ_MAX_PARTS] */
    int64_t offset;   /* in the file */
    int64_t length;   /* the sum of the parts, above 0 */
    read_part *parts; /* the engine may change them */
    int64_t done;     /* out: bytes read; fewer than `length` only at the end of the file, or with an error */
    int error;        /* out: 0, or an errno */
} read_request;

#define READ_MAX_PARTS 1024 /* Linux' IOV_MAX */

typedef struct read_engine read_engine;

/* Read all stretches; return -1, or the number of the first that failed or came out short.
 * `engine` NULL: one `preadv` after the other in this thread. */
int64_t run_requests(read_engine *engine, read_request *requests, int64_t n_requests);

/* Whether the engine reads what is in memory before it waits for anything. Whoever has work for each stretch may
 * then do that first step by `request_try`, and leave only the others to the engine. False for NULL. */
int read_tries_first(const read_engine *engine);

#endif
