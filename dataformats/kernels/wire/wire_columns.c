#include "wire/wire_columns.h"

#include <string.h>

#include "wire/wire_reader.h"

/* ---- what fits */

#define NO_KIND ((int64_t)1 << (WIRE_ABSENT + 1) | (int64_t)1 << (WIRE_MISSING + 1))

/* Return the kind of features if they have only one, else WIRE_ABSENT. */
static int only_kind(int64_t kinds) {
    for (int kind = WIRE_BYTES; kind < WIRE_KINDS; kind++) {
        if (kinds == (int64_t)1 << (kind + 1)) {
            return kind;
        }
    }
    return WIRE_ABSENT;
}

static int is_unparsed(int kind) { return kind == WIRE_BYTES || kind == WIRE_FLOATS || kind == WIRE_DOUBLES; }

static int lies_in(const wire_feature *features, int64_t n_records, const int64_t *starts, const int64_t *lengths,
                   wire_slice slice) {
    for (int64_t i = 0; i < n_records; i++) {
        const int64_t begin = starts[i] + slice.begin + (slice.begin < 0 ? lengths[i] : 0);
        if (features[i].form != WIRE_VALUES || features[i].begin != begin ||
            features[i].end != begin + slice.n_bytes) {
            return 0;
        }
    }
    return 1;
}

/* Return whether numbers of a kind are exact in the target's type, or can be checked one by one. */
static int converts(int kind, const wire_target *target) {
    if (is_unparsed(kind)) {
        return target->letter == 'f' && target->width == wire_width(kind);
    }
    return target->letter != 'f';
}

static int have_bytes(const wire_feature *features, int64_t n_records, int64_t n_bytes) {
    for (int64_t i = 0; i < n_records; i++) {
        if (features[i].kind > WIRE_MISSING && features[i].end - features[i].begin != n_bytes) {
            return 0;
        }
    }
    return 1;
}

static int fits_dense(const wire_target *target, const wire_feature *features, int64_t n_records,
                      const wire_survey *survey, const wire_column *column) {
    if (column->kind == WIRE_BYTES) {
        return survey->least == 1 && survey->most == 1 && !(column->is_sliced && target->letter == 'b') &&
               have_bytes(features, n_records, target->size * target->width);
    }
    return converts(column->kind, target) && survey->least == target->size && survey->most == target->size;
}

static int fits_ragged(const wire_target *target, const wire_feature *features, int64_t n_records,
                       const wire_column *column) {
    if (column->kind == WIRE_BYTES || !converts(column->kind, target)) {
        return 0;
    }
    for (int64_t i = 0; target->size != 1 && i < n_records; i++) {
        if (features[i].count % target->size != 0) {
            return 0;
        }
    }
    return 1;
}

static int64_t bytes_in(const wire_feature *features, int64_t n_records) {
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < n_records; i++) {
        n_bytes += features[i].end - features[i].begin;
    }
    return n_bytes;
}

static void fit(const wire_target *target, const wire_feature *features, int64_t n_records,
                const wire_survey *survey, wire_column *column) {
    const int is_one_value = column->kind == WIRE_BYTES && survey->least == 1 && survey->most == 1;
    switch (target->output) {
    case WIRE_DENSE:
        column->fits = fits_dense(target, features, n_records, survey, column);
        column->values = n_records;
        column->n_bytes = column->fits ? n_records * target->size * target->width : 0;
        return;
    case WIRE_RAGGED:
        column->fits = fits_ragged(target, features, n_records, column);
        column->values = survey->total / target->size;
        column->n_bytes = column->fits ? survey->total * target->width : 0;
        return;
    case WIRE_JOINED:
    case WIRE_TEXT:
        column->fits = is_one_value && !(column->is_sliced && target->output == WIRE_TEXT);
        column->values = column->n_bytes = is_one_value ? bytes_in(features, n_records) : 0;
        return;
    case WIRE_PLACED:
        column->fits = is_one_value && !column->is_sliced;
        column->values = n_records;
        column->n_bytes = n_records * 8;
        return;
    default:
        return;
    }
}

void wire_columns_fit(const wire_target *targets, int64_t n_targets, const wire_feature *features, int64_t n_records,
                      const int64_t *starts, const int64_t *lengths, wire_slice slice, wire_column *columns) {
    int is_found = slice.n_bytes == 0;
    for (int64_t i = 0; i < n_targets; i++, features += n_records) {
        const wire_survey survey = wire_survey_of(features, n_records);
        wire_column *column = &columns[i];
        const int64_t ignored = targets[i].may_lack ? NO_KIND : 0;
        *column = (wire_column){.kind = only_kind(survey.kinds & ~ignored), .lacks = (survey.kinds & ignored) != 0};
        column->is_sliced = !is_found && is_unparsed(column->kind) && survey.least > 0 &&
                           lies_in(features, n_records, starts, lengths, slice);
        is_found |= column->is_sliced;
        if (column->kind != WIRE_ABSENT) {
            fit(&targets[i], features, n_records, &survey, column);
        }
    }
}

/* ---- filling */

static wire_range range_of(const wire_target *target) {
    const int bits = target->width * 8;
    if (target->letter == 'b') {
        return (wire_range){0, 1, 1};
    }
    if (target->letter == 'u') { /* from lists, whose integers end before 2^63 */
        return (wire_range){0, bits == 64 ? INT64_MAX : ((int64_t)1 << bits) - 1, target->width};
    }
    const int64_t most = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    return (wire_range){-most - 1, most, target->width};
}

