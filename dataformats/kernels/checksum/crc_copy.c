#include "checksum/crc_copy.h"

#include <string.h>

#include "checksum/crc.h"

#define STEP 64         /* bytes that compilers copy through registers */
#define TURN_BYTES 256  /* of one copy, before the next */
#define SIDE_BYTES 512  /* shorter copies, and shorter rests, are done alone */
#define AHEAD_BYTES 512 /* prefetched of a copy before its turn; the processor continues by itself */
/* Copied, and then summed while in the cache. If a memcpy is known to stay below 8 KB, GCC generates a string
 * instruction: 40 bytes then took 170 ns instead of 60. */
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

/* ---- any kernel: copy side by side, then sum */

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

/* Return the kernel that copies and computes the sums of `kernel` in one pass, or NULL. */
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
/* Always inline: GCC drops calls to a function that only prefetches. */
__attribute__((always_inline)) static inline void fetch(const crc_copy *copy) {
    for (size_t at = 0; at < AHEAD_BYTES && at < copy->n_bytes; at += 64) {
        __builtin_prefetch(copy->from + at);
    }
}
#else
static void fetch(const crc_copy *copy) { (void)copy; }
#endif

/* Copy whole steps, as many as the shortest copy has. */
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

/* Finish copies with little left. Move the others to the front, and return their number. */
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
