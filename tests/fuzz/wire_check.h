/* The checks of the three fuzz targets of the wire parser, one shape each: the input is a record, a batch of records,
 * and a table of invented features. */
#include "fuzz.h"
#include "wire/wire.h"
#include "wire/wire_columns.h"
#include "wire/wire_write.h"

/* Take the values of features out. Those that were found come out whole; of others, nothing is known. */
static void take_out(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features, int64_t n,
                     int were_found);

/* Integers that fit a narrow column; sometimes it has a byte too little. */
static void take_integers(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                          int64_t n, int kind, int64_t count) {
    const int width = 1 << (n_bytes & 3);
    if (kind == WIRE_INTEGERS || kind == WIRE_INT32S) {
        const int64_t n_out = count * width - (count > 0 && (n_bytes & 4) != 0);
        uint8_t *out = exact_room((size_t)n_out);
        wire_integers(shape, buffer, n_bytes, features, n, kind, (wire_range){-100, 100, width}, out, n_out,
                      wire_choose_block());
        free(out);
    }
}

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
        const size_t n_out = (size_t)(count * width);
        uint8_t *out = exact_room(n_out), *again = exact_room(n_out);
        result = wire_numbers(shape, buffer, n_bytes, features, n, kind, out, count * width, wire_choose_block());
        CHECK(result == wire_numbers(shape, buffer, n_bytes, features, n, kind, again, count * width,
                                     wire_block_portable));
        CHECK(result >= 0 || memcmp(out, again, n_out) == 0);
        free(again);
        free(out);
        take_integers(shape, buffer, n_bytes, features, n, kind, count);
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
        CHECK(wire_numbers(shape, buffer, n_bytes, feature, 1, kind, room, feature->count * width,
                           wire_choose_block()) == -1);
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
    int64_t after[3];
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

#define MOST_RECORDS 3
#define MOST_NAMES 13

/* A batch of records: the input, and parts of it. */
typedef struct {
    const uint8_t *buffer;
    int64_t n_bytes, n, starts[MOST_RECORDS], lengths[MOST_RECORDS];
} records;

static records records_of(const uint8_t *buffer, int64_t size, uint64_t choice) {
    records made = {buffer, size, 1 + (int64_t)(choice % MOST_RECORDS), {0}, {size}};
    const int64_t cut = size * (int64_t)(choice >> 8 & 255) / 255;
    for (int i = 1; i < MOST_RECORDS; i++) { /* the whole again, or what lies before or behind the cut */
        const uint64_t part = choice >> (16 + 2 * i) & 3;
        made.starts[i] = part == 0 ? cut : 0;
        made.lengths[i] = part == 0 ? size - cut : part == 1 ? cut : size;
    }
    return made;
}

/* Return whether the values of all features are exactly the slice. */
static int is_everywhere(const records *batch, const wire_feature *features, wire_slice slice) {
    for (int64_t i = 0; i < batch->n; i++) {
        const int64_t from = batch->starts[i] + (slice.begin < 0 ? batch->lengths[i] : 0);
        if (features[i].begin != from + slice.begin || features[i].end != features[i].begin + slice.n_bytes) {
            return 0;
        }
    }
    return slice.n_bytes > 0;
}

/* A column that fits has room for all of it, and is filled unless a number does not fit. */
static void check_column(wire_shape shape, const records *batch, const wire_feature *features, wire_target target,
                         wire_slice slice) {
    wire_column column;
    wire_columns_fit(&target, 1, features, batch->n, batch->starts, batch->lengths, slice, &column);
    if (!column.fits) {
        return;
    }
    CHECK(column.n_bytes >= 0 && column.n_bytes <= 8 * (batch->n_bytes + 1) * batch->n);
    CHECK(!column.is_sliced || is_everywhere(batch, features, slice));
    const size_t n_offsets = (size_t)(target.output == WIRE_DENSE ? 0 : batch->n + (target.output != WIRE_PLACED));
    void *values = column.is_sliced ? NULL : exact_room((size_t)column.n_bytes);
    int64_t *offsets = exact_room(n_offsets * 8);
    const int filled = wire_column_fill(shape, batch->buffer, batch->n_bytes, &target, features, batch->n, &column,
                                        values, offsets, wire_choose_block());
    const int is_exact =
        column.kind == WIRE_BYTES ? target.letter != 'b' && target.output != WIRE_TEXT : target.letter == 'f';
    CHECK(filled || !is_exact);
    free(offsets);
    free(values);
}

/* One of all columns, from the features alone, and with the values of the first, more or less, in a slice. */
static void check_columns(wire_shape shape, const records *batch, const wire_feature *features, uint64_t choice) {
    static const char letters[] = "biiiiuuuufff";
    static const int widths[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8};
    const wire_output output = (wire_output)(choice % WIRE_OUTPUTS);
    const size_t type = (choice >> 8) % 12;
    const int may_lack = output != WIRE_PLACED && (choice >> 27 & 1);
    const wire_target target = {output, letters[type], widths[type], 1 + (int64_t)(choice >> 16) % 3, may_lack};
    const int64_t begin = features->begin - (choice >> 20 & 1 ? batch->lengths[0] : 0); /* from its end */
    const int64_t n_bytes = features->end - features->begin + ((choice >> 21 & 7) == 0);
    check_column(shape, batch, features, target, (wire_slice){0, 0});
    check_column(shape, batch, features, target, (wire_slice){begin + ((choice >> 24 & 7) == 0), n_bytes});
}

