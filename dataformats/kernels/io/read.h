/* Reads many extents of files into memory, by one of several engines.
 *
 * The wrapper opens engines; any number of threads may use one at once. A forked child must not use it, and opens
 * another. */
#ifndef DATAFORMATS_READ_H
#define DATAFORMATS_READ_H

#include <stddef.h>
#include <stdint.h>

/* A piece of memory: the layout of POSIX's `struct iovec`. */
typedef struct {
    void *base;
    size_t n_bytes;
} read_part;

/* One extent of a file, scattered over pieces of memory. */
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

/* Do all requests; return -1, or the number of the first that failed or came short.
 * `engine` NULL: one `preadv` after the other in this thread. */
int64_t run_requests(read_engine *engine, read_request *requests, int64_t n_requests);

/* Return whether the engine reads cached data before it waits. A caller with work for each request may then do that
 * first step by `request_try`, and leave only the other requests to the engine. False for NULL. */
int read_tries_first(const read_engine *engine);

#endif
