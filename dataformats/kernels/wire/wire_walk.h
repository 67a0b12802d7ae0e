/* Walks through features: what finding them and taking their values out have in common. */
#ifndef DATAFORMATS_WIRE_WALK_H
#define DATAFORMATS_WIRE_WALK_H

#include "wire/wire.h"
#include "wire/wire_reader.h"

/* Take a piece of a list: numbers as a packed list has them, or one bytes value. Return 0 to refuse. */
typedef int wire_take(void *to, wire_span piece);

/* What the lists of one feature have come to so far: the last of them, and those of its kind right before it. */
typedef struct {
    int64_t lists; /* lists so far, of any kind */
    int64_t replaced;
    int64_t count, pieces; /* values, and the pieces that hold them */
    wire_span last;        /* the last piece */
    int kind;
    wire_take *take; /* called with the pieces of all lists but the first `ignored`; NULL: nobody wants them */
    void *to;
    int64_t ignored;
} wire_run;

/* Return the number of groups that may lie inside each other in the features of a map's entries. */
int wire_feature_depth(wire_shape shape);

/* Walk through a Feature message, which goes on from what `run` has. Return 0 where it does not parse, or
 * `take` refused. */
int wire_walk_feature(wire_shape shape, wire_span message, int depth, wire_run *run);

/* Take the next step of a FeatureList off its front. Return 1, 0 at its end, or -1 where it does not parse.
 * `depth`: of the groups that may lie in the list. */
int wire_next_step(wire_span *list, int depth, wire_span *step);

/* Walk through the values of a map's entry, all of them Features to be merged. */
int wire_walk_entry(wire_shape shape, wire_span entry, int depth, wire_run *run);

/* Return what `run` has come to. `form` and `whole`: where to walk again if the values lie in several pieces. */
wire_feature wire_feature_of(const wire_run *run, const uint8_t *buffer, int form, wire_span whole);

#endif
