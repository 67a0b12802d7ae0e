/* Any extents are gathered like a plain loop does it, or refused: the first that is outside its buffer or the output is
 * named. Input: what to choose, then extents; each buffer is the begin of the input. */
#include "batch/gather.h"
#include "fuzz.h"

#define MOST 24
#define BUFFERS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    const int64_t n = next_below(&in, MOST), n_out_given = next_number(&in);
    const int takes_sum = next_byte(&in) % 4 != 0;
    const int64_t n_buffers = next_below(&in, BUFFERS + 1);
    gather_buffer buffers[BUFFERS];
    for (int64_t i = 0; i < n_buffers; i++) {
        buffers[i].n_bytes = (int64_t)size / (i + 1);
        buffers[i].data = exact_copy(data, (size_t)buffers[i].n_bytes);
    }
    int64_t numbers[MOST] = {0}, starts[MOST] = {0}, lengths[MOST] = {0}, sum = 0, wrong = -1;
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = next_byte(&in) % 8 == 0 ? next_number(&in) : next_below(&in, BUFFERS);
        starts[i] = next_number(&in);
        lengths[i] = next_number(&in);
        const int exists = numbers[i] >= 0 && numbers[i] < n_buffers;
        const int64_t n_bytes = exists ? buffers[numbers[i]].n_bytes : 0;
        if (wrong < 0 && (!exists || starts[i] < 0 || lengths[i] < 0 || starts[i] > n_bytes ||
                          lengths[i] > n_bytes - starts[i])) {
            wrong = i;
        }
        sum += wrong < 0 ? lengths[i] : 0;
    }
    const int64_t n_out = takes_sum ? sum : (n_out_given & INT64_MAX) % 4096;
    uint8_t *out = exact_room((size_t)n_out);
    const int64_t found = gather(buffers, n_buffers, numbers, starts, lengths, n, out, n_out);
    int64_t expected = -1, done = 0;
    for (int64_t i = 0; i < n && expected < 0; i++) {
        expected = i == wrong || lengths[i] > n_out - done ? i : -1;
        for (int64_t j = 0; expected < 0 && j < lengths[i]; j++, done++) {
            CHECK(found != -1 || out[done] == data[starts[i] + j]);
        }
    }
    CHECK(found == (expected >= 0 || done == n_out ? expected : n));
    for (int64_t i = 0; i < n_buffers; i++) {
        free((void *)buffers[i].data);
    }
    free(out);
    return 0;
}
