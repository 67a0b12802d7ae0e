#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* preadv */
#endif
#include "reads.h"

#include <errno.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/uio.h>

/* placeholder until the engines come */
int64_t reads_run(read_engine *engine, read_op *ops, int64_t n_ops) {
    (void)engine;
    for (int64_t i = 0; i < n_ops; i++) {
        struct iovec parts[3];
        for (int k = 0; k < ops[i].n_parts; k++) {
            parts[k] = (struct iovec){ops[i].parts[k].base, ops[i].parts[k].n_bytes};
        }
        ops[i].done = preadv(ops[i].fd, parts, ops[i].n_parts, ops[i].offset);
        if (ops[i].done != ops[i].length) {
            return i;
        }
    }
    return -1;
}
#endif
