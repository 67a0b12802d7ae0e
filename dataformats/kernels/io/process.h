/* The current process, and a monotonic clock. */
#ifndef DATAFORMATS_PROCESS_H
#define DATAFORMATS_PROCESS_H

#include <stdint.h>

#if defined(__unix__) || defined(__APPLE__)
#include <time.h>
#include <unistd.h>

static inline long this_process(void) { return (long)getpid(); }

/* Return nanoseconds of a clock that is never set. Define _GNU_SOURCE before any header. */
static inline int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
#else
static inline long this_process(void) { return 0; }
#endif

#endif
