/* One request, done step by step: shared by the engines.
 *
 * Requests may be partly done already when an engine gets them; it reads the missing bytes. */
#ifndef DATAFORMATS_REQUEST_H
#define DATAFORMATS_REQUEST_H

#include "io/read.h"

/* The result of a read that does not wait. */
typedef enum {
    REQUEST_READ,   /* all of it was cached, or the file ends there, or it cannot be read */
    REQUEST_COLD,   /* some of it is not cached; newer kernels have begun to fetch it */
    REQUEST_UNKNOWN /* this system or file system cannot tell */
} request_warmth;

/* Reset a request; set `error` if it is invalid. */
void request_begin(read_request *request);

/* Is nothing left to read? (A request that was cut short by the end of the file is read once more, in vain.) */
static inline int request_is_done(const read_request *request) {
    return request->error != 0 || request->done >= request->length;
}

/* Advance by `n_bytes` that were read into the parts. */
void request_advance(read_request *request, int64_t n_bytes);

/* Read the missing bytes in this thread, however long that takes. */
void request_finish(read_request *request);

/* Read as much as is cached. */
request_warmth request_try(read_request *request);

/* Ask the system to fetch the missing bytes, without waiting. A no-op if the system has no such call. */
void request_advise(const read_request *request);

/* Advise all if the first is cold: advice on cached data costs as much as reading it. */
void requests_advise_if_cold(read_request *requests, int64_t n_requests);

/* Advise all requests, then finish one after the other: full queue depth without another thread. */
void requests_read_advised(read_request *requests, int64_t n_requests);

#endif
