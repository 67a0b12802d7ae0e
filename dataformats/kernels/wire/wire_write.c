#include "wire/wire_write.h"

#include <string.h>

/* The field number of each kind of list in a Feature. */
static const uint8_t NUMBERS[WIRE_SHAPES][WIRE_KINDS] = {
    [WIRE_EXAMPLE] = {[WIRE_BYTES] = 1, [WIRE_FLOATS] = 2, [WIRE_INTEGERS] = 3},
    [WIRE_SEQUENCE_EXAMPLE] = {[WIRE_BYTES] = 1, [WIRE_FLOATS] = 2, [WIRE_INTEGERS] = 3},
    [WIRE_OFRECORD] =
        {[WIRE_BYTES] = 1, [WIRE_FLOATS] = 2, [WIRE_DOUBLES] = 3, [WIRE_INT32S] = 4, [WIRE_INTEGERS] = 5},
};

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

/* Memory that is not written yet. The functions called put_* return 0 if something does not fit. */
typedef struct {
    uint8_t *at, *end;
} room;

static inline int put_varint(room *out, uint64_t value) {
    uint8_t *at = out->at;
    if (out->end - at < WIRE_VARINT_BYTES && out->end - at < varint_bytes(value)) {
        return 0;
    }
    for (; value >= 0x80; value >>= 7) {
        *at++ = (uint8_t)(value | 0x80);
    }
    *at++ = (uint8_t)value;
    out->at = at;
    return 1;
}

/* Write the tag and the length of a delimited field. */
static inline int put_frame(room *out, int number, int64_t n_bytes) {
    return put_varint(out, WIRE_TAG(number, WIRE_DELIMITED)) && put_varint(out, (uint64_t)n_bytes);
}

static inline int put_bytes(room *out, const uint8_t *bytes, int64_t n_bytes) {
    if (n_bytes > out->end - out->at) {
        return 0;
    }
    if (n_bytes > 0) {
        memcpy(out->at, bytes, (size_t)n_bytes);
        out->at += n_bytes;
    }
    return 1;
}

static inline int put_field(room *out, int number, wire_span value) {
    return put_frame(out, number, value.end - value.at) && put_bytes(out, value.at, value.end - value.at);
}

/* Write integers to exactly the bytes that were measured: another thread may write to `numbers` meanwhile. */
static int put_integers(room *out, const wire_value *value) {
    if (value->packed_bytes > out->end - out->at) {
        return 0;
    }
    room list = {out->at, out->at + value->packed_bytes};
    for (int64_t i = 0; i < value->count; i++) {
        if (!put_varint(&list, integer(value->numbers, i, value->width, value->is_signed))) {
            return 0;
        }
    }
    out->at = list.at;
    return list.at == list.end;
}

static int put_list(room *out, const wire_value *value) {
    if (value->kind == WIRE_BYTES) {
        for (int64_t i = 0; i < value->count; i++) {
            if (!put_field(out, 1, value->blobs[i])) {
                return 0;
            }
        }
        return 1;
    }
    if (value->packed_bytes == 0) {
        return 1;
    }
    return put_frame(out, 1, value->packed_bytes) &&
           (has_varints(value) ? put_integers(out, value) : put_bytes(out, value->numbers, value->packed_bytes));
}

static int put_entry(room *out, wire_shape shape, const wire_value *value) {
    if (!put_frame(out, 1, value->entry_bytes) || !put_field(out, 1, value->name) ||
        !put_frame(out, 2, value->feature_bytes)) {
        return 0;
    }
    if (value->kind == WIRE_STEPS) {
        return put_bytes(out, value->blobs->at, value->feature_bytes);
    }
    return put_frame(out, NUMBERS[shape][value->kind], value->list_bytes) && put_list(out, value);
}

int64_t wire_write(wire_shape shape, const wire_value *values, int64_t n_values, uint8_t *out, int64_t n_out) {
    room left = {out, out + n_out};
    for (int part = 0; part < 2; part++) {
        const int64_t inside = part_bytes(values, n_values, part);
        if (inside > 0 && shape != WIRE_OFRECORD && !put_frame(&left, part + 1, inside)) {
            return n_values;
        }
        for (int64_t i = 0; i < n_values; i++) {
            if (values[i].part == part && !put_entry(&left, shape, &values[i])) {
                return i;
            }
        }
    }
    return left.at == left.end ? -1 : n_values;
}
