/* Reads and writes batches of Examples, SequenceExamples and OFRecords: protobuf's wire format, by hand.
 *
 * What is accepted, refused and merged is what protobuf's parser (upb) does with the same bytes:
 *   - the last entry of a map under a name counts, unless an entry has fields that are neither key nor value:
 *     such an entry is kept as unknown, and the map has nothing of it;
 *   - the last list of a feature counts, together with those of its kind right before it;
 *   - numbers may be packed or not, and in several pieces; names must be UTF-8; varints have up to ten bytes,
 *     tags and lengths up to five; unknown fields are skipped, groups too, as deep as 100 levels in all.
 *
 * Reading has two steps. `wire_find` goes through all records once, validates them whole, and notes for each
 * name and record where the feature lies. The others then write the values of one name into arrays.
 *
 * Kernels know no Python, keep no state and allocate nothing. No length in the data is believed: every read is
 * bounded by its record, and every table by the buffer that it points into. */
#ifndef DATAFORMATS_WIRE_H
#define DATAFORMATS_WIRE_H

#include <stddef.h>
#include <stdint.h>

typedef enum { WIRE_EXAMPLE, WIRE_SEQUENCE_EXAMPLE, WIRE_OFRECORD, WIRE_SHAPES } wire_shape;

/* What a feature holds. WIRE_ABSENT: the record has none of that name. WIRE_MISSING: one without a list. */
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

/* What lies at [begin, end). */
enum {
    WIRE_VALUES,  /* all the values, as a packed list has them; or the one bytes value */
    WIRE_FEATURE, /* a Feature message */
    WIRE_ENTRY   /* the entry of a map, whose values are merged */
};

/* One feature of one record. The wrapper hands this over as rows of int64. */
typedef struct {
    int64_t begin, end; /* in the buffer */
    int64_t count;      /* values; of a feature list, steps */
    int64_t kind;
    int64_t form;
    int64_t replaced; /* how many lists a later one of another kind has replaced */
} wire_feature;

/* What some features have in common. */
typedef struct {
    int64_t kinds;       /* bit `kind + 1` is set for each kind there is */
    int64_t least, most; /* values of a feature that has a kind; 0 where none has */
    int64_t total;       /* values of all */
} wire_survey;

/* Names to look for: name i is `bytes[ends[i - 1] .. ends[i])`, in the context (parts[i] == 0) or in the
 * feature lists (1). No name occurs twice in a part. The first `n_wanted` are wanted, the others only known. */
typedef struct {
    const uint8_t *bytes;
    const int64_t *ends;
    const uint8_t *parts;
    int64_t n_names, n_wanted;
} wire_names;

/* Find the wanted features of records: record i is `buffer[starts[i] .. starts[i] + lengths[i])`.
 *
 * `features`: n_wanted rows of n_records; written whole unless the call fails.
 * `strays[i]`: 1 where record i may have something under a name that is not among `names`: an entry that is not
 * empty (a later one may have replaced it), or any feature list; else 0.
 * `after`: n_names + 1 numbers to work with.
 * Return -1, or the number of the first record that does not parse or does not lie in the buffer. */
int64_t wire_find(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                  const int64_t *lengths, int64_t n_records, const wire_names *names, int64_t *after,
                  wire_feature *features, uint8_t *strays);

wire_survey wire_survey_of(const wire_feature *features, int64_t n_features);

/* The functions below take features that `wire_find` or `wire_steps` has found in the same buffer. They return
 * -1, or the number of the first feature that is not of this kind, does not lie in the buffer, or does not have
 * as many values as it says; or n_features where `out` has another size than all values together. Features of
 * no kind are passed over. */

/* Write all numbers of a kind, one feature after the other: little-endian, as wide as the kind's own. */
int64_t wire_numbers(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                     int64_t n_features, int kind, uint8_t *out, int64_t n_out_bytes);

/* Integers as they are to be stored: little-endian, in `width` bytes, 1, 2, 4 or 8; others than these do not fit. */
typedef struct {
    int64_t least, most;
    int width;
} wire_range;

/* Write all integers of a kind, WIRE_INTEGERS or WIRE_INT32S. Return the number of the first feature also where it
 * has an integer that does not fit. */
int64_t wire_integers(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                      int64_t n_features, int kind, wire_range range, uint8_t *out, int64_t n_out_bytes);

/* Return the bytes of one number of a kind. */
int wire_width(int kind);

/* Write where all bytes values lie in the buffer. */
int64_t wire_places(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *features,
                    int64_t n_features, int64_t *starts, int64_t *lengths, int64_t n_out);

/* Write the features that feature lists (WIRE_STEPS) hold. */
int64_t wire_steps(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_feature *lists,
                   int64_t n_lists, wire_feature *out, int64_t n_out);

#endif
