/* Parses all records once, and finds the places of features. */
#include "wire/wire.h"
#include "wire/wire_columns.h"
#include "wire/wire_names.h"
#include "wire/wire_varints.h"
#include "wire/wire_walk.h"

typedef struct {
    wire_shape shape;
    const uint8_t *buffer;
    int64_t n_bytes;
    const wire_names *names;
    wire_block_kernel *block;
    const wire_dense *dense; /* NULL: all features go to rows */
    int64_t *after; /* the name that followed each one last time: records mostly have the same order */
    int64_t *seen;  /* the last record with each wanted name */
    wire_feature *features;
    uint8_t *strays;
    int64_t n_records;
    int64_t record, last; /* the record, and the name found last; n_names at its begin */
    int64_t n_seen;       /* wanted names in this record */
    int misfits;          /* 1: a dense column does not fit */
} finder;

/* ---- features that were found */

static int put_integer(const wire_dense *dense, uint64_t value, uint8_t *out) {
    if ((int64_t)value < dense->range.least || (int64_t)value > dense->range.most) {
        return 0;
    }
    switch (dense->range.width) {
    case 8:
        wire_store(out, value, 8);
        return 1;
    case 4:
        wire_store(out, value, 4);
        return 1;
    default:
        wire_store(out, value, dense->range.width);
        return 1;
    }
}

/* Write a feature to its column. Return 0 if it does not fit. */
static int put_dense(const finder *f, const wire_dense *dense, const wire_feature *found) {
    const wire_target *target = dense->target;
    uint8_t *out = dense->values + f->record * dense->row_bytes;
    if (dense->present != NULL) {
        dense->present[f->record] = found->kind > WIRE_MISSING;
    }
    if (found->kind <= WIRE_MISSING) {
        memset(out, 0, (size_t)dense->row_bytes);
        return dense->present != NULL;
    }
    if (target->size == 1 && found->count == 1 && found->form == WIRE_VALUES) {
        wire_span span = {f->buffer + found->begin, f->buffer + found->end};
        uint64_t value;
        if (found->kind == WIRE_INTEGERS && target->letter != 'f') {
            return wire_varint(&span, WIRE_VARINT_BYTES, &value) && put_integer(dense, value, out);
        }
        if (found->kind == WIRE_FLOATS && target->letter == 'f' && target->width == 4) {
            memcpy(out, span.at, 4);
            return 1;
        }
    }
    wire_column column;
    wire_columns_fit(target, 1, found, 1, NULL, NULL, (wire_slice){0, 0}, &column);
    return column.fits &&
           wire_column_fill(f->shape, f->buffer, f->n_bytes, target, found, 1, &column, out, NULL, f->block);
}

static inline const wire_dense *dense_of(const finder *f, int64_t name) {
    return f->dense != NULL && f->dense[name].values != NULL ? &f->dense[name] : NULL;
}

static inline void see(finder *f, int64_t name) {
    f->n_seen += f->seen[name] != f->record;
    f->seen[name] = f->record;
}

/* `found` is copied member by member: the processor would wait for a copy of wider words than were just written. */
static inline void put(finder *f, int64_t name, wire_feature found) {
    const wire_dense *dense = dense_of(f, name);
    see(f, name);
    if (dense == NULL) {
        wire_feature *row = &f->features[name * f->n_records + f->record];
        row->begin = found.begin;
        row->end = found.end;
        row->count = found.count;
        row->kind = found.kind;
        row->form = found.form;
        row->replaced = found.replaced;
    } else {
        const wire_feature copy = found;
        f->misfits |= !put_dense(f, dense, &copy);
    }
}

/* The record has no features of the other names. */
static void put_absent(finder *f) {
    for (int64_t name = 0; name < f->names->n_wanted; name++) {
        if (f->seen[name] == f->record) {
            continue;
        }
        put(f, name, (wire_feature){0, 0, 0, WIRE_ABSENT, WIRE_VALUES, 0});
    }
}

/* ---- entries as encoders write them */

