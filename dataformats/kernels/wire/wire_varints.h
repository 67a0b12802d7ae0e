/* Varints that lie back to back: the values of packed lists. */
#ifndef DATAFORMATS_WIRE_VARINTS_H
#define DATAFORMATS_WIRE_VARINTS_H

#include <string.h>

#include "checksum/cpu.h"
#include "wire/wire_reader.h"

#define WIRE_BLOCK 64 /* the most varints that are read at once */

/* Return eight bytes as a number, the first one lowest. */
static inline uint64_t wire_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Return whether the first `n_bytes` of a word, 1 to 8, are one varint. */
static inline int wire_is_varint(uint64_t word, int n_bytes) {
    return (word & 0x8080808080808080u >> (64 - 8 * n_bytes)) == (n_bytes > 1 ? 0x8080808080808080u >> (72 - 8 * n_bytes) : 0);
}

/* Return the value of the varint in the first `n_bytes` of a word, 1 to 8. Without a branch: if numbers of all lengths
 * are mixed, the processor would guess every second one wrong. */
static inline uint64_t wire_varint_in(uint64_t word, int n_bytes) {
    word &= 0x7F7F7F7F7F7F7F7Fu >> (64 - 8 * n_bytes);
    word = (word & 0x007F007F007F007Fu) | (word & 0x7F007F007F007F00u) >> 1;
    word = (word & 0x00003FFF00003FFFu) | (word & 0x3FFF00003FFF0000u) >> 2;
    return (word & 0x000000000FFFFFFFu) | (word & 0x0FFFFFFF00000000u) >> 4;
}

/* Write an integer in `width` bytes, little-endian. */
static inline void wire_store(uint8_t *at, uint64_t value, int width) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(at, &value, (size_t)width);
#else
    for (int i = 0; i < width; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
#endif
}

/* Return how many varints lie back to back in exactly these bytes, or -1. */
int64_t wire_count_varints(wire_span span);

#define WIRE_SLACK 8 /* bytes behind a block that are readable */

/* Read the varints that end in the first `n_bytes`, 1 to WIRE_BLOCK, of a block, whatever the bytes behind them. Write
 * `n_values` little-endian uint64; the rest of `values[0 .. 8 * WIRE_BLOCK)` may be overwritten. Return the bytes of
 * these varints; or 0 if none ends there, or one has more than ten bytes. */
typedef int wire_block_kernel(const uint8_t *at, int n_bytes, uint8_t *values, int *n_values);

wire_block_kernel wire_block_portable;
#ifdef DATAFORMATS_AVX512
wire_block_kernel wire_block_vbmi; /* AVX-512 with VBMI2: eight values at once, of at most eight bytes each */
#endif

/* Return the kernel for this machine. */
wire_block_kernel *wire_choose_block(void);

/* Read the next varints off the front of a span that is not empty: at least one, at most WIRE_BLOCK. Return how many,
 * or -1 if they are malformed. `values`: as of a kernel. */
int wire_read_varints(wire_block_kernel *block, wire_span *span, uint8_t *values);

#endif
