/* One stretch of a file, read step by step: what the engines share.
 *
 * An engine is given stretches of which some may be partly read already, and reads what is missing. */
#ifndef DATAFORMATS_READ_OP_H
#define DATAFORMATS_READ_OP_H

#include "reads.h"

/* What a read that does not wait found out. */
typedef enum {
    OP_READ,   /* all of it was in memory, or the file ends there, or it cannot be read */
    OP_COLD,   /* some of it is not in memory; newer kernels have begun to fetch it */
    OP_UNKNOWN /* this system or file system cannot tell */
} op_warmth;

/* Forget what was read; set `error` where the stretch makes no sense. */
void op_begin(read_op *op);

/* Is there nothing left to read? (A stretch that the file's end cut short is read once more, for nothing.) */
static inline int op_is_done(const read_op *op) { return op->error != 0 || op->done >= op->length; }

/* Note that `n_bytes` more were read into the parts. */
void op_advance(read_op *op, int64_t n_bytes);

/* Read what is missing in this thread, however long that takes. */
void op_finish(read_op *op);

/* Read as much as is in memory already. */
op_warmth op_try(read_op *op);

/* Ask the system to fetch what is missing, and do not wait. Does nothing where that cannot be asked. */
void op_advise(const read_op *op);

/* Advise all if the first of them is cold: advice on what is in memory costs as much as reading it. */
void ops_advise_if_cold(read_op *ops, int64_t n_ops);

/* For all of them: op_advise, then op_finish one after the other. It gives full depth without another thread.
 */
void ops_read_advised(read_op *ops, int64_t n_ops);

#endif