wire_dense wire_dense_of(const wire_target *target, uint8_t *values, uint8_t *present) {
    const int kind = target->letter != 'f' ? WIRE_INTEGERS : target->width == 4 ? WIRE_FLOATS : WIRE_ABSENT;
    return (wire_dense){target, range_of(target), target->size * target->width, target->size == 1 ? kind : WIRE_ABSENT,
                        values, present};
}

static void write_offsets(const wire_target *target, const wire_feature *features, int64_t n_records,
                          int64_t *offsets) {
    const int joined = target->output != WIRE_RAGGED;
    offsets[0] = 0;
    for (int64_t i = 0; i < n_records; i++) {
        offsets[i + 1] = offsets[i] + (joined ? features[i].end - features[i].begin
                                              : target->size == 1 ? features[i].count
                                                                  : features[i].count / target->size);
    }
}

#define SHORT 16

/* The one bytes value of each record, back to back. */
static int join(const uint8_t *buffer, int64_t n_bytes, const wire_feature *features, int64_t n_records,
                uint8_t *out, const uint8_t *end) {
    for (int64_t i = 0; i < n_records; i++) {
        const int64_t begin = features[i].begin, length = features[i].end - begin;
        if (begin < 0 || length < 0 || features[i].end > n_bytes || length > end - out) {
            return 0;
        }
        if (length <= SHORT && end - out >= SHORT && n_bytes - begin >= SHORT) {
            memcpy(out, buffer + begin, SHORT); /* without a call; the next value overwrites the rest */
        } else if (length > 0) {
            memcpy(out, buffer + begin, (size_t)length);
        }
        out += length;
    }
    return out == end;
}

/* Return the bits that any of these bytes has. */
static int bits_in(const uint8_t *bytes, int64_t n_bytes) {
    uint8_t bits = 0;
    for (int64_t i = 0; i < n_bytes; i++) {
        bits |= bytes[i];
    }
    return bits;
}

/* Return whether each value is UTF-8, not only all together. */
static int are_texts(const uint8_t *values, int64_t n_bytes, const int64_t *offsets, int64_t n_records) {
    if (bits_in(values, n_bytes) < 0x80) {
        return 1;
    }
    for (int64_t i = 0; i < n_records; i++) {
        if (!wire_is_utf8(values + offsets[i], (size_t)(offsets[i + 1] - offsets[i]))) {
            return 0;
        }
    }
    return 1;
}

/* Return whether joined values are of the target's type. */
static int are_valid(const wire_target *target, const uint8_t *values, int64_t n_bytes, const int64_t *offsets,
                     int64_t n_records) {
    if (target->output == WIRE_TEXT) {
        return are_texts(values, n_bytes, offsets, n_records);
    }
    return target->output == WIRE_JOINED || target->letter != 'b' || bits_in(values, n_bytes) <= 1;
}

static void write_places(const wire_feature *features, int64_t n_records, int64_t *starts, int64_t *lengths) {
    for (int64_t i = 0; i < n_records; i++) {
        starts[i] = features[i].begin;
        lengths[i] = features[i].end - features[i].begin;
    }
}

void wire_write_present(const wire_feature *features, int64_t n_records, uint8_t *present) {
    for (int64_t i = 0; i < n_records; i++) {
        present[i] = features[i].kind > WIRE_MISSING;
    }
}

/* Values of features that all have one. */
static int fill_values(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_target *target,
                       const wire_feature *features, int64_t n_records, const wire_column *column, uint8_t *values,
                       const int64_t *offsets, wire_block_kernel *block) {
    if (column->kind == WIRE_BYTES) {
        return join(buffer, n_bytes, features, n_records, values, values + column->n_bytes) &&
               are_valid(target, values, column->n_bytes, offsets, n_records);
    }
    const int is_any = target->letter == 'i' && target->width == 8 && column->kind == WIRE_INTEGERS;
    if (is_any || is_unparsed(column->kind)) {
        return wire_numbers(shape, buffer, n_bytes, features, n_records, column->kind, values, column->n_bytes,
                            block) < 0;
    }
    return wire_integers(shape, buffer, n_bytes, features, n_records, column->kind, range_of(target), values,
                         column->n_bytes, block) < 0;
}

/* A column of WIRE_DENSE with gaps. */
static int fill_rows(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_target *target,
                     const wire_feature *features, int64_t n_records, const wire_column *column, uint8_t *values,
                     wire_block_kernel *block) {
    wire_column row = *column;
    row.n_bytes = target->size * target->width;
    memset(values, 0, (size_t)column->n_bytes);
    for (int64_t i = 0; i < n_records; i++, values += row.n_bytes) {
        if (features[i].kind > WIRE_MISSING &&
            !fill_values(shape, buffer, n_bytes, target, features + i, 1, &row, values, NULL, block)) {
            return 0;
        }
    }
    return 1;
}

int wire_column_fill(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_target *target,
                     const wire_feature *features, int64_t n_records, const wire_column *column, void *values,
                     int64_t *offsets, wire_block_kernel *block) {
    if (target->output == WIRE_PLACED) {
        write_places(features, n_records, values, offsets);
        return 1;
    }
    if (target->output != WIRE_DENSE) {
        write_offsets(target, features, n_records, offsets);
    }
    if (column->is_sliced) {
        return 1;
    }
    if (target->output == WIRE_DENSE && column->lacks) {
        return fill_rows(shape, buffer, n_bytes, target, features, n_records, column, values, block);
    }
    return fill_values(shape, buffer, n_bytes, target, features, n_records, column, values, offsets, block);
}
