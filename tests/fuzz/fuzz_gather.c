/* Any extents are gathered like a plain loop does it, or refused: the first that is outside the buffer or the output is
 * named. Input: what to choose, then extents; the data are the input. */
#include "batch/gather.h"
#include "fuzz.h"

#define MOST 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    const int64_t n = next_below(&in, MOST), n_out_given = next_number(&in);
    const int takes_sum = next_byte(&in) % 4 != 0;
    int64_t starts[MOST], lengths[MOST], sum = 0, wrong = -1;
    for (int64_t i = 0; i < n; i++) {
        starts[i] = next_number(&in);
        lengths[i] = next_number(&in);
        if (wrong < 0 && (starts[i] < 0 || lengths[i] < 0 || starts[i] > (int64_t)size ||
                          lengths[i] > (int64_t)size - starts[i])) {
            wrong = i;
        }
        sum += wrong < 0 ? lengths[i] : 0;
    }
    const int64_t n_out = takes_sum ? sum : (n_out_given & INT64_MAX) % 4096;
    uint8_t *buffer = exact_copy(data, size), *out = exact_room((size_t)n_out);
    const int64_t found = gather(buffer, (int64_t)size, starts, lengths, n, out, n_out);
    int64_t expected = -1, done = 0;
    for (int64_t i = 0; i < n && expected < 0; i++) {
        expected = i == wrong || lengths[i] > n_out - done ? i : -1;
        for (int64_t j = 0; expected < 0 && j < lengths[i]; j++, done++) {
            CHECK(found != -1 || out[done] == data[starts[i] + j]);
        }
    }
    CHECK(found == (expected >= 0 || done == n_out ? expected : n));
    free(buffer);
    free(out);
    return 0;
}
