/* Shared by the fuzz targets: promises, exact memory, and numbers from the input.
 *
 * Memory has its exact size, so that AddressSanitizer sees every byte read or written beyond it. */
#ifndef DATAFORMATS_FUZZ_H
#define DATAFORMATS_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A broken promise ends the program: the fuzzer keeps the input. */
#define CHECK(condition) ((condition) ? (void)0 : abort())

/* Input that is not used yet. At its end, everything is 0. */
typedef struct {
    const uint8_t *at, *end;
} input;

static inline void *exact_room(size_t n_bytes) {
    void *room = malloc(n_bytes);
    CHECK(room != NULL || n_bytes == 0);
    return room;
}

static inline void *exact_copy(const void *bytes, size_t n_bytes) {
    void *copy = exact_room(n_bytes);
    if (n_bytes > 0) {
        memcpy(copy, bytes, n_bytes);
    }
    return copy;
}

static inline size_t left_in(const input *in) { return (size_t)(in->end - in->at); }

static inline uint8_t next_byte(input *in) { return in->at < in->end ? *in->at++ : 0; }

/* Return an integer of `n` bytes, little-endian. */
static inline uint64_t next_bytes(input *in, int n) {
    uint64_t value = 0;
    for (int i = 0; i < n; i++) {
        value |= (uint64_t)next_byte(in) << (8 * i);
    }
    return value;
}

/* Return a number below `most`, which is at least 1. */
static inline int64_t next_below(input *in, int64_t most) {
    return (int64_t)(next_bytes(in, most > 256 ? 2 : 1) % (uint64_t)most);
}

/* Return any number: mostly a small one, else one that is close to a limit, or of eight bytes. */
static inline int64_t next_number(input *in) {
    const uint8_t first = next_byte(in);
    switch (first >> 3) {
    case 31:
        return (int64_t)next_bytes(in, 8);
    case 30:
        return INT64_MAX - (first & 7);
    case 29:
        return INT64_MIN + (first & 7);
    case 28:
        return -(int64_t)(first & 7) - 1;
    case 27:
        return (int64_t)next_bytes(in, 2);
    default:
        return first;
    }
}

/* Return a number that depends on all bytes, to choose among checks: each input makes a few, all inputs make all.
 * FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv */
static inline uint64_t choice_of(const uint8_t *data, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ data[i]) * 0x100000001b3u;
    }
    return hash ^ hash >> 29;
}

#endif
