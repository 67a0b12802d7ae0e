#include "pack/best_fit.h"

/* Return the number of the lowest set bit of `bits`, which is not 0. Of a product with a de Bruijn sequence, six bits
 * tell which one it was: every compiler has multiplication. */
static int64_t lowest_bit(uint64_t bits) {
    static const int8_t numbers[64] = {
        0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
        22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
        23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12};
    return numbers[((bits & (~bits + 1)) * 0x022fdd63cc95386du) >> 58];
}

/* Return the least room, at least `length`, that a row has; 0 if none has so much. */
static int64_t least_room(const best_fit_room *room, int64_t length, int64_t row_length) {
    int64_t word = length / 64;
    uint64_t bits = room->words[word] & ~(uint64_t)0 << length % 64;
    if (bits != 0) {
        return word * 64 + lowest_bit(bits);
    }
    uint64_t behind = ~(uint64_t)0 << ++word % 64;
    for (int64_t group = word / 64; group <= row_length / 4096; group++, behind = ~(uint64_t)0) {
        bits = room->groups[group] & behind;
        if (bits != 0) {
            word = group * 64 + lowest_bit(bits);
            return word * 64 + lowest_bit(room->words[word]);
        }
    }
    return 0;
}

static int64_t pop(best_fit_room *room, int64_t space) {
    const int64_t row = room->first[space] - 1, word = space / 64;
    room->first[space] = room->next[row];
    if (room->first[space] == 0) {
        room->words[word] &= ~((uint64_t)1 << space % 64);
        if (room->words[word] == 0) {
            room->groups[word / 64] &= ~((uint64_t)1 << word % 64);
        }
    }
    return row;
}

static void push(best_fit_room *room, int64_t row, int64_t space) {
    const int64_t word = space / 64;
    room->next[row] = room->first[space];
    room->first[space] = row + 1;
    room->words[word] |= (uint64_t)1 << space % 64;
    room->groups[word / 64] |= (uint64_t)1 << word % 64;
}

int64_t best_fit(const int64_t *lengths, int64_t n, int64_t row_length, best_fit_room room, int64_t *rows) {
    int64_t n_rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = lengths[i]; /* read once: another thread may write to `lengths` meanwhile */
        if (length < 1 || length > row_length) {
            return i;
        }
        int64_t space = least_room(&room, length, row_length);
        const int64_t row = space == 0 ? n_rows++ : pop(&room, space);
        space = space == 0 ? row_length : space;
        rows[i] = row;
        if (space > length) {
            push(&room, row, space - length);
        }
    }
    return -1;
}
