#include "checksum/crc_copy.h"

#include <string.h>

#include "checksum/crc.h"

#define STEP 64         /* bytes that compilers copy through registers */
#define TURN_BYTES 256  /* of one copy, then of the next */
#define SIDE_BYTES 512  /* shorter ones, and shorter rests, are copied alone */
#define AHEAD_BYTES 512 /* of a copy that are fetched before its turn; the processor goes on by itself */
/* Copied, and then summed while they are near. Of a memcpy that is known to stay below 8 KB, GCC makes a string
 * instruction: 40 bytes then took 170 ns in place of 60. */
#define PART_BYTES 12288

static void move_on(crc_copy *copy, size_t n_bytes) {
    copy->to += n_bytes;
    copy->from += n_bytes;
    copy->n_bytes -= n_bytes;
}

static void copy_alone(crc_kernel *kernel, crc_copy *copy) {
    while (copy->n_bytes > 0) {
        const size_t part = copy->n_bytes < PART_BYTES ? copy->n_bytes : PART_BYTES;
        memcpy(copy->to, copy->from, part);
        if (kernel != NULL) {
            copy->crc = kernel(copy->crc, copy->to, part);
        }
        move_on(copy, part);
    }
}

/* ---- with any kernel: copied side by side, and then summed */

static void copy_part(crc_copy *const sides[CRC_SIDES], size_t n_bytes) {
    for (size_t turn = 0; turn < n_bytes; turn += TURN_BYTES) {
        const size_t stop = n_bytes - turn < TURN_BYTES ? n_bytes : turn + TURN_BYTES;
        for (int i = 0; i < CRC_SIDES; i++) {
            uint8_t *to = sides[i]->to;
            const uint8_t *from = sides[i]->from;
            for (size_t at = turn; at < stop; at += STEP) {
                memcpy(to + at, from + at, STEP);
            }
        }
    }
}

static void copy_sides(crc_kernel *kernel, crc_copy *const sides[CRC_SIDES], size_t n_bytes) {
    for (size_t done = 0; done < n_bytes;) {
        const size_t part = n_bytes - done < PART_BYTES ? n_bytes - done : PART_BYTES;
        copy_part(sides, part);
        for (int i = 0; i < CRC_SIDES; i++) {
            if (kernel != NULL) {
                sides[i]->crc = kernel(sides[i]->crc, sides[i]->to, part);
            }
            move_on(sides[i], part);
        }
        done += part;
    }
}

/* ---- all */

/* Return what copies and sums in one pass as `kernel` would, or NULL. */
static crc_copy_kernel *one_pass(crc_kernel *kernel) {
#ifdef DATAFORMATS_AVX512
    if (kernel == crc32_vpclmul) {
        return crc32_copy_vpclmul;
    }
    if (kernel == crc32c_vpclmul) {
        return crc32c_copy_vpclmul;
    }
#endif
    (void)kernel;
    return NULL;
}

#if defined(__GNUC__) || defined(__clang__)
/* Inline by force: GCC takes a function of nothing but prefetches for one that does nothing, and drops the call. */
__attribute__((always_inline)) static inline void fetch(const crc_copy *copy) {
    for (size_t at = 0; at < AHEAD_BYTES && at < copy->n_bytes; at += 64) {
        __builtin_prefetch(copy->from + at);
    }
}
#else
static void fetch(const crc_copy *copy) { (void)copy; }
#endif

/* Copy as much as the shortest has, in whole steps. */
static void advance(crc_kernel *kernel, crc_copy_kernel *fused, crc_copy *const sides[CRC_SIDES]) {
    size_t n_bytes = sides[0]->n_bytes;
    for (int i = 1; i < CRC_SIDES; i++) {
        n_bytes = sides[i]->n_bytes < n_bytes ? sides[i]->n_bytes : n_bytes;
    }
    n_bytes -= n_bytes % STEP;
    if (fused != NULL) {
        fused(sides, n_bytes);
    } else {
        copy_sides(kernel, sides, n_bytes);
    }
}

/* Finish what has little left. Return how many are not done, moved to the front. */
static int left_of(crc_kernel *kernel, crc_copy *sides[CRC_SIDES]) {
    int n = 0;
    for (int i = 0; i < CRC_SIDES; i++) {
        if (sides[i]->n_bytes < SIDE_BYTES) {
            copy_alone(kernel, sides[i]);
        } else {
            sides[n++] = sides[i];
        }
    }
    return n;
}

void crc_copies(crc_kernel *kernel, crc_copy *copies, size_t n) {
    crc_copy_kernel *fused = one_pass(kernel);
    crc_copy *sides[CRC_SIDES];
    int n_sides = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + CRC_SIDES < n) {
            fetch(&copies[i + CRC_SIDES]);
        }
        if (copies[i].n_bytes < SIDE_BYTES) {
            copy_alone(kernel, &copies[i]);
            continue;
        }
        sides[n_sides++] = &copies[i];
        if (n_sides == CRC_SIDES) {
            advance(kernel, fused, sides);
            n_sides = left_of(kernel, sides);
        }
    }
    for (int i = 0; i < n_sides; i++) {
        copy_alone(kernel, sides[i]);
    }
}
