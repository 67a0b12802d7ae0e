/* From the features of a batch to its columns, where all records have what is wanted: no kind but one, all of them
 * there, the counts right, each number exactly the same in its column. What is not so is left as it was found: who
 * knows the types takes it apart with care, and says what is wrong.
 *
 * No allocation here: `wire_columns_fit` says how much room a column takes, `wire_column_fill` fills it. */
#ifndef DATAFORMATS_WIRE_COLUMNS_H
#define DATAFORMATS_WIRE_COLUMNS_H

#include "wire/wire.h"

/* What the features of one name are to become. */
typedef enum {
    WIRE_AS_FOUND, /* nothing */
    WIRE_DENSE,    /* `size` numbers each, from lists of numbers, or from one bytes value that has them all */
    WIRE_RAGGED,   /* elements of `size` numbers each, from lists of numbers, and their offsets */
    WIRE_JOINED,   /* the one bytes value of each, back to back, and their offsets */
    WIRE_PLACED,   /* where the one bytes value of each begins in the buffer, and its bytes */
    WIRE_OUTPUTS
} wire_output;

typedef struct {
    wire_output output;
    char letter; /* of numbers: 'b', 'i', 'u' or 'f', as numpy names the kinds of dtypes */
    int width;   /* and their bytes: 1, 2, 4 or 8; floats 2 as well */
    int64_t size;
} wire_target;

/* The same part of all records, which the buffer does not have: it was read to rows of its own. */
typedef struct {
    int64_t begin;   /* in a record; below 0: from its end */
    int64_t n_bytes; /* 0: there is no such part */
} wire_window;

typedef struct {
    int kind;       /* of all features, where the column fits */
    int fits;       /* 0: as it was found */
    int is_apart;   /* its values are those that were read apart, unparsed */
    int64_t values; /* elements of the column: of WIRE_DENSE records, of WIRE_JOINED bytes */
    int64_t n_bytes; /* what they take */
} wire_column;

/* Say of each of n_targets what its features, rows of n_records as `wire_find` has them, become.
 *
 * At most one is apart: the first whose unparsed values lie just in the window, in all records. Nothing else can
 * have been told by what the buffer has in its place, as finding never looks at values that it leaves unparsed. */
void wire_columns_fit(const wire_target *targets, int64_t n_targets, const wire_feature *features, int64_t n_records,
                      const int64_t *starts, const int64_t *lengths, wire_window window, wire_column *columns);

/* Fill a column that fits. The values of one that is apart are not written.
 *
 * `values`: column->n_bytes; of WIRE_PLACED n_records starts.
 * `offsets`: n_records + 1, from 0; of WIRE_PLACED n_records lengths; of WIRE_DENSE nothing.
 * Return 0 where it does not fit after all: an integer is out of range, or no bool. */
int wire_column_fill(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_target *target,
                     const wire_feature *features, int64_t n_records, const wire_column *column, void *values,
                     int64_t *offsets);

#endif