static inline uint32_t half_word(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline int is_same(const uint8_t *a, const uint8_t *b, ptrdiff_t n_bytes) {
    if (n_bytes >= 8) {
        for (ptrdiff_t i = 0; i < n_bytes - 8; i += 8) {
            if (wire_word(a + i) != wire_word(b + i)) {
                return 0;
            }
        }
        return wire_word(a + n_bytes - 8) == wire_word(b + n_bytes - 8);
    }
    if (n_bytes >= 4) {
        return half_word(a) == half_word(b) && half_word(a + n_bytes - 4) == half_word(b + n_bytes - 4);
    }
    int differ = 0;
    for (ptrdiff_t i = 0; i < n_bytes; i++) {
        differ |= a[i] ^ b[i];
    }
    return !differ;
}

/* The bytes of such an entry, lowest first: tag, length, tag, length of the name; behind the name, tag, length, tag of
 * the list, length, tag, length. The numbers are of an entry without a name and without values. */
#define HEAD (WIRE_TAG(1, WIRE_DELIMITED) | WIRE_TAG(1, WIRE_DELIMITED) << 16)
#define HEAD_MASK 0xFFFF00FFu
#define VALUE (WIRE_TAG(2, WIRE_DELIMITED) | 4 << 8 | 2 << 24 | (uint64_t)WIRE_TAG(1, WIRE_DELIMITED) << 32)
#define VALUE_MASK 0x0000FFFFFF00FFFFu
#define VALUE_STEP 0x0000010001000100u /* with each byte of the values, three lengths grow */

/* Return the piece of an entry, and its kind, if it has this name, and then one list in one piece, all lengths in a byte
 * each. `map` begins with the entry, and has two bytes or more behind its values' begin. Else the piece is NULL. */
static inline wire_span plain_piece(wire_shape shape, wire_span map, wire_span name, int *kind) {
    const wire_span none = {NULL, NULL};
    const ptrdiff_t n_name = name.end - name.at, left = map.end - map.at;
    if (left < n_name + 12) {
        return none;
    }
    const uint32_t head = half_word(map.at);
    const ptrdiff_t n_entry = head >> 8 & 0xFF, n_bytes = n_entry - n_name - 8;
    const uint8_t *value = map.at + 4 + n_name;
    const uint64_t word = wire_word(value);
    if (n_bytes < 0 || n_entry > 127 || n_entry > left - 2 || (head & HEAD_MASK) != (HEAD | (uint32_t)n_name << 24) ||
        (word & VALUE_MASK) != VALUE + (uint64_t)n_bytes * VALUE_STEP || !is_same(map.at + 4, name.at, n_name)) {
        return none;
    }
    *kind = wire_list_kind(shape, word >> 16 & 0xFF);
    return (wire_span){value + 6, value + 6 + n_bytes};
}

/* Write the value of a plain piece to a column of numbers. Return 0 if it needs the general way. */
static inline int put_plain(const wire_dense *dense, int64_t record, int kind, wire_span piece, const uint8_t *end,
                            int *misfits) {
    const ptrdiff_t n_bytes = piece.end - piece.at;
    uint8_t *out = dense->values + record * dense->row_bytes;
    if (kind != dense->scalar) {
        return 0;
    }
    if (dense->present != NULL) {
        dense->present[record] = 1;
    }
    if (kind == WIRE_FLOATS) {
        if (n_bytes == 4) {
            memcpy(out, piece.at, 4);
        }
        return n_bytes == 4;
    }
    if (n_bytes < 1 || n_bytes > 8 || end - piece.at < 8) {
        return 0;
    }
    const uint64_t word = wire_word(piece.at);
    if (!wire_is_varint(word, (int)n_bytes)) {
        return 0;
    }
    *misfits |= !put_integer(dense, wire_varint_in(word, (int)n_bytes), out);
    return 1;
}

#define MOST_LACKING 3 /* names in a row that a record may lack, at this speed */

/* Take such entries with the expected names off the front of a map of context features, as many as there are. */
static void take_plain_entries(finder *f, wire_span *left) {
    const wire_names names = *f->names; /* copies: bytes that are written could be anything else */
    const wire_dense *const dense_columns = f->dense;
    const int64_t *const after = f->after;
    int64_t *const seen = f->seen;
    const int64_t record = f->record;
    const wire_shape shape = f->shape;
    wire_span map = *left;
    int64_t last = f->last, n_seen = 0;
    int misfits = 0;
    for (;;) {
        int64_t name = after[last];
        int kind = WIRE_MISSING;
        wire_span piece = {NULL, NULL};
        for (int lacking = 0; lacking <= MOST_LACKING && name >= 0 && names.parts[name] == 0; lacking++) {
            piece = plain_piece(shape, map, wire_name_of(&names, name), &kind);
            if (piece.at != NULL) {
                break;
            }
            name = after[name];
        }
        if (piece.at == NULL || kind == WIRE_MISSING) {
            break;
        }
        const int is_wanted = name < names.n_wanted;
        const wire_dense *dense =
            is_wanted && dense_columns != NULL && dense_columns[name].values != NULL ? &dense_columns[name] : NULL;
        if (dense != NULL && put_plain(dense, record, kind, piece, map.end, &misfits)) {
            n_seen += seen[name] != record;
            seen[name] = record;
        } else {
            const int64_t count = wire_values_in(kind, piece);
            if (count < 0) {
                break;
            }
            if (is_wanted) {
                const int64_t begin = count == 0 ? 0 : piece.at - f->buffer;
                const int64_t end = count == 0 ? 0 : piece.end - f->buffer;
                put(f, name, (wire_feature){begin, end, count, kind, WIRE_VALUES, 0});
            }
        }
        last = name;
        map.at = piece.end;
    }
    f->last = last;
    f->n_seen += n_seen;
    f->misfits |= misfits;
    *left = map;
}

/* ---- any entries */

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
    int has_name, is_text, is_whole, has_value;
    int64_t n_steps;
    wire_run run;
} entry;

