/* For any lengths: the rows are those that a plain search over all rows finds, or the first wrong length is returned.
 * Input: 1 byte that chooses the length of a row, then lengths. */
#include "fuzz.h"
#include "pack/best_fit.h"

#define MOST 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t row_lengths[8] = {1, 7, 63, 64, 255, 4095, 4096, 20000};
    static int64_t spaces[MOST], used[MOST];
    input in = {data, data + size};
    const int64_t row_length = row_lengths[next_byte(&in) % 8];
    const int64_t n = (int64_t)(left_in(&in) < MOST ? left_in(&in) : MOST);
    int64_t *lengths = calloc((size_t)n, 8), *rows = exact_room((size_t)n * 8), failed = -1, n_rows = 0;
    const best_fit_room room = {exact_room((size_t)n * 8), calloc((size_t)row_length + 1, 8),
                                calloc((size_t)row_length / 64 + 1, 8), calloc((size_t)row_length / 4096 + 1, 8)};
    for (int64_t i = 0; i < n; i++) {
        const int64_t number = next_number(&in);
        lengths[i] = number % 16 == 0 ? number : 1 + (number & INT64_MAX) % row_length;
        if (failed < 0 && (lengths[i] < 1 || lengths[i] > row_length)) {
            failed = i;
        }
    }
    CHECK(best_fit(lengths, n, row_length, room, rows) == failed);
    for (int64_t i = 0; i < n && failed < 0; i++) {
        int64_t best = n_rows;
        for (int64_t row = 0; row < n_rows; row++) {
            if (spaces[row] >= lengths[i] && (best == n_rows || spaces[row] < spaces[best] ||
                                              (spaces[row] == spaces[best] && used[row] > used[best]))) {
                best = row;
            }
        }
        if (best == n_rows) {
            spaces[n_rows++] = row_length;
        }
        spaces[best] -= lengths[i];
        used[best] = i;
        CHECK(rows[i] == best);
    }
    free(lengths);
    free(rows);
    free(room.next);
    free(room.first);
    free(room.words);
    free(room.groups);
    return 0;
}
