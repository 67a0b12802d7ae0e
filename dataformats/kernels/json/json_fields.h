/* Finds the values of fields in JSON objects, copies text without its escapes, and reads lists of integers.
 *
 * A record is simple if it is one object of JSON in UTF-8, no key has an escape, integers have at most 18 digits, and
 * nesting has at most JSON_MAX_DEPTH levels. Others are left to a parser that reports what is wrong with them. */
#ifndef DATAFORMATS_JSON_FIELDS_H
#define DATAFORMATS_JSON_FIELDS_H

#include <stdint.h>

#define JSON_MAX_DEPTH 32

/* The value of a field in a record. */
enum {
    JSON_ABSENT,
    JSON_NULL,
    JSON_BOOL,
    JSON_INTEGER,
    JSON_FLOAT,   /* a number with a fraction or an exponent */
    JSON_TEXT,    /* without escapes */
    JSON_ESCAPED, /* text with escapes */
    JSON_NESTED,  /* a list or an object */
};

typedef struct {
    const uint8_t *bytes;
    int64_t n_bytes;
} json_name;

/* Where the values of one field lie; each array has an item for each record. */
typedef struct {
    uint8_t *kinds;
    int64_t *begins;  /* the first byte in the buffer; of text, behind the quote */
    int64_t *lengths; /* bytes; of text, without the quotes */
    int64_t *numbers; /* of JSON_BOOL and JSON_INTEGER */
} json_values;

/* Find the fields of each record `buffer[starts[i] .. starts[i] + lengths[i])`; the last of equal keys counts.
 *
 * `only_names`: an object with another key is not simple.
 * Return -1, or the number of the first record that is not simple, or outside the buffer; the values of it and of later
 * ones are then unspecified. */
int64_t json_find(const uint8_t *buffer, int64_t n_bytes, const int64_t *starts, const int64_t *lengths,
                  int64_t n_records, const json_name *names, int64_t n_names, int only_names,
                  const json_values *values);

/* Copy each text `buffer[begins[i] .. begins[i] + lengths[i])` to `out`, back to back, its escapes replaced by UTF-8;
 * `n_written[i]` gets its bytes, which are not more than `lengths[i]`.
 *
 * Return the sum of them, or -1 if an escape is invalid, or a text is outside the buffer or does not fit in `out`. */
int64_t json_unescape(const uint8_t *buffer, int64_t n_bytes, const int64_t *begins, const int64_t *lengths,
                      int64_t n_texts, uint8_t *out, int64_t n_out, int64_t *n_written);

/* Read the list of integers in each `buffer[begins[i] .. begins[i] + lengths[i])` into `out`, one behind the other;
 * `n_written[i]` gets their number, which is less than `lengths[i]`.
 *
 * Return the sum of them, or -1 if a list has something else or an integer of more than 18 digits, is outside the
 * buffer, or does not fit in `out`. */
int64_t json_integers(const uint8_t *buffer, int64_t n_bytes, const int64_t *begins, const int64_t *lengths,
                      int64_t n_lists, int64_t *out, int64_t n_out, int64_t *n_written);

#endif
