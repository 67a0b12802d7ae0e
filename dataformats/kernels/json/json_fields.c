#include "json/json_fields.h"

#include <string.h>

#include "wire/wire_reader.h"

#define MAX_DIGITS 18 /* every integer of as many digits is an int64 */
#define ALL(byte) (0x0101010101010101u * (byte))

/* The functions below take the next byte and the end of the record, and return the byte behind what they read, or NULL
 * if the record is not simple. */

static const uint8_t *after_space(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
    }
    return at;
}

/* Return the value of four hexadecimal digits, or -1. */
static int32_t hexadecimal(const uint8_t *at, const uint8_t *end) {
    int32_t value = 0;
    if (end - at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const int c = at[i], letter = c | 0x20;
        const int digit = c >= '0' && c <= '9' ? c - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
        if (digit < 0) {
            return -1;
        }
        value = value << 4 | digit;
    }
    return value;
}

/* Read an escape behind its backslash; `*code` gets its character, which is no surrogate. */
static const uint8_t *read_escape(const uint8_t *at, const uint8_t *end, int32_t *code) {
    static const char letters[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    if (at == end) {
        return NULL;
    }
    if (*at != 'u') {
        const char *found = *at == 0 ? NULL : strchr(letters, *at);
        if (found == NULL) {
            return NULL;
        }
        *code = characters[found - letters];
        return at + 1;
    }
    *code = hexadecimal(at + 1, end);
    if (*code < 0 || (*code & 0xFC00) == 0xDC00) {
        return NULL;
    }
    at += 5;
    if ((*code & 0xFC00) != 0xD800) {
        return at;
    }
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') {
        return NULL;
    }
    const int32_t low = hexadecimal(at + 2, end);
    if ((low & ~0x3FF) != 0xDC00) {
        return NULL;
    }
    *code = 0x10000 + ((*code & 0x3FF) << 10) + (low & 0x3FF);
    return at + 6;
}

/* Return the first quote, backslash or control character, or the end. */
static const uint8_t *plain_end(const uint8_t *at, const uint8_t *end) {
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        const uint64_t quote = word ^ ALL('"'), backslash = word ^ ALL('\\');
        if ((((quote - ALL(1)) & ~quote) | ((backslash - ALL(1)) & ~backslash) | ((word - ALL(0x20)) & ~word)) & ALL(0x80)) {
            break;
        }
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && *at >= 0x20) {
        at++;
    }
    return at;
}

/* Read a text behind its quote, up to the quote at its end. */
static const uint8_t *read_text(const uint8_t *at, const uint8_t *end, int *is_escaped) {
    *is_escaped = 0;
    while ((at = plain_end(at, end)) < end && *at == '\\') {
        int32_t code;
        *is_escaped = 1;
        if ((at = read_escape(at + 1, end, &code)) == NULL) {
            return NULL;
        }
    }
    return at < end && *at == '"' ? at : NULL;
}

