/* Runs a fuzz target without a fuzzer: on files, and on a fixed number of changed copies of each, the same every
 * time. For compilers without libFuzzer.
 *
 *     replay ROUNDS FILE... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST 65536

static uint64_t next(uint64_t *state) { /* xorshift64: G. Marsaglia, "Xorshift RNGs" */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The copy ends where its allocation does, so that a byte read behind it is noticed. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Change `data` in one place; return its new size. */
static size_t change(uint8_t *data, size_t size, uint64_t *state) {
    const size_t at = next(state) % size, other = next(state) % size;
    const size_t room = size - (at > other ? at : other), n = next(state) % (room < 64 ? room + 1 : 64);
    switch (next(state) % 6) {
    case 0:
        data[at] ^= (uint8_t)(1u << next(state) % 8);
        break;
    case 1:
        data[at] = (uint8_t)next(state);
        break;
    case 2:
        data[at] = next(state) % 2 ? 0xff : 0;
        break;
    case 3:
        memmove(data + at, data + other, n);
        break;
    case 4:
        memmove(data + at, data + at + n, size - at - n);
        return size - n > 0 ? size - n : 1;
    default:
        return at + 1;
    }
    return size;
}

static void run_changed(const uint8_t *data, size_t size, long rounds) {
    static uint8_t changed[MOST];
    uint64_t state = 0x9e3779b97f4a7c15u + size;
    run(data, size);
    for (long i = 0; i < rounds && size > 0; i++) {
        size_t left = size;
        memcpy(changed, data, size);
        for (uint64_t n = 1 + next(&state) % 4; n > 0; n--) {
            left = change(changed, left, &state);
        }
        run(changed, left);
    }
}

int main(int argc, char **argv) {
    static uint8_t data[MOST];
    const long rounds = argc > 1 ? atol(argv[1]) : 0;
    run(data, 0);
    for (int i = 2; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        const size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        run_changed(data, size, rounds);
    }
    return 0;
}
