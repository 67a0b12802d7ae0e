#include "wire/wire_write.h"

#include <string.h>

/* The field number of each kind of list in a Feature. */
static const uint8_t NUMBERS[WIRE_SHAPES][WIRE_KINDS] = {
    [WIRE_EXAMPLE] = {[WIRE_BYTES] = 1, [WIRE_FLOATS] = 2, [WIRE_INTEGERS] = 3},
    [WIRE_SEQUENCE_EXAMPLE] = {[WIRE_BYTES] = 1, [WIRE_FLOATS] = 2, [WIRE_INTEGERS] = 3},
    [WIRE_OFRECORD] =
        {[WIRE_BYTES] = 1, [WIRE_FLOATS] = 2, [WIRE_DOUBLES] = 3, [WIRE_INT32S] = 4, [WIRE_INTEGERS] = 5},
};

int wire_has_lists(wire_shape shape, int kind) { return NUMBERS[shape][kind] != 0; }

static int has_varints(const wire_value *value) {
    return value->kind == WIRE_INTEGERS || value->kind == WIRE_INT32S;
}

/* ---- sizes */

static int64_t varint_bytes(uint64_t value) {
    int64_t n_bytes = 1;
    for (; value >= 0x80; value >>= 7) {
        n_bytes++;
    }
    return n_bytes;
}

/* Return the size of a delimited field with a number below 16 and `n_bytes` of value. */
static int64_t framed(int64_t n_bytes) { return 1 + varint_bytes((uint64_t)n_bytes) + n_bytes; }

static inline uint64_t little_endian(const uint8_t *at, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++) {
        value |= (uint64_t)at[i] << (8 * i); /* compilers generate one load */
    }
    return value;
}

/* Return integer i as encoded in a varint: negative ones fill 64 bits. */
static inline uint64_t integer(const uint8_t *numbers, int64_t i, int width, int is_signed) {
    const uint8_t *at = numbers + i * width;
    switch (is_signed ? width : -width) {
    case 1:
        return (uint64_t)(int64_t)(int8_t)at[0];
    case 2:
        return (uint64_t)(int64_t)(int16_t)little_endian(at, 2);
    case 4:
        return (uint64_t)(int64_t)(int32_t)little_endian(at, 4);
    case -1:
        return at[0];
    case -2:
        return little_endian(at, 2);
    case -4:
        return little_endian(at, 4);
    default:
        return little_endian(at, 8);
    }
}

static int64_t packed_bytes(const wire_value *value) {
    if (!has_varints(value)) {
        return value->count * value->width;
    }
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < value->count; i++) {
        n_bytes += varint_bytes(integer(value->numbers, i, value->width, value->is_signed));
    }
    return n_bytes;
}

static int64_t list_bytes(wire_value *value) {
    if (value->kind != WIRE_BYTES) {
        value->packed_bytes = packed_bytes(value);
        return value->packed_bytes ? framed(value->packed_bytes) : 0;
    }
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < value->count; i++) {
        n_bytes += framed(value->blobs[i].end - value->blobs[i].at);
    }
    return n_bytes;
}

static void measure(wire_value *value) {
    if (value->kind == WIRE_STEPS) {
        value->feature_bytes = value->blobs->end - value->blobs->at;
    } else {
        value->list_bytes = list_bytes(value);
        value->feature_bytes = framed(value->list_bytes);
    }
    value->entry_bytes = framed(value->name.end - value->name.at) + framed(value->feature_bytes);
}

static int64_t part_bytes(const wire_value *values, int64_t n_values, int part) {
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < n_values; i++) {
        n_bytes += values[i].part == part ? framed(values[i].entry_bytes) : 0;
    }
    return n_bytes;
}

int64_t wire_write_size(wire_shape shape, wire_value *values, int64_t n_values) {
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < n_values; i++) {
        measure(&values[i]);
    }
    for (int part = 0; part < 2; part++) {
        const int64_t inside = part_bytes(values, n_values, part);
        n_bytes += inside == 0 || shape == WIRE_OFRECORD ? inside : framed(inside);
    }
    return n_bytes;
}

/* ---- bytes */

static uint8_t *put_varint(uint8_t *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        *out++ = (uint8_t)(value | 0x80);
    }
    *out++ = (uint8_t)value;
    return out;
}

/* Write the tag and the length of a delimited field. */
static uint8_t *put_frame(uint8_t *out, int number, int64_t n_bytes) {
    *out++ = (uint8_t)WIRE_TAG(number, WIRE_DELIMITED);
    return put_varint(out, (uint64_t)n_bytes);
}

static uint8_t *put_bytes(uint8_t *out, const uint8_t *bytes, int64_t n_bytes) {
    if (n_bytes > 0) {
        memcpy(out, bytes, (size_t)n_bytes);
    }
    return out + n_bytes;
}

static uint8_t *put_field(uint8_t *out, int number, wire_span value) {
    return put_bytes(put_frame(out, number, value.end - value.at), value.at, value.end - value.at);
}

/* Write integers to exactly the bytes that were measured. Return NULL if they come to another size: another thread may
 * write to them meanwhile. */
static uint8_t *put_integers(uint8_t *out, const wire_value *value) {
    const uint8_t *const end = out + value->packed_bytes;
    const wire_value list = *value; /* which stays in registers, because no pointer leads to it */
    int64_t i = 0;
    for (; i < list.count && end - out >= WIRE_VARINT_BYTES; i++) {
        out = put_varint(out, integer(list.numbers, i, list.width, list.is_signed));
    }
    for (; i < list.count; i++) {
        const uint64_t number = integer(list.numbers, i, list.width, list.is_signed);
        if (end - out < varint_bytes(number)) {
            return NULL;
        }
        out = put_varint(out, number);
    }
    return out == end ? out : NULL;
}

static uint8_t *put_list(uint8_t *out, const wire_value *value) {
    if (value->kind == WIRE_BYTES) {
        for (int64_t i = 0; i < value->count; i++) {
            out = put_field(out, 1, value->blobs[i]);
        }
        return out;
    }
    if (value->packed_bytes == 0) {
        return out;
    }
    out = put_frame(out, 1, value->packed_bytes);
    return has_varints(value) ? put_integers(out, value) : put_bytes(out, value->numbers, value->packed_bytes);
}

static uint8_t *put_entry(uint8_t *out, wire_shape shape, const wire_value *value) {
    out = put_field(put_frame(out, 1, value->entry_bytes), 1, value->name);
    out = put_frame(out, 2, value->feature_bytes);
    if (value->kind == WIRE_STEPS) {
        return put_bytes(out, value->blobs->at, value->feature_bytes);
    }
    return put_list(put_frame(out, NUMBERS[shape][value->kind], value->list_bytes), value);
}

int64_t wire_write(wire_shape shape, const wire_value *values, int64_t n_values, uint8_t *out) {
    for (int part = 0; part < 2; part++) {
        const int64_t inside = part_bytes(values, n_values, part);
        if (inside > 0 && shape != WIRE_OFRECORD) {
            out = put_frame(out, part + 1, inside);
        }
        for (int64_t i = 0; i < n_values; i++) {
            out = values[i].part == part ? put_entry(out, shape, &values[i]) : out;
            if (out == NULL) {
                return i;
            }
        }
    }
    return -1;
}