static const uint8_t *after_digits(const uint8_t *at, const uint8_t *end) {
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

static const uint8_t *read_number(const uint8_t *at, const uint8_t *end, uint8_t *kind, int64_t *number) {
    const int is_negative = *at == '-';
    const uint8_t *first = at + is_negative, *stop = after_digits(first, end);
    if (stop == first || stop - first > MAX_DIGITS || (*first == '0' && stop - first > 1)) {
        return NULL;
    }
    int64_t value = 0;
    for (const uint8_t *digit = first; digit < stop; digit++) {
        value = 10 * value + (*digit - '0');
    }
    *number = is_negative ? -value : value;
    *kind = JSON_INTEGER;
    if (stop < end && *stop == '.') {
        first = stop + 1;
        if ((stop = after_digits(first, end)) == first) {
            return NULL;
        }
        *kind = JSON_FLOAT;
    }
    if (stop < end && (*stop | 0x20) == 'e') {
        first = stop + 1;
        first += first < end && (*first == '+' || *first == '-');
        if ((stop = after_digits(first, end)) == first) {
            return NULL;
        }
        *kind = JSON_FLOAT;
    }
    return stop;
}

static const uint8_t *read_word(const uint8_t *at, const uint8_t *end, const char *word) {
    const size_t n = strlen(word);
    return (size_t)(end - at) >= n && memcmp(at, word, n) == 0 ? at + n : NULL;
}

static const uint8_t *read_nested(const uint8_t *at, const uint8_t *end, int depth);

/* Read any value; `at < end`. */
static const uint8_t *read_value(const uint8_t *at, const uint8_t *end, int depth, uint8_t *kind, int64_t *number) {
    int is_escaped;
    *number = *at == 't';
    switch (*at) {
    case '"':
        at = read_text(at + 1, end, &is_escaped);
        *kind = is_escaped ? JSON_ESCAPED : JSON_TEXT;
        return at == NULL ? NULL : at + 1;
    case '[':
    case '{':
        *kind = JSON_NESTED;
        return depth < JSON_MAX_DEPTH ? read_nested(at, end, depth + 1) : NULL;
    case 't':
        *kind = JSON_BOOL;
        return read_word(at, end, "true");
    case 'f':
        *kind = JSON_BOOL;
        return read_word(at, end, "false");
    case 'n':
        *kind = JSON_NULL;
        return read_word(at, end, "null");
    default:
        return read_number(at, end, kind, number);
    }
}

/* Read a key behind its quote, and the colon, up to the value. */
static const uint8_t *read_key(const uint8_t *at, const uint8_t *end, const uint8_t **key_end, int *is_escaped) {
    if ((at = *key_end = read_text(at, end, is_escaped)) == NULL) {
        return NULL;
    }
    at = after_space(at + 1, end);
    if (at == end || *at != ':') {
        return NULL;
    }
    at = after_space(at + 1, end);
    return at < end ? at : NULL;
}

static const uint8_t *read_nested(const uint8_t *at, const uint8_t *end, int depth) {
    const int is_object = *at == '{', close = is_object ? '}' : ']';
    at = after_space(at + 1, end);
    if (at < end && *at == close) {
        return at + 1;
    }
    while (at < end) {
        const uint8_t *key_end;
        int is_escaped;
        uint8_t kind;
        int64_t number;
        if (is_object && (*at != '"' || (at = read_key(at + 1, end, &key_end, &is_escaped)) == NULL)) {
            return NULL;
        }
        if ((at = read_value(at, end, depth, &kind, &number)) == NULL || (at = after_space(at, end)) == end) {
            return NULL;
        }
        if (*at == close) {
            return at + 1;
        }
        if (*at != ',') {
            return NULL;
        }
        at = after_space(at + 1, end);
    }
    return NULL;
}

/* Return the number of a name, or -1; `guess` is the likeliest. */
static int64_t number_of(const json_name *names, int64_t n_names, int64_t guess, const uint8_t *key, int64_t n_bytes) {
    for (int64_t i = 0; i < n_names; i++) {
        const int64_t number = guess + i < n_names ? guess + i : guess + i - n_names;
        if (names[number].n_bytes == n_bytes && memcmp(names[number].bytes, key, (size_t)n_bytes) == 0) {
            return number;
        }
    }
    return -1;
}

/* Read the object of one record, whose values begin at `row` of the arrays. Return 0 if it is not simple. */
static int read_object(const uint8_t *buffer, const uint8_t *at, const uint8_t *end, const json_name *names,
                       int64_t n_names, int only_names, const json_values *values, int64_t row) {
    int64_t guess = 0;
    at = after_space(at, end);
    if (at == end || *at != '{') {
        return 0;
    }
    at = after_space(at + 1, end);
    while (at < end && *at == '"') {
        const uint8_t *key = at + 1, *key_end;
        int is_escaped;
        if ((at = read_key(key, end, &key_end, &is_escaped)) == NULL || is_escaped) {
            return 0;
        }
        const int64_t name = number_of(names, n_names, guess, key, key_end - key);
        if (name < 0 && only_names) {
            return 0;
        }
        const uint8_t *value = at;
        uint8_t kind;
        int64_t number;
        if ((at = read_value(value, end, 1, &kind, &number)) == NULL) {
            return 0;
        }
        if (name >= 0) {
            const int is_text = kind == JSON_TEXT || kind == JSON_ESCAPED;
            values[name].kinds[row] = kind;
            values[name].begins[row] = value - buffer + is_text;
            values[name].lengths[row] = at - value - 2 * is_text;
            values[name].numbers[row] = number;
            guess = name + 1 < n_names ? name + 1 : 0;
        }
        at = after_space(at, end);
        if (at == end || *at != ',') {
            break;
        }
        at = after_space(at + 1, end);
        if (at == end || *at != '"') {
            return 0;
        }
    }
    return at < end && *at == '}' && after_space(at + 1, end) == end;
}

int64_t json_find(const uint8_t *buffer, int64_t n_bytes, const int64_t *starts, const int64_t *lengths,
                  int64_t n_records, const json_name *names, int64_t n_names, int only_names,
                  const json_values *values) {
    for (int64_t row = 0; row < n_records; row++) {
        const int64_t start = starts[row], length = lengths[row];
        if (start < 0 || length < 0 || start > n_bytes || length > n_bytes - start) {
            return row;
        }
        for (int64_t name = 0; name < n_names; name++) {
            values[name].kinds[row] = JSON_ABSENT;
            values[name].begins[row] = values[name].lengths[row] = values[name].numbers[row] = 0;
        }
        const uint8_t *record = buffer + start;
        if (!wire_is_utf8(record, (size_t)length) ||
            !read_object(buffer, record, record + length, names, n_names, only_names, values, row)) {
            return row;
        }
    }
    return -1;
}

/* Write a character in UTF-8; return its bytes. */
static int64_t write_utf8(int32_t code, uint8_t *out) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    const int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6) {
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
    }
    out[0] = (uint8_t)((0xF0 << (4 - n)) | code);
    return n;
}