static void take_name(finder *f, int part, wire_span name, entry *found) {
    found->has_name = 1;
    found->name = look_up(f, part, name);
    found->is_text = found->name >= 0 || wire_is_utf8(name.at, (size_t)(name.end - name.at));
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
        f->strays[f->record] |= (uint8_t)(found->is_text && (part == 1 || found->has_value));
    } else if (found->name < f->names->n_wanted) {
        const wire_feature feature = part == 1 ? (wire_feature){whole.at - f->buffer, whole.end - f->buffer,
                                                                found->n_steps, WIRE_STEPS, WIRE_ENTRY, 0}
                                               : wire_feature_of(&found->run, f->buffer, WIRE_ENTRY, whole);
        put(f, found->name, feature);
    }
}

static int walk_entry(finder *f, int part, wire_span span) {
    const wire_span whole = span;
    entry found = {.is_text = 1, .is_whole = 1};
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
        if (!wire_delimited(&span, &inner)) {
            return 0;
        }
        if (tag == WIRE_TAG(1, WIRE_DELIMITED)) {
            take_name(f, part, inner, &found);
        } else if (!take_value(f, part, inner, &found)) {
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
        if (part == 0) {
            take_plain_entries(f, &map);
            if (map.at == map.end) {
                break;
            }
        }
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

int64_t wire_find_dense(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                        const int64_t *lengths, int64_t n_records, const wire_names *names, const wire_dense *dense,
                        wire_block_kernel *block, int64_t *scratch, wire_feature *features, uint8_t *strays) {
    finder f = {.shape = shape, .buffer = buffer, .n_bytes = n_bytes, .names = names, .block = block, .dense = dense,
                .after = scratch, .seen = scratch + names->n_names + 1, .features = features, .strays = strays,
                .n_records = n_records};
    for (int64_t i = 0; i <= 2 * names->n_names; i++) {
        scratch[i] = -1;
    }
    for (; f.record < n_records; f.record++) {
        const int64_t start = starts[f.record], length = lengths[f.record];
        strays[f.record] = 0;
        f.n_seen = 0;
        if (start < 0 || length < 0 || start > n_bytes || length > n_bytes - start ||
            !walk_record(&f, (wire_span){buffer + start, buffer + start + length})) {
            return f.record;
        }
        if (f.n_seen < names->n_wanted) {
            put_absent(&f);
        }
        if (f.misfits) {
            return n_records;
        }
    }
    return -1;
}

int64_t wire_find(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                  const int64_t *lengths, int64_t n_records, const wire_names *names, int64_t *scratch,
                  wire_feature *features, uint8_t *strays) {
    return wire_find_dense(shape, buffer, n_bytes, starts, lengths, n_records, names, NULL, NULL, scratch, features,
                           strays);
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
