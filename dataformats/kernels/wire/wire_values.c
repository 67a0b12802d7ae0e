/* Writes the values of features to arrays. */
#include <string.h>

#include "wire/wire.h"
#include "wire/wire_varints.h"
#include "wire/wire_walk.h"

/* Set `span` to the place of a feature. Return 0 if that is outside the buffer. */
static int place_of(const wire_feature *feature, const uint8_t *buffer, int64_t n_bytes, wire_span *span) {
    if (feature->begin < 0 || feature->end < feature->begin || feature->end > n_bytes) {
        return 0;
    }
    *span = (wire_span){buffer + feature->begin, buffer + feature->end};
    return 1;
}

/* Call `take` with all pieces of a feature. */
static int take_feature(wire_shape shape, const wire_feature *feature, wire_span span, wire_take *take, void *to) {
    if (feature->form == WIRE_VALUES) {
        return feature->count == 0 || take(to, span);
    }
    wire_run run = {.take = take, .to = to, .ignored = feature->replaced};
    /* It was validated when it was found, with its groups: any depth is allowed here. */
    return feature->form == WIRE_FEATURE ? wire_walk_feature(shape, span, WIRE_DEPTH, &run)
                                         : wire_walk_entry(shape, span, WIRE_DEPTH, &run);
}

/* ---- numbers */

typedef struct {
    uint8_t *at, *end;
    wire_block_kernel *block;
} room;

int wire_width(int kind) { return kind == WIRE_INTEGERS || kind == WIRE_DOUBLES ? 8 : 4; }

static int take_bits(void *to, wire_span piece) {
    room *out = to;
    const size_t n_bytes = (size_t)(piece.end - piece.at);
    if (n_bytes > (size_t)(out->end - out->at)) {
        return 0;
    }
    memcpy(out->at, piece.at, n_bytes);
    out->at += n_bytes;
    return 1;
}

/* Write the first `width` bytes of integers of eight bytes. */
static inline void store(uint8_t *at, const uint8_t *values, int n, int width) {
    for (int i = 0; i < n; i++) {
        memcpy(at + i * width, values + 8 * i, (size_t)width);
    }
}

static inline int take_varints(room *out, wire_span piece, int width) {
    uint8_t values[8 * WIRE_BLOCK];
    while (piece.at < piece.end) {
        const ptrdiff_t left = out->end - out->at;
        uint8_t *to = width == 8 && left >= (ptrdiff_t)sizeof values ? out->at : values;
        const int n = wire_read_varints(out->block, &piece, to);
        if (n < 0 || left < n * width) {
            return 0;
        }
        if (to == values) {
            store(out->at, values, n, width);
        }
        out->at += n * width;
    }
    return 1;
}

static int take_int64s(void *to, wire_span piece) { return take_varints(to, piece, 8); }

/* An int32 is the low half of its varint, as in protobuf. */
static int take_int32s(void *to, wire_span piece) { return take_varints(to, piece, 4); }

typedef struct {
    room left; /* first member: code that counts values uses only this one */
    wire_range range;
    int is_half;
} range_room;

static inline void store_any(uint8_t *at, const uint8_t *values, int n, int width) {
    if (width == 1) {
        store(at, values, n, 1);
    } else if (width == 2) {
        store(at, values, n, 2);
    } else if (width == 4) {
        store(at, values, n, 4);
    } else {
        store(at, values, n, 8);
    }
}

/* Return whether all integers are in range; of a kind that is half as wide, change them to their own values. */
static inline int are_in_range(uint8_t *values, int n, wire_range range, int is_half) {
    int out_of_range = 0;
    for (int i = 0; i < n; i++) {
        const uint64_t found = wire_word(values + 8 * i);
        const int64_t value = is_half ? (int32_t)(uint32_t)found : (int64_t)found;
        wire_store(values + 8 * i, (uint64_t)value, 8);
        out_of_range |= (value < range.least) | (value > range.most);
    }
    return !out_of_range;
}

static int take_in_range(void *to, wire_span piece) {
    range_room *out = to;
    const int width = out->range.width;
    uint8_t values[8 * WIRE_BLOCK];
    while (piece.at < piece.end) {
        const int n = wire_read_varints(out->left.block, &piece, values);
        if (n < 0 || out->left.end - out->left.at < n * width || !are_in_range(values, n, out->range, out->is_half)) {
            return 0;
        }
        store_any(out->left.at, values, n, width);
        out->left.at += n * width;
    }
    return 1;
}

