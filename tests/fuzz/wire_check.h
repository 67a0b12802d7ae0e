/* What the three fuzz targets of the wire parser check, for one shape each: the input is one record, and also a
 * table of features that nobody has found. Copies have their exact size, so that AddressSanitizer sees every
 * byte read beyond it. */
#include <stdlib.h>
#include <string.h>

#include "wire.h"

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

static void check_record(wire_shape shape, const uint8_t *data, size_t size) {
    static const uint8_t letters[] = "abbc", parts[] = {0, 0, 0, 0, 1, 1};
    static const int64_t ends[] = {1, 3, 4, 4, 4, 4};
    const int64_t start = 0, length = (int64_t)size;
    wire_names names = {letters, ends, parts, 4, 3}; /* wanted are "a", "bb", "c"; "" is only known */
    static const int64_t sequence_ends[] = {1, 3, 4, 5, 7, 7};
    static const uint8_t sequence_letters[] = "abbcabb";
    if (shape == WIRE_SEQUENCE_EXAMPLE) {
        static const uint8_t sequence_parts[] = {0, 0, 0, 1, 1, 1};
        names = (wire_names){sequence_letters, sequence_ends, sequence_parts, 6, 5};
    }
    uint8_t *buffer = exact_copy(data, size), stray;
    wire_feature features[6];
    int64_t after[7];
    const int64_t failed =
        wire_find(shape, buffer, length, &start, &length, 1, &names, after, features, &stray);
    CHECK(failed == -1 || failed == 0);
    if (failed < 0) {
        take_out(shape, buffer, length, features, names.n_wanted, 1);
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
