/* The checks of the three fuzz targets of the wire parser, one shape each: the input is one record, and also a table
 * of invented features. Copies have their exact size, so that AddressSanitizer sees every byte read beyond it. */
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"
#include "wire/wire_columns.h"
#include "wire/wire_write.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())

static void *exact_copy(const void *bytes, size_t n_bytes) {
    void *copy = malloc(n_bytes);
    CHECK(copy != NULL || n_bytes == 0);
    if (n_bytes > 0) {
        memcpy(copy, bytes, n_bytes);
    }
    return copy;
}

static void *exact_room(size_t n_bytes) {
    void *room = malloc(n_bytes);
    CHECK(room != NULL || n_bytes == 0);
    return room;
}

/* Take the values of features out. Those that were found come out whole; of others, nothing is known. */
static void take_out(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features, int64_t n,
                     int were_found);

static void take_kind(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features, int64_t n,
                      int kind, int64_t count, int were_found) {
    const int width = kind == WIRE_INTEGERS || kind == WIRE_DOUBLES ? 8 : 4;
    int64_t result;
    if (kind == WIRE_BYTES) {
        int64_t *starts = exact_room((size_t)count * 8), *lengths = exact_room((size_t)count * 8);
        result = wire_places(shape, buffer, n_bytes, features, n, starts, lengths, count);
        for (int64_t i = 0; result < 0 && i < count; i++) {
            CHECK(starts[i] >= 0 && lengths[i] >= 0 && starts[i] + lengths[i] <= n_bytes);
        }
        free(starts);
        free(lengths);
    } else if (kind == WIRE_STEPS) {
        wire_feature *steps = exact_room((size_t)count * sizeof *steps);
        result = wire_steps(shape, buffer, n_bytes, features, n, steps, count);
        if (result < 0) {
            take_out(shape, buffer, n_bytes, steps, count, were_found);
        }
        free(steps);
    } else {
        uint8_t *out = exact_room((size_t)(count * width));
        result = wire_numbers(shape, buffer, n_bytes, features, n, kind, out, count * width);
        free(out);
    }
    CHECK(!were_found || result == -1);
}

static void take_out(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features, int64_t n,
                     int were_found) {
    for (int64_t i = 0; i < n; i++) {
        const wire_survey survey = wire_survey_of(&features[i], 1);
        const int64_t count = features[i].count;
        if (features[i].kind > WIRE_MISSING && features[i].kind <= WIRE_STEPS && count >= 0 &&
            (were_found || count < 1000)) {
            CHECK(survey.total == count);
            take_kind(shape, buffer, n_bytes, &features[i], 1, (int)features[i].kind, count, were_found);
        }
    }
}

/* Turn a feature that was found into one to be written; numbers and blobs go to `room` and `blobs`. */
static wire_value as_value(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *feature,
                           wire_span name, uint8_t *room, wire_span *blobs) {
    const int kind = (int)feature->kind, width = kind == WIRE_INTEGERS || kind == WIRE_DOUBLES ? 8 : 4;
    wire_value value = {.name = name, .kind = kind, .blobs = blobs, .numbers = room, .count = feature->count};
    value.width = width;
    value.is_signed = 1;
    if (kind == WIRE_BYTES) {
        int64_t *starts = exact_room((size_t)feature->count * 8), *lengths = exact_room((size_t)feature->count * 8);
        CHECK(wire_places(shape, buffer, n_bytes, feature, 1, starts, lengths, feature->count) == -1);
        for (int64_t i = 0; i < feature->count; i++) {
            blobs[i] = (wire_span){buffer + starts[i], buffer + starts[i] + lengths[i]};
        }
        free(starts);
        free(lengths);
    } else {
        CHECK(wire_numbers(shape, buffer, n_bytes, feature, 1, kind, room, feature->count * width) == -1);
    }
    return value;
}