int64_t json_unescape(const uint8_t *buffer, int64_t n_bytes, const int64_t *begins, const int64_t *lengths,
                      int64_t n_texts, uint8_t *out, int64_t n_out, int64_t *n_written) {
    int64_t done = 0;
    for (int64_t i = 0; i < n_texts; i++) {
        const int64_t begin = begins[i], length = lengths[i], first = done;
        if (begin < 0 || length < 0 || begin > n_bytes || length > n_bytes - begin || length > n_out - done) {
            return -1; /* an escape is longer than its character, so `length` bytes suffice */
        }
        const uint8_t *at = buffer + begin, *end = at + length;
        while (at < end) {
            const uint8_t *escape = memchr(at, '\\', (size_t)(end - at));
            const uint8_t *stop = escape == NULL ? end : escape;
            memcpy(out + done, at, (size_t)(stop - at));
            done += stop - at;
            at = stop;
            if (escape != NULL) {
                int32_t code;
                if ((at = read_escape(escape + 1, end, &code)) == NULL) {
                    return -1;
                }
                done += write_utf8(code, out + done);
            }
        }
        n_written[i] = done - first;
    }
    return done;
}

/* Read one list; return the number of its integers, or -1. */
static int64_t read_integers(const uint8_t *at, const uint8_t *end, int64_t *out, int64_t n_out) {
    int64_t n = 0;
    if (at == end || *at != '[') {
        return -1;
    }
    at = after_space(at + 1, end);
    while (at < end && *at != ']') {
        uint8_t kind;
        if (n == n_out || (at = read_number(at, end, &kind, &out[n])) == NULL || kind != JSON_INTEGER) {
            return -1;
        }
        n++;
        at = after_space(at, end);
        if (at < end && *at == ',') {
            at = after_space(at + 1, end);
            if (at < end && *at == ']') {
                return -1;
            }
        } else if (at == end || *at != ']') {
            return -1;
        }
    }
    return at < end && after_space(at + 1, end) == end ? n : -1;
}

int64_t json_integers(const uint8_t *buffer, int64_t n_bytes, const int64_t *begins, const int64_t *lengths,
                      int64_t n_lists, int64_t *out, int64_t n_out, int64_t *n_written) {
    int64_t done = 0;
    for (int64_t i = 0; i < n_lists; i++) {
        const int64_t begin = begins[i], length = lengths[i];
        if (begin < 0 || length < 0 || begin > n_bytes || length > n_bytes - begin) {
            return -1;
        }
        n_written[i] = read_integers(buffer + begin, buffer + begin + length, out + done, n_out - done);
        if (n_written[i] < 0) {
            return -1;
        }
        done += n_written[i];
    }
    return done;
}
