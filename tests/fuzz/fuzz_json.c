/* Any bytes are records of JSON or not: values lie inside their record, and text is copied without its escapes as UTF-8.
 * Input: what to choose, then two records. */
#include "fuzz.h"
#include "json/json_fields.h"
#include "wire/wire_reader.h"

#define RECORDS 2
#define NAMES 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const json_name names[NAMES] = {
        {(const uint8_t *)"a", 1}, {(const uint8_t *)"b", 1}, {(const uint8_t *)"text", 4}};
    input in = {data, data + size};
    const int64_t n_names = next_below(&in, NAMES + 1);
    const int only_names = next_byte(&in) % 2;
    const int64_t n_bytes = (int64_t)left_in(&in), cut = n_bytes > 0 ? next_below(&in, n_bytes) : 0;
    const uint8_t *buffer = exact_copy(in.at, left_in(&in));
    const int64_t left = (int64_t)left_in(&in), first = cut < left ? cut : left;
    const int64_t starts[RECORDS] = {0, first}, lengths[RECORDS] = {first, left - first};
    uint8_t kinds[NAMES][RECORDS];
    int64_t begins[NAMES][RECORDS], sizes[NAMES][RECORDS], numbers[NAMES][RECORDS];
    json_values values[NAMES];
    for (int i = 0; i < NAMES; i++) {
        values[i] = (json_values){kinds[i], begins[i], sizes[i], numbers[i]};
    }
    const int64_t failed = json_find(buffer, left, starts, lengths, RECORDS, names, n_names, only_names, values);
    CHECK(failed >= -1 && failed < RECORDS);
    const int64_t n_sound = failed < 0 ? RECORDS : failed;
    for (int64_t i = 0; i < n_names * n_sound; i++) {
        const int64_t name = i / n_sound, row = i % n_sound, begin = begins[name][row], length = sizes[name][row];
        CHECK(kinds[name][row] <= JSON_NESTED && length >= 0);
        CHECK(kinds[name][row] == JSON_ABSENT || begin > starts[row]);
        CHECK(begin + length <= starts[row] + lengths[row]);
        if (kinds[name][row] == JSON_NESTED) {
            int64_t *out = exact_room((size_t)length / 2 * sizeof *out), n_written;
            const int64_t n = json_integers(buffer, left, &begin, &length, 1, out, length / 2, &n_written);
            CHECK(n == -1 || (n == n_written && n <= length / 2));
            free(out);
        }
        if (kinds[name][row] != JSON_TEXT && kinds[name][row] != JSON_ESCAPED) {
            continue;
        }
        uint8_t *out = exact_room((size_t)length);
        int64_t n_written;
        CHECK(json_unescape(buffer, left, &begin, &length, 1, out, length, &n_written) == n_written);
        CHECK(n_written <= length && (kinds[name][row] == JSON_ESCAPED ? n_written < length : n_written == length));
        CHECK(wire_is_utf8(out, (size_t)n_written));
        free(out);
    }
    const int64_t begin = next_number(&in), length = next_number(&in), n_out = next_below(&in, 64);
    uint8_t *out = exact_room((size_t)n_out);
    int64_t n_written;
    const int64_t copied = json_unescape(buffer, left, &begin, &length, 1, out, n_out, &n_written);
    CHECK(copied >= -1 && copied <= n_out);
    free(out);
    int64_t *integers = exact_room((size_t)n_out * sizeof *integers);
    const int64_t n_read = json_integers(buffer, left, &begin, &length, 1, integers, n_out, &n_written);
    CHECK(n_read >= -1 && n_read <= n_out);
    free(integers);
    free((void *)buffer);
    return 0;
}
