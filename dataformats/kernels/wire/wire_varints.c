/* A varint ends at its first byte below 0x80. The ends of 64 bytes become the bits of one number, whose lowest bit gives
 * the length of the next varint. */
#include "wire/wire_varints.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define FEW 16 /* bytes that are read one varint after the other */
#define BEHIND 8 /* bytes read behind the first one of a varint */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IN_BLOCKS 1
#else
#define IN_BLOCKS 0
#endif

#if IN_BLOCKS
/* Return a bit for each of 64 bytes: 1 if it continues a varint. */
static inline uint64_t continued(const uint8_t *at) {
    uint64_t bits = 0;
#if defined(__SSE2__)
    for (int i = 0; i < WIRE_BLOCK; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + i));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(bytes) << i;
    }
#else
    for (int i = 0; i < WIRE_BLOCK; i += 8) { /* the product moves the highest bits of eight bytes side by side */
        bits |= ((wire_word(at + i) & 0x8080808080808080u) * 0x0002040810204081u >> 56) << i;
    }
#endif
    return bits;
}

static inline int lowest_bit(uint64_t bits) { return __builtin_ctzll(bits); }

static inline int highest_bit(uint64_t bits) { return 63 - __builtin_clzll(bits); }

static inline int count_bits(uint64_t bits) {
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    return (int)(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}

/* Return whether ten bytes in a row continue a varint. */
static inline int is_too_long(uint64_t continued_bits) {
    const uint64_t two = continued_bits & continued_bits >> 1, four = two & two >> 2;
    return (four & four >> 4 & two >> 8) != 0;
}

/* Return the value of a varint of 1 to 10 bytes. */
static inline uint64_t value_of(const uint8_t *at, int n_bytes) {
    if (n_bytes <= 8) {
        return wire_varint_in(wire_word(at), n_bytes);
    }
    const uint64_t tenth = n_bytes > 9 ? (uint64_t)at[9] << 63 : 0; /* one bit of it counts, as in protobuf */
    return wire_varint_in(wire_word(at), 8) | (uint64_t)(at[8] & 0x7F) << 56 | tenth;
}

/* Return the value of a varint of 1 to 4 bytes. */
static inline uint32_t short_value_of(const uint8_t *at, int n_bytes) {
    uint32_t bits;
    memcpy(&bits, at, 4);
    bits &= 0x7F7F7F7Fu >> (32 - 8 * n_bytes);
    bits = (bits & 0x007F007Fu) | (bits & 0x7F007F00u) >> 1;
    return (bits & 0x00003FFFu) | (bits & 0x3FFF0000u) >> 2;
}

/* Read the varints that end in the first `n_bytes` of a block, 1 to 64. Return their bytes, or 0 if malformed. */
static int read_block(const uint8_t *at, int n_bytes, uint64_t *values, int *n_values) {
    const uint64_t more = continued(at);
    const uint64_t within = n_bytes < WIRE_BLOCK ? ((uint64_t)1 << n_bytes) - 1 : UINT64_MAX;
    int begin = 0, n = 0;
    if (is_too_long(more & within)) {
        return 0;
    }
    if (more & more >> 1 & more >> 2 & more >> 3 & within) {
        for (uint64_t ends = ~more & within; ends != 0; ends &= ends - 1) {
            const int end = lowest_bit(ends) + 1;
            values[n++] = value_of(at + begin, end - begin);
            begin = end;
        }
    } else {
        for (uint64_t ends = ~more & within; ends != 0; ends &= ends - 1) {
            const int end = lowest_bit(ends) + 1;
            values[n++] = short_value_of(at + begin, end - begin);
            begin = end;
        }
    }
    *n_values = n;
    return begin;
}
#endif

static int64_t count_one_by_one(wire_span span) {
    int64_t count = 0;
    int running = 0; /* bytes of an unfinished varint */
    while (span.at < span.end) {
        running = *span.at++ < 0x80 ? 0 : running + 1;
        count += running == 0;
        if (running == WIRE_VARINT_BYTES) {
            return -1;
        }
    }
    return running == 0 ? count : -1;
}

int64_t wire_count_varints(wire_span span) {
    int64_t count = 0;
#if IN_BLOCKS
    while (span.end - span.at >= WIRE_BLOCK) {
        const uint64_t more = continued(span.at);
        if (~more == 0 || is_too_long(more)) {
            return -1;
        }
        count += count_bits(~more);
        span.at += highest_bit(~more) + 1; /* an unfinished varint begins the next block */
    }
#endif
    const int64_t rest = count_one_by_one(span);
    return rest < 0 ? -1 : count + rest;
}

static int read_one_by_one(wire_span *span, uint64_t *values) {
    int n = 0;
    while (span->at < span->end && n < WIRE_BLOCK) {
        if (!wire_varint(span, WIRE_VARINT_BYTES, &values[n++])) {
            return -1;
        }
    }
    return n;
}

int wire_read_varints(wire_span *span, uint64_t *values) {
#if IN_BLOCKS
    const ptrdiff_t left = span->end - span->at;
    if (left > FEW) {
        uint8_t padded[WIRE_BLOCK + BEHIND];
        const uint8_t *at = span->at;
        const int n_bytes = left < WIRE_BLOCK ? (int)left : WIRE_BLOCK;
        if (left < WIRE_BLOCK + BEHIND) { /* nothing behind the span is read */
            memset(padded, 0, sizeof padded);
            memcpy(padded, at, (size_t)left);
            at = padded;
        }
        int n_values;
        const int n_read = read_block(at, n_bytes, values, &n_values);
        span->at += n_read;
        return n_read == 0 ? -1 : n_values;
    }
#endif
    return read_one_by_one(span, values);
}
