/* What is written is found again, with the same values. Integers that change between measuring and writing are noticed,
 * and nothing is written outside the record. Input: the shape, then features. */
#include "fuzz.h"
#include "wire/wire.h"
#include "wire/wire_write.h"

#define MOST 6 /* features */

/* The values of a feature; memory of exact sizes. */
typedef struct {
    uint8_t *numbers;
    wire_span *blobs;
    uint8_t name;
} content;

static const uint8_t *integer_at(const wire_value *value, int64_t i) { return value->numbers + i * value->width; }

/* Return integer i as 64 bits. */
static uint64_t integer_of(const wire_value *value, int64_t i) {
    const uint8_t *at = integer_at(value, i);
    uint64_t bits = 0;
    for (int k = 0; k < value->width; k++) {
        bits |= (uint64_t)at[k] << (8 * k);
    }
    const int is_negative = value->is_signed && at[value->width - 1] >= 0x80;
    return is_negative && value->width < 8 ? bits | UINT64_MAX << (8 * value->width) : bits;
}

static int is_blobs(const wire_value *value) { return value->kind == WIRE_BYTES || value->kind == WIRE_STEPS; }

static void take_values(input *in, wire_value *value, content *held) {
    static const int widths[] = {1, 2, 4, 8};
    value->count = value->kind == WIRE_STEPS ? 1 : next_below(in, 40);
    const size_t count = (size_t)value->count;
    if (is_blobs(value)) {
        held->blobs = exact_room(count * sizeof *held->blobs);
        for (size_t i = 0; i < count; i++) {
            const uint8_t wanted = value->kind == WIRE_STEPS ? 0 : next_byte(in);
            const size_t n_bytes = wanted < left_in(in) ? wanted : left_in(in);
            held->blobs[i] = (wire_span){in->at, in->at + n_bytes};
            in->at += n_bytes;
        }
    } else {
        const int is_float = value->kind == WIRE_FLOATS || value->kind == WIRE_DOUBLES;
        value->width = is_float ? wire_width(value->kind) : widths[next_below(in, 4)];
        value->is_signed = next_byte(in) % 2;
        held->numbers = exact_room(count * (size_t)value->width);
        for (size_t i = 0; i < count; i++) {
            const uint64_t number = is_float ? next_bytes(in, value->width) : (uint64_t)next_number(in);
            memcpy(held->numbers + i * (size_t)value->width, &number, (size_t)value->width);
        }
    }
    value->numbers = held->numbers;
    value->blobs = held->blobs;
}

static int64_t take_features(input *in, wire_shape shape, wire_value *values, content *held) {
    const int64_t n = next_below(in, MOST + 1);
    for (int64_t i = 0; i < n; i++) {
        wire_value *value = &values[i];
        held[i].name = (uint8_t)('a' + i);
        value->name = (wire_span){&held[i].name, &held[i].name + 1};
        value->part = shape == WIRE_SEQUENCE_EXAMPLE && next_byte(in) % 4 == 0;
        value->kind = value->part == 1 ? WIRE_STEPS : WIRE_BYTES + (int)next_below(in, WIRE_STEPS);
        if (value->kind != WIRE_STEPS && !wire_has_lists(shape, value->kind)) {
            value->kind = WIRE_INTEGERS;
        }
        take_values(in, value, &held[i]);
    }
    return n;
}

static void check_numbers(wire_shape shape, const uint8_t *record, int64_t size, const wire_feature *found,
                          const wire_value *value) {
    const int64_t width = wire_width(value->kind), n_bytes = value->count * width;
    uint8_t *out = exact_room((size_t)n_bytes);
    CHECK(wire_numbers(shape, record, size, found, 1, value->kind, out, n_bytes, wire_choose_block()) == -1);
    for (int64_t i = 0; i < value->count; i++) {
        const uint64_t number = integer_of(value, i); /* of floats: their bits */
        CHECK(memcmp(out + i * width, &number, (size_t)width) == 0);
    }
    free(out);
}

static void check_blobs(wire_shape shape, const uint8_t *record, int64_t size, const wire_feature *found,
                        const wire_value *value) {
    const size_t n_bytes = (size_t)value->count * 8;
    int64_t *starts = exact_room(n_bytes), *lengths = exact_room(n_bytes);
    CHECK(wire_places(shape, record, size, found, 1, starts, lengths, value->count) == -1);
    for (int64_t i = 0; i < value->count; i++) {
        const wire_span blob = value->blobs[i];
        CHECK(lengths[i] == blob.end - blob.at);
        CHECK(lengths[i] == 0 || memcmp(record + starts[i], blob.at, (size_t)lengths[i]) == 0);
    }
    free(starts);
    free(lengths);
}

static void check_found(wire_shape shape, const uint8_t *record, int64_t size, const wire_value *values, int64_t n) {
    uint8_t letters[MOST], parts[MOST], stray;
    int64_t ends[MOST], sorted[MOST], after[2 * MOST + 1];
    const int64_t start = 0;
    wire_feature found[MOST];
    for (int64_t i = 0; i < n; i++) {
        letters[i] = *values[i].name.at;
        parts[i] = (uint8_t)values[i].part;
        ends[i] = i + 1;
    }
    const wire_names names = {letters, ends, parts, n, n, sorted};
    wire_sort_names(&names, sorted);
    CHECK(wire_find(shape, record, size, &start, &size, 1, &names, after, found, &stray) == -1 && !stray);
    for (int64_t i = 0; i < n; i++) {
        if (values[i].kind == WIRE_STEPS) {
            CHECK(found[i].kind == (values[i].part == 1 ? WIRE_STEPS : WIRE_MISSING));
            continue;
        }
        CHECK(found[i].kind == values[i].kind && found[i].count == values[i].count);
        (values[i].kind == WIRE_BYTES ? check_blobs : check_numbers)(shape, record, size, &found[i], &values[i]);
    }
}

/* Change an integer of a feature. Return its number, or -1. */
static int64_t change(input *in, wire_value *values, content *held, int64_t n) {
    const int64_t i = n > 0 ? next_below(in, n) : 0;
    if (n == 0 || is_blobs(&values[i]) || values[i].count == 0) {
        return -1;
    }
    const uint64_t number = (uint64_t)next_number(in);
    memcpy(held[i].numbers + next_below(in, values[i].count) * values[i].width, &number, (size_t)values[i].width);
    return i;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    const wire_shape shape = (wire_shape)next_below(&in, WIRE_SHAPES);
    const int changes = next_byte(&in) % 2;
    wire_value values[MOST];
    content held[MOST];
    memset(values, 0, sizeof values);
    memset(held, 0, sizeof held);
    const int64_t n = take_features(&in, shape, values, held), n_bytes = wire_write_size(shape, values, n);
    uint8_t *record = exact_room((size_t)n_bytes);
    const int64_t changed = changes ? change(&in, values, held, n) : -1;
    const int64_t failed = wire_write(shape, values, n, record);
    CHECK(failed == -1 || failed == changed);
    if (failed < 0) {
        check_found(shape, record, n_bytes, values, n);
    }
    for (int64_t i = 0; i < n; i++) {
        free(held[i].numbers);
        free(held[i].blobs);
    }
    free(record);
    return 0;
}
