/* Parses features: shared by finding them and extracting their values. */
#ifndef DATAFORMATS_WIRE_WALK_H
#define DATAFORMATS_WIRE_WALK_H

#include "wire/wire.h"
#include "wire/wire_reader.h"

/* Take a piece of a list: packed numbers, or one bytes value. Return 0 to refuse. */
typedef int wire_take(void *to, wire_span piece);

/* The lists of one feature so far: the last one, and those of its kind right before it. */
typedef struct {
    int64_t lists; /* lists so far, of any kind */
    int64_t replaced;
    int64_t count, pieces; /* values, and the pieces that hold them */
    wire_span last;        /* the last piece */
    int kind;
    wire_take *take; /* called with the pieces of all lists but the first `ignored`; NULL: not called */
    void *to;
    int64_t ignored;
} wire_run;

/* The kind of list of each field of a Feature, by field number. */
extern const int8_t wire_kinds[WIRE_SHAPES][WIRE_KINDS];

/* Return the kind of list that a field of a Feature is, by its tag; WIRE_MISSING if it is none. */
static inline int wire_list_kind(wire_shape shape, uint32_t tag) {
    return tag >> 3 < WIRE_KINDS && (tag & 7) == WIRE_DELIMITED ? wire_kinds[shape][tag >> 3] : WIRE_MISSING;
}

/* Return the number of values of a kind in a delimited piece, or -1. */
int64_t wire_values_in(int kind, wire_span piece);

/* Return the limit of nested groups in the features of a map's entries. */
int wire_feature_depth(wire_shape shape);

/* Parse a Feature message, and add it to `run`. Return 0 if it does not parse, or `take` refused. */
int wire_walk_feature(wire_shape shape, wire_span message, int depth, wire_run *run);

/* Take the next step off the front of a FeatureList. Return 1, 0 at its end, or -1 if it does not parse.
 * `depth`: the limit of nested groups in the list. */
int wire_next_step(wire_span *list, int depth, wire_span *step);

/* Parse the values of a map's entry, all of them Features to merge. */
int wire_walk_entry(wire_shape shape, wire_span entry, int depth, wire_run *run);

/* Return the feature of a run. `form` and `whole`: what to parse again if the values lie in several pieces. */
wire_feature wire_feature_of(const wire_run *run, const uint8_t *buffer, int form, wire_span whole);

#endif
