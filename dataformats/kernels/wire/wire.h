/* Reads and writes batches of Examples, SequenceExamples and OFRecords in protobuf's wire format.
 *
 * The kernels accept, refuse and merge what protobuf's parser (upb) does:
 *   - the last entry of a map under a name counts, unless an entry has fields that are neither key nor value:
 *     such an entry is kept as unknown, and the map does not have it;
 *   - the last list of a feature counts, together with those of its kind right before it;
 *   - numbers may be packed or not, and in several pieces; names are any bytes; varints have up to ten bytes,
 *     tags and lengths up to five; unknown fields are skipped, groups too, as deep as 100 levels in all.
 *
 * Reading has two steps. `wire_find` parses all records once, validates them whole, and stores the place of the
 * feature of each name and record. The other functions write the values of one name into arrays.
 *
 * Kernels know no Python, keep no state and allocate nothing. No length in the data is trusted: every read is bounded
 * by its record, and every table by the buffer that it points into. */
#ifndef DATAFORMATS_WIRE_H
#define DATAFORMATS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/wire_varints.h"

typedef enum { WIRE_EXAMPLE, WIRE_SEQUENCE_EXAMPLE, WIRE_OFRECORD, WIRE_SHAPES } wire_shape;

/* The kind of a feature. WIRE_ABSENT: the record has none of that name. WIRE_MISSING: a feature without a list. */
enum {
    WIRE_ABSENT = -1,
    WIRE_MISSING,
    WIRE_BYTES,
    WIRE_FLOATS,
    WIRE_INTEGERS,
    WIRE_DOUBLES,
    WIRE_INT32S,
    WIRE_KINDS,
    WIRE_STEPS = WIRE_KINDS /* a feature list, whose values are features */
};

/* The content of [begin, end). */
enum {
    WIRE_VALUES,  /* all the values, as in a packed list; or the one bytes value */
    WIRE_FEATURE, /* a Feature message */
    WIRE_ENTRY   /* the entry of a map, whose values are merged */
};

/* One feature of one record. The wrapper returns these as rows of int64. */
typedef struct {
    int64_t begin, end; /* in the buffer */
    int64_t count;      /* values; of a feature list, steps */
    int64_t kind;
    int64_t form;
    int64_t replaced; /* number of lists that a later one of another kind has replaced */
} wire_feature;

/* A summary of features. */
typedef struct {
    int64_t kinds;       /* bit `kind + 1` is set for each kind present */
    int64_t least, most; /* values of a feature that has a kind; 0 if none has */
    int64_t total;       /* values of all */
} wire_survey;

/* Names to find: name i is `bytes[ends[i - 1] .. ends[i])`, in the context (parts[i] == 0) or in the
 * feature lists (1). No name occurs twice in a part. The first `n_wanted` are wanted, the others only known.
 * `sorted` is from wire_sort_names: so the time to find features is linear, whatever their order. */
typedef struct {
    const uint8_t *bytes;
    const int64_t *ends;
    const uint8_t *parts;
    int64_t n_names, n_wanted;
    const int64_t *sorted;
} wire_names;

/* Write the numbers of all names, sorted for `wire_find`, to `sorted[0 .. n_names)`. */
void wire_sort_names(const wire_names *names, int64_t *sorted);

/* Find the wanted features of records: record i is `buffer[starts[i] .. starts[i] + lengths[i])`.
 *
 * `features`: n_wanted rows of n_records; all are written unless the call fails.
 * `strays[i]`: 1 if record i may have something under a name in UTF-8 that is not among `names`: an entry that is not
 * empty (a later one may have replaced it), or any feature list; else 0.
 * `scratch`: 2 * n_names + 1 numbers.
 * Return -1, or the number of the first record that does not parse or does not lie in the buffer. */
int64_t wire_find(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                  const int64_t *lengths, int64_t n_records, const wire_names *names, int64_t *scratch,
                  wire_feature *features, uint8_t *strays);

wire_survey wire_survey_of(const wire_feature *features, int64_t n_features);

/* The functions below take features that `wire_find` or `wire_steps` found in the same buffer. They return -1, or the
 * number of the first feature that is of another kind, is outside the buffer, or has another number of values than its
 * `count`; or n_features if `out` has another size than all values together. Features without a kind are skipped.
 * `block` is from wire_choose_block. */

/* Write all numbers of a kind, one feature after the other: little-endian, as wide as the kind's own. */
int64_t wire_numbers(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                     int64_t n_features, int kind, uint8_t *out, int64_t n_out_bytes, wire_block_kernel *block);

/* The integers that a column can hold: little-endian, in `width` bytes, 1, 2, 4 or 8. */
typedef struct {
    int64_t least, most;
    int width;
} wire_range;

/* Write all integers of a kind, WIRE_INTEGERS or WIRE_INT32S. Also returns the number of the first feature with an
 * integer out of range. */
int64_t wire_integers(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                      int64_t n_features, int kind, wire_range range, uint8_t *out, int64_t n_out_bytes,
                      wire_block_kernel *block);

/* Return the bytes of one number of a kind. */
int wire_width(int kind);

/* Write the places of all bytes values in the buffer. */
int64_t wire_places(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                    int64_t n_features, int64_t *starts, int64_t *lengths, int64_t n_out);

/* Write the features in feature lists (WIRE_STEPS). */
int64_t wire_steps(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *lists,
                   int64_t n_lists, wire_feature *out, int64_t n_out);

#endif
