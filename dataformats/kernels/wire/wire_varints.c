/* A varint ends at its first byte below 0x80. The ends of 64 bytes become the bits of one number, whose lowest bit gives
 * the length of the next varint. */
#include "wire/wire_varints.h"

#if defined(DATAFORMATS_AVX512)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#define FEW 16 /* bytes that are read one varint after the other */

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

static inline uint64_t first_bits(int n) { return n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX; }

/* Return whether a varint has more than four bytes. */
static inline int is_long(uint64_t continued_bits) {
    const uint64_t two = continued_bits & continued_bits >> 1;
    return (two & two >> 2) != 0;
}

int wire_block_portable(const uint8_t *at, int n_bytes, uint8_t *values, int *n_values) {
    const uint64_t within = first_bits(n_bytes), more = continued(at) & within;
    int begin = 0, n = 0;
    if (is_too_long(more)) {
        return 0;
    }
    if (is_long(more)) {
        for (uint64_t ends = ~more & within; ends != 0; ends &= ends - 1, n++) {
            const int end = lowest_bit(ends) + 1;
            wire_store(values + 8 * n, value_of(at + begin, end - begin), 8);
            begin = end;
        }
    } else {
        for (uint64_t ends = ~more & within; ends != 0; ends &= ends - 1, n++) {
            const int end = lowest_bit(ends) + 1;
            wire_store(values + 8 * n, short_value_of(at + begin, end - begin), 8);
            begin = end;
        }
    }
    *n_values = n;
    return begin;
}

#ifdef DATAFORMATS_AVX512
/* Return the values of eight varints, given the first and the last byte of each in a block. */
__attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2"))) static inline __m512i eight_values(
    __m512i block, uint64_t first_bytes, uint64_t last_bytes) {
    const __m512i eight = _mm512_set1_epi64(0x0706050403020100);
    const __m512i spread = _mm512_set_epi64(0x0707070707070707, 0x0606060606060606, 0x0505050505050505,
                                            0x0404040404040404, 0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m512i first = _mm512_permutexvar_epi8(spread, _mm512_set1_epi64((long long)first_bytes));
    const __m512i last = _mm512_permutexvar_epi8(spread, _mm512_set1_epi64((long long)last_bytes));
    const __m512i places = _mm512_add_epi8(first, eight);
    const __mmask64 own = _mm512_cmple_epu8_mask(places, last);
    __m512i bits = _mm512_maskz_permutexvar_epi8(own, places, block);
    bits = _mm512_and_si512(bits, _mm512_set1_epi8(0x7F));
    bits = _mm512_maddubs_epi16(_mm512_set1_epi16((short)0x8001), bits); /* 1 and 128 times: pairs of seven bits */
    bits = _mm512_madd_epi16(bits, _mm512_set1_epi32(0x40000001));        /* 1 and 2^14 times: pairs of 14 bits */
    const __m512i low = _mm512_and_si512(bits, _mm512_set1_epi64(0xFFFFFFFF));
    return _mm512_or_si512(low, _mm512_slli_epi64(_mm512_srli_epi64(bits, 32), 28));
}

__attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2"))) int wire_block_vbmi(
    const uint8_t *at, int n_bytes, uint8_t *values, int *n_values) {
    uint64_t firsts[WIRE_BLOCK / 8], lasts[WIRE_BLOCK / 8];
    const __m512i block = _mm512_loadu_si512(at);
    const uint64_t within = first_bits(n_bytes), more = _mm512_movepi8_mask(block) & within, ends = ~more & within;
    const uint64_t two = more & more >> 1, four = two & two >> 2;
    if (ends == 0 || (four & four >> 4) != 0) { /* none ends here, or one has nine bytes or more */
        return wire_block_portable(at, n_bytes, values, n_values);
    }
    uint8_t numbers[WIRE_BLOCK];
    for (int i = 0; i < WIRE_BLOCK; i++) {
        numbers[i] = (uint8_t)i;
    }
    const __m512i all = _mm512_loadu_si512(numbers);
    _mm512_storeu_si512(lasts, _mm512_maskz_compress_epi8(ends, all));
    _mm512_storeu_si512(firsts, _mm512_maskz_compress_epi8(ends << 1 | 1, all));
    *n_values = count_bits(ends);
    for (int i = 0; i < *n_values; i += 8) {
        _mm512_storeu_si512(values + 8 * i, eight_values(block, firsts[i / 8], lasts[i / 8]));
    }
    return highest_bit(ends) + 1;
}
#endif
#else
int wire_block_portable(const uint8_t *at, int n_bytes, uint8_t *values, int *n_values) {
    wire_span span = {at, at + n_bytes};
    uint64_t value;
    for (*n_values = 0; span.at < span.end && wire_varint(&span, WIRE_VARINT_BYTES, &value); ++*n_values) {
        wire_store(values + 8 * *n_values, value, 8);
        at = span.at;
    }
    return *n_values == 0 || span.end - at >= WIRE_VARINT_BYTES ? 0 : (int)(at - (span.end - n_bytes));
}
#endif

wire_block_kernel *wire_choose_block(void) {
#ifdef DATAFORMATS_AVX512
    if (cpu_has_vbmi2()) {
        return wire_block_vbmi;
    }
#endif
    return wire_block_portable;
}

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

static int read_one_by_one(wire_span *span, uint8_t *values) {
    int n = 0;
    for (uint64_t value; span->at < span->end && n < WIRE_BLOCK; n++) {
        if (!wire_varint(span, WIRE_VARINT_BYTES, &value)) {
            return -1;
        }
        wire_store(values + 8 * n, value, 8);
    }
    return n;
}

int wire_read_varints(wire_block_kernel *block, wire_span *span, uint8_t *values) {
    const ptrdiff_t left = span->end - span->at;
    if (left <= FEW) {
        return read_one_by_one(span, values);
    }
    uint8_t padded[WIRE_BLOCK + WIRE_SLACK];
    const uint8_t *at = span->at;
    if (left < WIRE_BLOCK + WIRE_SLACK) { /* nothing behind the span is read */
        memset(padded, 0, sizeof padded);
        memcpy(padded, at, (size_t)left);
        at = padded;
    }
    int n_values;
    const int n_read = block(at, left < WIRE_BLOCK ? (int)left : WIRE_BLOCK, values, &n_values);
    span->at += n_read;
    return n_read == 0 ? -1 : n_values;
}
