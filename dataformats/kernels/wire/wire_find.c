/* Parses all records once, and finds the places of features. */
#include "wire/wire.h"
#include "wire/wire_names.h"
#include "wire/wire_walk.h"

typedef struct {
    wire_shape shape;
    const uint8_t *buffer;
    const wire_names *names;
    int64_t *after; /* the name that followed each one last time: records mostly have the same order */
    wire_feature *features;
    uint8_t *strays;
    int64_t n_records;
    int64_t record, last; /* the record, and the name found last; n_names at its begin */
} finder;

/* Return the number of a name, or -1. */
static int64_t look_up(finder *f, int part, wire_span name) {
    int64_t i = f->after[f->last];
    if (i < 0 || !wire_is_called(f->names, i, part, name)) {
        i = wire_search(f->names, part, name);
        if (i < 0) {
            return -1;
        }
        f->after[f->last] = i;
    }
    f->last = i;
    return i;
}

/* Parse a FeatureList, and count its steps. */
static int walk_steps(const finder *f, wire_span list, int64_t *n_steps) {
    const int depth = wire_feature_depth(f->shape);
    wire_span step;
    int more;
    while ((more = wire_next_step(&list, depth, &step)) > 0) {
        wire_run run = {0};
        if (!wire_walk_feature(f->shape, step, depth - 1, &run)) {
            return 0;
        }
        ++*n_steps;
    }
    return more == 0;
}

/* An entry of a map, as far as it is parsed. */
typedef struct {
    int64_t name;     /* its number, or -1 */
    int has_name, is_whole, has_value;
    int64_t n_steps;
    wire_run run;
} entry;

static int take_name(finder *f, int part, wire_span name, entry *found) {
    found->has_name = 1;
    found->name = look_up(f, part, name);
    return found->name >= 0 || wire_is_utf8(name.at, (size_t)(name.end - name.at));
}

static int take_value(const finder *f, int part, wire_span value, entry *found) {
    found->has_value |= value.at < value.end;
    if (part == 1) {
        return walk_steps(f, value, &found->n_steps);
    }
    return wire_walk_feature(f->shape, value, wire_feature_depth(f->shape), &found->run);
}

static void note(finder *f, int part, wire_span whole, const entry *found) {
    if (found->name < 0) {
        f->strays[f->record] |= (uint8_t)(part == 1 || found->has_value);
    } else if (found->name < f->names->n_wanted) {
        wire_feature *feature = &f->features[found->name * f->n_records + f->record];
        if (part == 1) {
            *feature = (wire_feature){whole.at - f->buffer, whole.end - f->buffer, found->n_steps, WIRE_STEPS,
                                      WIRE_ENTRY, 0};
        } else {
            *feature = wire_feature_of(&found->run, f->buffer, WIRE_ENTRY, whole);
        }
    }
}

static int walk_entry(finder *f, int part, wire_span span) {
    const wire_span whole = span;
    entry found = {.is_whole = 1};
    while (span.at < span.end) {
        uint32_t tag;
        wire_span inner;
        if (!wire_tag(&span, &tag)) {
            return 0;
        }
        if (tag != WIRE_TAG(1, WIRE_DELIMITED) && tag != WIRE_TAG(2, WIRE_DELIMITED)) {
            found.is_whole = 0;
            if (!wire_skip(&span, tag, wire_feature_depth(f->shape) + 1)) {
                return 0;
            }
            continue;
        }
        if (!wire_delimited(&span, &inner) || !(tag == WIRE_TAG(1, WIRE_DELIMITED)
                                                    ? take_name(f, part, inner, &found)
                                                    : take_value(f, part, inner, &found))) {
            return 0;
        }
    }
    if (found.is_whole) {
        if (!found.has_name) {
            found.name = look_up(f, part, (wire_span){whole.at, whole.at});
        }
        note(f, part, whole, &found);
    }
    return 1;
}

/* Parse a message whose field 1 is a map. */
static int walk_map(finder *f, int part, wire_span map) {
    while (map.at < map.end) {
        uint32_t tag;
        wire_span inner;
        if (!wire_tag(&map, &tag)) {
            return 0;
        }
        if (tag == WIRE_TAG(1, WIRE_DELIMITED) ? !wire_delimited(&map, &inner) || !walk_entry(f, part, inner)
                                               : !wire_skip(&map, tag, wire_feature_depth(f->shape) + 2)) {
            return 0;
        }
    }
    return 1;
}

static int walk_record(finder *f, wire_span record) {
    const uint32_t n_parts = f->shape == WIRE_SEQUENCE_EXAMPLE ? 2 : 1;
    f->last = f->names->n_names;
    if (f->shape == WIRE_OFRECORD) {
        return walk_map(f, 0, record);
    }
    while (record.at < record.end) {
        uint32_t tag;
        wire_span map;
        if (!wire_tag(&record, &tag)) {
            return 0;
        }
        if ((tag & 7) == WIRE_DELIMITED && tag >> 3 <= n_parts
                ? !wire_delimited(&record, &map) || !walk_map(f, (int)(tag >> 3) - 1, map)
                : !wire_skip(&record, tag, WIRE_DEPTH)) {
            return 0;
        }
    }
    return 1;
}

int64_t wire_find(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                  const int64_t *lengths, int64_t n_records, const wire_names *names, int64_t *after,
                  wire_feature *features, uint8_t *strays) {
    finder f = {shape, buffer, names, after, features, strays, n_records, 0, 0};
    for (int64_t i = 0; i <= names->n_names; i++) {
        after[i] = -1;
    }
    for (int64_t i = 0; i < names->n_wanted * n_records; i++) {
        features[i] = (wire_feature){0, 0, 0, WIRE_ABSENT, WIRE_VALUES, 0};
    }
    for (; f.record < n_records; f.record++) {
        const int64_t start = starts[f.record], length = lengths[f.record];
        strays[f.record] = 0;
        if (start < 0 || length < 0 || start > n_bytes || length > n_bytes - start ||
            !walk_record(&f, (wire_span){buffer + start, buffer + start + length})) {
            return f.record;
        }
    }
    return -1;
}

wire_survey wire_survey_of(const wire_feature *features, int64_t n_features) {
    wire_survey survey = {0, INT64_MAX, 0, 0};
    for (int64_t i = 0; i < n_features; i++) {
        const int64_t count = features[i].count;
        if (features[i].kind >= WIRE_ABSENT && features[i].kind <= WIRE_STEPS) {
            survey.kinds |= (int64_t)1 << (features[i].kind + 1);
        }
        if (features[i].kind > WIRE_MISSING) {
            survey.least = count < survey.least ? count : survey.least;
            survey.most = count > survey.most ? count : survey.most;
            survey.total = (int64_t)((uint64_t)survey.total + (uint64_t)count);
        }
    }
    survey.least = survey.least == INT64_MAX ? 0 : survey.least;
    return survey;
}
