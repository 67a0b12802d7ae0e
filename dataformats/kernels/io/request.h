/* One stretch of a file, read step by step: what the engines share.
 *
 * An engine is given stretches of which some may be partly read already, and reads what is missing. */
#ifndef DATAFORMATS_REQUEST_H
#define DATAFORMATS_REQUEST_H

#include "io/read.h"

/* What a read that does not wait found out. */
typedef enum {
    REQUEST_READ,   /* all of it was in memory, or the file ends there, or it cannot be read */
    REQUEST_COLD,   /* some of it is not in memory; newer kernels have begun to fetch it */
    REQUEST_UNKNOWN /* this system or file system cannot tell */
} request_warmth;

/* Forget what was read; set `error` where the stretch makes no sense. */
void request_begin(read_request *request);

/* Is there nothing left to read? (A stretch that the file's end cut short is read once more, for nothing.) */
static inline int request_is_done(const read_request *request) { return request->error != 0 || request->done >= request->length; }

/* Note that `n_bytes` more were read into the parts. */
void request_advance(read_request *request, int64_t n_bytes);

/* Read what is missing in this thread, however long that takes. */
void request_finish(read_request *request);

/* Read as much as is in memory already. */
request_warmth request_try(read_request *request);

/* Ask the system to fetch what is missing, and do not wait. Does nothing where that cannot be asked. */
void request_advise(const read_request *request);

/* Advise all if the first of them is cold: advice on what is in memory costs as much as reading it. */
void requests_advise_if_cold(read_request *requests, int64_t n_requests);

/* For all of them: request_advise, then request_finish one after the other. It gives full depth without another thread.
 */
void requests_read_advised(read_request *requests, int64_t n_requests);

#endif
