/* Reads the elements of protobuf's wire format within bounds. Functions return 1, or 0 if the bytes end too early or
 * are malformed; they never read at or behind `end`. */
#ifndef DATAFORMATS_WIRE_READER_H
#define DATAFORMATS_WIRE_READER_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that are not read yet. */
typedef struct {
    const uint8_t *at, *end;
} wire_span;

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_DELIMITED = 2, WIRE_GROUP = 3, WIRE_GROUP_END = 4, WIRE_FIXED32 = 5 };

#define WIRE_TAG(number, type) ((uint32_t)(number) << 3 | (type))

/* The limit of nested messages and groups, below a top-level message. */
#define WIRE_DEPTH 100

#define WIRE_VARINT_BYTES 10

static inline int wire_long_varint(wire_span *span, int most_bytes, uint64_t *value) {
    uint64_t found = 0;
    const uint8_t *at = span->at;
    for (int i = 0; i < most_bytes && at < span->end; i++) {
        const uint64_t byte = *at++;
        found |= (byte & 0x7F) << (7 * i); /* one bit of the tenth byte counts, as in protobuf */
        if (byte < 0x80) {
            span->at = at;
            *value = found;
            return 1;
        }
    }
    return 0;
}

/* Read a varint of at most `most_bytes`. */
static inline int wire_varint(wire_span *span, int most_bytes, uint64_t *value) {
    if (span->at < span->end && *span->at < 0x80) {
        *value = *span->at++;
        return 1;
    }
    return wire_long_varint(span, most_bytes, value);
}

/* Read the tag of a field in a message: below 2^32, and its number not 0. */
static inline int wire_tag(wire_span *span, uint32_t *tag) {
    uint64_t value;
    if (!wire_varint(span, 5, &value) || value > UINT32_MAX || value < 8) {
        return 0;
    }
    *tag = (uint32_t)value;
    return 1;
}

/* Read a length below 2^31, and skip that many bytes, which become `inner`. */
static inline int wire_delimited(wire_span *span, wire_span *inner) {
    uint64_t length;
    if (!wire_varint(span, 5, &length) || length > INT32_MAX || length > (uint64_t)(span->end - span->at)) {
        return 0;
    }
    inner->at = span->at;
    inner->end = span->at += length;
    return 1;
}

/* Skip the value of a field; at most `depth` nested groups. */
int wire_skip(wire_span *span, uint32_t tag, int depth);

/* Return whether these bytes are UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
int wire_is_utf8(const uint8_t *bytes, size_t n_bytes);

#endif