/* What was found and is written again is found again, with the same values. */
static void check_round_trip(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *feature) {
    static const uint8_t letter[] = "a", part = 0;
    static const int64_t end = 1, start = 0;
    if (feature->kind <= WIRE_MISSING || feature->kind >= WIRE_STEPS) {
        return;
    }
    const size_t room_bytes = (size_t)feature->count * 8;
    uint8_t *room = exact_room(room_bytes), *again = exact_room(room_bytes), stray;
    wire_span *blobs = exact_room((size_t)feature->count * sizeof *blobs);
    wire_value value = as_value(shape, buffer, n_bytes, feature, (wire_span){letter, letter + 1}, room, blobs);
    const int64_t size = wire_write_size(shape, &value, 1);
    uint8_t *record = exact_room((size_t)size);
    CHECK(wire_write(shape, &value, 1, record) == -1);
    wire_feature found;
    int64_t after[2];
    const wire_names names = {letter, &end, &part, 1, 1, &start};
    CHECK(wire_find(shape, record, size, &start, &size, 1, &names, after, &found, &stray) == -1);
    CHECK(found.kind == feature->kind && found.count == feature->count && !stray);
    if (value.kind == WIRE_BYTES) {
        wire_span *back = exact_room((size_t)feature->count * sizeof *back);
        as_value(shape, record, size, &found, value.name, again, back);
        for (int64_t i = 0; i < feature->count; i++) {
            const size_t n = (size_t)(blobs[i].end - blobs[i].at);
            CHECK(n == (size_t)(back[i].end - back[i].at) && (n == 0 || memcmp(blobs[i].at, back[i].at, n) == 0));
        }
        free(back);
    } else {
        as_value(shape, record, size, &found, value.name, again, NULL);
        CHECK(value.count == 0 || memcmp(room, again, (size_t)(value.count * value.width)) == 0);
    }
    free(record);
    free(blobs);
    free(again);
    free(room);
}

/* A column that fits has room for all of it, and is filled unless a number does not fit. */
static void check_column(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *feature,
                         wire_target target, wire_slice slice) {
    const int64_t start = 0;
    wire_column column;
    wire_columns_fit(&target, 1, feature, 1, &start, &n_bytes, slice, &column);
    if (!column.fits) {
        return;
    }
    CHECK(column.n_bytes >= 0 && column.n_bytes <= 8 * (n_bytes + 1) && !(column.is_sliced && slice.n_bytes == 0));
    void *values = column.is_sliced ? NULL : exact_room((size_t)column.n_bytes);
    int64_t *offsets = target.output == WIRE_DENSE ? NULL : exact_room(target.output == WIRE_PLACED ? 8 : 16);
    const int filled = wire_column_fill(shape, buffer, n_bytes, &target, feature, 1, &column, values, offsets);
    const int is_exact = column.kind == WIRE_BYTES ? target.letter != 'b' : target.letter == 'f';
    CHECK(filled || !is_exact);
    free(offsets);
    free(values);
}

static void check_columns(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *feature) {
    static const char letters[] = "biiiiuuuufff";
    static const int widths[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8};
    const wire_slice windows[] = {{0, 0}, {feature->begin, feature->end - feature->begin}};
    for (int output = WIRE_AS_FOUND; output < WIRE_OUTPUTS; output++) {
        for (int type = 0; type < 12; type++) {
            for (int64_t size = 1; size < 4; size++) {
                const wire_target target = {(wire_output)output, letters[type], widths[type], size};
                check_column(shape, buffer, n_bytes, feature, target, windows[0]);
                check_column(shape, buffer, n_bytes, feature, target, windows[1]);
            }
        }
    }
}

static void check_record(wire_shape shape, const uint8_t *data, size_t size) {
    /* "a", "bb", "c" and in the lists "a", "bb" are wanted; the name "" is only known. */
    static const uint8_t one_part[] = "abbc", two_parts[] = "abbcabb", parts[] = {0, 0, 0, 1, 1, 0}, zeros[] = {0, 0, 0, 0};
    static const int64_t one_ends[] = {1, 3, 4, 4}, two_ends[] = {1, 3, 4, 5, 7, 7};
    int64_t sorted[6];
    wire_names names = shape == WIRE_SEQUENCE_EXAMPLE ? (wire_names){two_parts, two_ends, parts, 6, 5, sorted}
                                                      : (wire_names){one_part, one_ends, zeros, 4, 3, sorted};
    wire_sort_names(&names, sorted);
    const int64_t start = 0, length = (int64_t)size;
    uint8_t *buffer = exact_copy(data, size), stray;
    wire_feature features[6];
    int64_t after[7];
    const int64_t failed =
        wire_find(shape, buffer, length, &start, &length, 1, &names, after, features, &stray);
    CHECK(failed == -1 || failed == 0);
    if (failed < 0) {
        take_out(shape, buffer, length, features, names.n_wanted, 1);
        for (int64_t i = 0; i < names.n_wanted; i++) {
            check_round_trip(shape, buffer, length, &features[i]);
            check_columns(shape, buffer, length, &features[i]);
        }
    }
    free(buffer);
}

/* The first row's worth of bytes is a feature that may point anywhere into the rest. */
static void check_table(wire_shape shape, const uint8_t *data, size_t size) {
    wire_feature feature;
    if (size < sizeof feature) {
        return;
    }
    memcpy(&feature, data, sizeof feature);
    uint8_t *buffer = exact_copy(data + sizeof feature, size - sizeof feature);
    take_out(shape, buffer, (int64_t)(size - sizeof feature), &feature, 1, 0);
    free(buffer);
}
