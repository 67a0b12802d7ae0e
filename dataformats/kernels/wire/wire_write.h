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

/* Return the size of a record of these features: 0 without features. */
int64_t wire_write_size(wire_shape shape, wire_value *values, int64_t n_values);

/* Write the record to `out`, whose `n_out` bytes are what wire_write_size returned for these values.
 *
 * Return -1, or the first value that does not come to its size: its integers have changed since. Return n_values if
 * `out` has another size than all values together. `out` is then unspecified; nothing is written outside it. */
int64_t wire_write(wire_shape shape, const wire_value *values, int64_t n_values, uint8_t *out, int64_t n_out);

#endif
