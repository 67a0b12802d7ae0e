#include "wire/wire_walk.h"

#include "wire/wire_varints.h"

const int8_t wire_kinds[WIRE_SHAPES][WIRE_KINDS] = {
    [WIRE_EXAMPLE] = {0, WIRE_BYTES, WIRE_FLOATS, WIRE_INTEGERS},
    [WIRE_SEQUENCE_EXAMPLE] = {0, WIRE_BYTES, WIRE_FLOATS, WIRE_INTEGERS},
    [WIRE_OFRECORD] = {0, WIRE_BYTES, WIRE_FLOATS, WIRE_DOUBLES, WIRE_INT32S, WIRE_INTEGERS},
};

/* The tag of a single value that is not packed. */
static const uint32_t SINGLE[WIRE_KINDS] = {
    [WIRE_FLOATS] = WIRE_TAG(1, WIRE_FIXED32),    [WIRE_DOUBLES] = WIRE_TAG(1, WIRE_FIXED64),
    [WIRE_INTEGERS] = WIRE_TAG(1, WIRE_VARINT), [WIRE_INT32S] = WIRE_TAG(1, WIRE_VARINT),
};

int wire_feature_depth(wire_shape shape) { return shape == WIRE_OFRECORD ? WIRE_DEPTH - 2 : WIRE_DEPTH - 3; }

int64_t wire_values_in(int kind, wire_span piece) {
    const int64_t n_bytes = piece.end - piece.at;
    switch (kind) {
    case WIRE_BYTES:
        return 1;
    case WIRE_FLOATS:
        return n_bytes % 4 ? -1 : n_bytes / 4;
    case WIRE_DOUBLES:
        return n_bytes % 8 ? -1 : n_bytes / 8;
    default:
        return wire_count_varints(piece);
    }
}

static int take_piece(wire_run *run, wire_span piece, int64_t count) {
    if (count == 0) {
        return 1;
    }
    run->count += count;
    run->pieces++;
    run->last = piece;
    return run->take == NULL || run->lists <= run->ignored || run->take(run->to, piece);
}

static int walk_list(wire_span list, int depth, wire_run *run) {
    while (list.at < list.end) {
        uint32_t tag;
        wire_span piece;
        int64_t count = 1;
        if (!wire_tag(&list, &tag)) {
            return 0;
        }
        piece.at = list.at;
        if (tag == WIRE_TAG(1, WIRE_DELIMITED)) {
            if (!wire_delimited(&list, &piece) || (count = wire_values_in(run->kind, piece)) < 0) {
                return 0;
            }
        } else if (!wire_skip(&list, tag, depth)) {
            return 0;
        } else if (tag == SINGLE[run->kind]) {
            piece.end = list.at;
        } else {
            continue;
        }
        if (!take_piece(run, piece, count)) {
            return 0;
        }
    }
    return 1;
}

static void begin_list(wire_run *run, int kind) {
    if (run->kind != kind) {
        run->kind = kind;
        run->replaced = run->lists;
        run->count = run->pieces = 0;
    }
    run->lists++;
}

int wire_walk_feature(wire_shape shape, wire_span message, int depth, wire_run *run) {
    while (message.at < message.end) {
        uint32_t tag;
        wire_span list;
        if (!wire_tag(&message, &tag)) {
            return 0;
        }
        const int kind = wire_list_kind(shape, tag);
        if (kind == WIRE_MISSING) {
            if (!wire_skip(&message, tag, depth)) {
                return 0;
            }
            continue;
        }
        begin_list(run, kind);
        if (!wire_delimited(&message, &list) || !walk_list(list, depth - 1, run)) {
            return 0;
        }
    }
    return 1;
}

int wire_walk_entry(wire_shape shape, wire_span entry, int depth, wire_run *run) {
    while (entry.at < entry.end) {
        uint32_t tag;
        wire_span value;
        if (!wire_tag(&entry, &tag)) {
            return 0;
        }
        if (tag != WIRE_TAG(2, WIRE_DELIMITED)) {
            if (!wire_skip(&entry, tag, depth + 1)) {
                return 0;
            }
        } else if (!wire_delimited(&entry, &value) || !wire_walk_feature(shape, value, depth, run)) {
            return 0;
        }
    }
    return 1;
}

wire_feature wire_feature_of(const wire_run *run, const uint8_t *buffer, int form, wire_span whole) {
    wire_feature feature = {0, 0, run->count, run->kind, WIRE_VALUES, 0};
    if (run->pieces == 1) {
        feature.begin = run->last.at - buffer;
        feature.end = run->last.end - buffer;
    } else if (run->pieces > 1) {
        feature.begin = whole.at - buffer;
        feature.end = whole.end - buffer;
        feature.form = form;
        feature.replaced = run->replaced;
    }
    return feature;
}

int wire_next_step(wire_span *list, int depth, wire_span *step) {
    while (list->at < list->end) {
        uint32_t tag;
        if (!wire_tag(list, &tag)) {
            return -1;
        }
        if (tag == WIRE_TAG(1, WIRE_DELIMITED)) {
            return wire_delimited(list, step) ? 1 : -1;
        }
        if (!wire_skip(list, tag, depth)) {
            return -1;
        }
    }
    return 0;
}
