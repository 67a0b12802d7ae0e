#include "wire/wire_reader.h"

#include <string.h>

static int skip_bytes(wire_span *span, ptrdiff_t n_bytes) {
    if (span->end - span->at < n_bytes) {
        return 0;
    }
    span->at += n_bytes;
    return 1;
}

/* Fields in an unknown group are not validated: a number of 0 passes there, as in upb. */
static int skip_group(wire_span *span, uint32_t number, int depth) {
    uint64_t tag;
    while (depth > 0 && wire_varint(span, 5, &tag) && tag <= UINT32_MAX) {
        if ((tag & 7) == WIRE_GROUP_END) {
            return tag >> 3 == number;
        }
        if (!wire_skip(span, (uint32_t)tag, depth - 1)) {
            return 0;
        }
    }
    return 0;
}

int wire_skip(wire_span *span, uint32_t tag, int depth) {
    uint64_t value;
    wire_span inner;
    switch (tag & 7) {
    case WIRE_VARINT:
        return wire_varint(span, WIRE_VARINT_BYTES, &value);
    case WIRE_FIXED64:
        return skip_bytes(span, 8);
    case WIRE_DELIMITED:
        return wire_delimited(span, &inner);
    case WIRE_GROUP:
        return skip_group(span, tag >> 3, depth);
    case WIRE_FIXED32:
        return skip_bytes(span, 4);
    default:
        return 0;
    }
}

/* Return the bytes of the character that begins with `first`, or 0. `low` and `high` bound its second byte. */
static size_t character(uint8_t first, uint8_t *low, uint8_t *high) {
    *low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;  /* no overlong forms */
    *high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF; /* no surrogates, nothing beyond U+10FFFF */
    return first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

int wire_is_utf8(const uint8_t *bytes, size_t n_bytes) {
    size_t i = 0;
    while (i < n_bytes) {
        uint64_t word;
        if (n_bytes - i >= sizeof word && (memcpy(&word, bytes + i, sizeof word), word & 0x8080808080808080u) == 0) {
            i += sizeof word;
            continue;
        }
        if (bytes[i] < 0x80) {
            i++;
            continue;
        }
        uint8_t low, high;
        const size_t width = character(bytes[i], &low, &high);
        if (width == 0 || width > n_bytes - i || bytes[i + 1] < low || bytes[i + 1] > high) {
            return 0;
        }
        for (size_t j = 2; j < width; j++) {
            if ((bytes[i + j] & 0xC0) != 0x80) {
                return 0;
            }
        }
        i += width;
    }
    return 1;
}
