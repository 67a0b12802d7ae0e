/* Columns from the features of a batch, if all records have the wanted values: one kind, present in each record, the
 * right count, and each number exact in its column. Everything else is returned as rows of features; the typed slow
 * path decodes it and reports errors.
 *
 * No allocation here: `wire_columns_fit` computes the size of a column, `wire_column_fill` fills it. */
#ifndef DATAFORMATS_WIRE_COLUMNS_H
#define DATAFORMATS_WIRE_COLUMNS_H

#include "wire/wire.h"

/* The column that the features of one name become. */
typedef enum {
    WIRE_AS_FOUND, /* none */
    WIRE_DENSE,    /* `size` numbers each, from lists of numbers, or from one bytes value with all of them */
    WIRE_RAGGED,   /* elements of `size` numbers each, from lists of numbers, and their offsets */
    WIRE_JOINED,   /* the one bytes value of each, back to back, and their offsets */
    WIRE_PLACED,   /* the place of the one bytes value of each in the buffer: begins and lengths */
    WIRE_TEXT,     /* as WIRE_JOINED, and each value is UTF-8 */
    WIRE_OUTPUTS
} wire_output;

typedef struct {
    wire_output output;
    char letter; /* of numbers: 'b', 'i', 'u' or 'f', as numpy names the kinds of dtypes */
    int width;   /* bytes of a number: 1, 2, 4 or 8; floats also 2 */
    int64_t size;
    int may_lack; /* 1: records may lack the value, which is then 0 or empty; not of WIRE_PLACED */
} wire_target;

/* The value slice: a part of all records that was read to separate rows, and is not in the buffer. */
typedef struct {
    int64_t begin;   /* in a record; below 0: from its end */
    int64_t n_bytes; /* 0: no slice */
} wire_slice;

typedef struct {
    int kind;       /* of all features, if the column fits */
    int fits;       /* 0: leave the rows of features */
    int lacks;      /* some records lack the value */
    int is_sliced;   /* its values are the slice, unparsed */
    int64_t values; /* elements of the column: of WIRE_DENSE records, of WIRE_JOINED and WIRE_TEXT bytes */
    int64_t n_bytes; /* their size */
} wire_column;

/* A column that is filled while records are parsed: WIRE_DENSE, n_records rows. */
typedef struct {
    const wire_target *target;
    wire_range range; /* of its integers */
    int64_t row_bytes;
    int scalar;      /* the kind of list that may be read without a loop, WIRE_FLOATS or WIRE_INTEGERS; else WIRE_ABSENT */
    uint8_t *values;  /* NULL: the features go to their rows */
    uint8_t *present; /* 1 for each record that has the value; NULL if all must have it */
} wire_dense;

/* `present`: NULL unless `target->may_lack`. */
wire_dense wire_dense_of(const wire_target *target, uint8_t *values, uint8_t *present);

/* Find features as `wire_find` does, but write the values of some names to their columns, and no rows of these: of name
 * i if `dense[i].values` is not NULL. Also return n_records if one of these columns does not fit: if a record lacks the
 * value, or if it is not exact. */
int64_t wire_find_dense(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const int64_t *starts,
                        const int64_t *lengths, int64_t n_records, const wire_names *names, const wire_dense *dense,
                        wire_block_kernel *block, int64_t *scratch, wire_feature *features, uint8_t *strays);

/* Compute the column of each of n_targets, whose features are rows of n_records from `wire_find`.
 *
 * At most one column is sliced: the first whose unparsed values lie exactly in the slice, in all records. The content
 * of the buffer there has no influence, because finding never looks at values that it leaves unparsed. */
void wire_columns_fit(const wire_target *targets, int64_t n_targets, const wire_feature *features, int64_t n_records,
                      const int64_t *starts, const int64_t *lengths, wire_slice slice, wire_column *columns);

/* Write 1 for each record that has the value, 0 for each other one. */
void wire_write_present(const wire_feature *features, int64_t n_records, uint8_t *present);

/* Fill a column that fits. The values of a sliced column are not written.
 *
 * `values`: column->n_bytes; of WIRE_PLACED n_records starts.
 * `offsets`: n_records + 1, from 0; of WIRE_PLACED n_records lengths; of WIRE_DENSE unused.
 * Return 0 if the column does not fit after all: an integer is out of range, not a bool, or not
 * UTF-8. */
int wire_column_fill(wire_shape shape, const uint8_t *buffer, int64_t n_bytes, const wire_target *target,
                     const wire_feature *features, int64_t n_records, const wire_column *column, void *values,
                     int64_t *offsets, wire_block_kernel *block);

#endif