/* Call `take` with all features of a kind; `to` begins with the room `left`. */
static int64_t take_all(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                        int64_t n_features, int kind, int64_t width, wire_take *take, room *left) {
    for (int64_t i = 0; i < n_features; i++) {
        wire_span span;
        if (features[i].kind <= WIRE_MISSING) {
            continue;
        }
        const uint8_t *before = left->at;
        if (features[i].kind != kind || !place_of(&features[i], buffer, n_bytes, &span) ||
            !take_feature(shape, &features[i], span, take, left) ||
            (left->at - before) / width != features[i].count) {
            return i;
        }
    }
    return left->at == left->end ? -1 : n_features;
}

int64_t wire_numbers(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                     int64_t n_features, int kind, uint8_t *out, int64_t n_out_bytes, wire_block_kernel *block) {
    wire_take *take = kind == WIRE_INTEGERS ? take_int64s : kind == WIRE_INT32S ? take_int32s : take_bits;
    room left = {out, out + n_out_bytes, block};
    return take_all(shape, buffer, n_bytes, features, n_features, kind, wire_width(kind), take, &left);
}

int64_t wire_integers(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                      int64_t n_features, int kind, wire_range range, uint8_t *out, int64_t n_out_bytes,
                      wire_block_kernel *block) {
    range_room to = {{out, out + n_out_bytes, block}, range, kind == WIRE_INT32S};
    return take_all(shape, buffer, n_bytes, features, n_features, kind, range.width, take_in_range, &to.left);
}

/* ---- bytes */

typedef struct {
    const uint8_t *buffer;
    int64_t *starts, *lengths;
    int64_t n_taken, n_out;
} places;

static int take_place(void *to, wire_span piece) {
    places *out = to;
    if (out->n_taken == out->n_out) {
        return 0;
    }
    out->starts[out->n_taken] = piece.at - out->buffer;
    out->lengths[out->n_taken++] = piece.end - piece.at;
    return 1;
}

int64_t wire_places(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                    int64_t n_features, int64_t *starts, int64_t *lengths, int64_t n_out) {
    places out = {buffer, starts, lengths, 0, n_out};
    for (int64_t i = 0; i < n_features; i++) {
        wire_span span;
        if (features[i].kind <= WIRE_MISSING) {
            continue;
        }
        const int64_t before = out.n_taken;
        if (features[i].kind != WIRE_BYTES || !place_of(&features[i], buffer, n_bytes, &span) ||
            !take_feature(shape, &features[i], span, take_place, &out) ||
            out.n_taken - before != features[i].count) {
            return i;
        }
    }
    return out.n_taken == n_out ? -1 : n_features;
}

/* ---- steps */

typedef struct {
    wire_shape shape;
    const uint8_t *buffer;
    wire_feature *at, *end;
} steps;

static int take_steps(steps *out, wire_span list) {
    wire_span step;
    int more;
    while ((more = wire_next_step(&list, WIRE_DEPTH, &step)) > 0) {
        wire_run run = {0};
        if (out->at == out->end || !wire_walk_feature(out->shape, step, WIRE_DEPTH, &run)) {
            return 0;
        }
        *out->at++ = wire_feature_of(&run, out->buffer, WIRE_FEATURE, step);
    }
    return more == 0;
}

static int take_lists(steps *out, wire_span entry) {
    while (entry.at < entry.end) {
        uint32_t tag;
        wire_span list;
        if (!wire_tag(&entry, &tag)) {
            return 0;
        }
        if (tag == WIRE_TAG(2, WIRE_DELIMITED) ? !wire_delimited(&entry, &list) || !take_steps(out, list)
                                               : !wire_skip(&entry, tag, WIRE_DEPTH)) {
            return 0;
        }
    }
    return 1;
}

int64_t wire_steps(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *lists,
                   int64_t n_lists, wire_feature *out, int64_t n_out) {
    steps left = {shape, buffer, out, out + n_out};
    for (int64_t i = 0; i < n_lists; i++) {
        wire_span span;
        if (lists[i].kind <= WIRE_MISSING) {
            continue;
        }
        const wire_feature *before = left.at;
        if (lists[i].kind != WIRE_STEPS || !place_of(&lists[i], buffer, n_bytes, &span) ||
            !take_lists(&left, span) || left.at - before != lists[i].count) {
            return i;
        }
    }
    return left.at == left.end ? -1 : n_lists;
}