/* A column that is filled while records are parsed has the values that it has when it is filled afterwards. */
static void check_dense(wire_shape shape, const records *batch, const wire_names *names, const wire_feature *features,
                        int64_t name, uint64_t choice) {
    static const char letters[] = "biiuuff";
    static const int widths[] = {1, 4, 8, 1, 8, 4, 8};
    const wire_target target = {WIRE_DENSE, letters[choice % 7], widths[choice % 7], 1 + (int64_t)(choice >> 8) % 3,
                                (int)(choice >> 12 & 1)};
    const size_t n_bytes = (size_t)(batch->n * target.size * target.width);
    uint8_t *values = exact_room(n_bytes), *expected = exact_room(n_bytes), strays[MOST_RECORDS];
    uint8_t *present = exact_room((size_t)batch->n);
    int64_t scratch[2 * MOST_NAMES + 1];
    wire_feature others[MOST_NAMES * MOST_RECORDS];
    wire_dense dense[MOST_NAMES] = {{0}};
    dense[name] = wire_dense_of(&target, values, target.may_lack ? present : NULL);
    const int64_t failed = wire_find_dense(shape, batch->buffer, batch->n_bytes, batch->starts, batch->lengths,
                                           batch->n, names, dense, wire_choose_block(), scratch, others, strays);
    CHECK(failed == -1 || failed == batch->n);
    wire_column column;
    features += name * batch->n;
    wire_columns_fit(&target, 1, features, batch->n, batch->starts, batch->lengths, (wire_slice){0, 0}, &column);
    if (column.fits && wire_column_fill(shape, batch->buffer, batch->n_bytes, &target, features, batch->n, &column,
                                        expected, NULL, wire_choose_block())) {
        /* If a record has a name twice, the first value may not fit, and the last counts. */
        CHECK(failed != -1 || memcmp(values, expected, n_bytes) == 0);
    }
    for (int64_t i = 0; failed < 0 && i < batch->n; i++) {
        const int is_present = features[i].kind > WIRE_MISSING;
        CHECK(target.may_lack ? present[i] == is_present : is_present);
    }
    free(present);
    free(expected);
    free(values);
}

/* Records have the same features in a batch as alone. */
static void check_alone(wire_shape shape, const records *batch, const wire_names *names, int64_t failed,
                        const wire_feature *features, const uint8_t *strays) {
    int64_t after[2 * MOST_NAMES + 1];
    for (int64_t i = 0; i < (failed < 0 ? batch->n : failed + 1); i++) {
        wire_feature alone[MOST_NAMES];
        uint8_t stray;
        const int64_t found = wire_find(shape, batch->buffer, batch->n_bytes, &batch->starts[i], &batch->lengths[i], 1,
                                        names, after, alone, &stray);
        CHECK(found == (i == failed ? 0 : -1));
        for (int64_t name = 0; failed < 0 && name < names->n_wanted; name++) {
            CHECK(memcmp(&alone[name], &features[name * batch->n + i], sizeof *alone) == 0);
        }
        CHECK(failed >= 0 || stray == strays[i]);
    }
}

static void check_record(wire_shape shape, const uint8_t *data, size_t size) {
    /* In the lists "a" and "bb" are wanted, everywhere "a", "bb" and "c"; "" and "d" to "j" are only known. */
    static const uint8_t bytes[] = "abbabbcdefghij", parts[MOST_NAMES] = {1, 1};
    static const int64_t ends[] = {1, 3, 4, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14};
    static const int64_t fewer_ends[] = {1, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11};
    int64_t sorted[MOST_NAMES], after[2 * MOST_NAMES + 1];
    wire_names names = shape == WIRE_SEQUENCE_EXAMPLE
                           ? (wire_names){bytes, ends, parts, MOST_NAMES, 5, sorted}
                           : (wire_names){bytes + 3, fewer_ends, parts + 2, MOST_NAMES - 2, 3, sorted};
    wire_sort_names(&names, sorted);
    const uint64_t choice = choice_of(data, size);
    uint8_t *buffer = exact_copy(data, size), strays[MOST_RECORDS];
    const records batch = records_of(buffer, (int64_t)size, choice);
    wire_feature features[MOST_NAMES * MOST_RECORDS];
    const int64_t failed = wire_find(shape, buffer, batch.n_bytes, batch.starts, batch.lengths, batch.n, &names, after,
                                     features, strays);
    CHECK(failed >= -1 && failed < batch.n);
    if (batch.n > 1) {
        check_alone(shape, &batch, &names, failed, features, strays);
    }
    if (failed < 0) {
        take_out(shape, buffer, batch.n_bytes, features, names.n_wanted * batch.n, 1);
        for (int64_t i = 0; i < names.n_wanted; i++) {
            const int64_t kind = features[i * batch.n].kind;
            CHECK(kind == WIRE_ABSENT || (names.parts[i] == 1) == (kind == WIRE_STEPS));
            check_round_trip(shape, buffer, batch.n_bytes, &features[i * batch.n]);
            check_columns(shape, &batch, &features[i * batch.n], choice >> (24 + i));
            check_dense(shape, &batch, &names, features, i, choice >> (20 + i));
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
