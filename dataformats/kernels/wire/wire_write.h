/* Writes one Example, SequenceExample or OFRecord: deterministic, features in the given order, numbers packed.
 *
 * First compute the size, then write the bytes: the caller allocates in between. */
#ifndef DATAFORMATS_WIRE_WRITE_H
#define DATAFORMATS_WIRE_WRITE_H

#include "wire/wire.h"
#include "wire/wire_reader.h"

/* One feature to write. wire_write_size fills in the sizes. */
typedef struct {
    wire_span name;
    int part; /* 0: the context, or the only map; 1: the feature lists */
    int kind; /* the list for the values; WIRE_STEPS: `blobs[0]` is the encoded message */
    /* WIRE_BYTES and WIRE_STEPS: `count` blobs. Else `count` numbers, little-endian, `width` bytes each: floats of
     * the list's own width, or integers of 1, 2, 4 or 8 bytes. */
    const wire_span *blobs;
    const uint8_t *numbers;
    int64_t count;
    int width, is_signed;
    int64_t packed_bytes, list_bytes, feature_bytes, entry_bytes;
} wire_value;

/* Return whether features of a shape have lists of a kind, WIRE_BYTES or above but below WIRE_KINDS. */
int wire_has_lists(wire_shape shape, int kind);

/* Return the size of a record of these features: 0 without features. */
int64_t wire_write_size(wire_shape shape, wire_value *values, int64_t n_values);

/* Write the record to `out`, which has exactly the size that wire_write_size returned for these values.
 *
 * Only `numbers` may have changed since. Return -1, or the first value whose integers now have another size; the record
 * is then unspecified. Nothing is written outside it. */
int64_t wire_write(wire_shape shape, const wire_value *values, int64_t n_values, uint8_t *out);

#endif
