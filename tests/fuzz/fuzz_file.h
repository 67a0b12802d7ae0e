/* A file on the disk whose content is known, and an engine of each kind: for the targets that read. */
#define _GNU_SOURCE /* before any header: mkstemp, pwrite */
#ifndef DATAFORMATS_FUZZ_FILE_H
#define DATAFORMATS_FUZZ_FILE_H

#include <stdio.h>
#include <unistd.h>

#include "fuzz.h"
#include "io/engine.h"

#define N_ENGINES 5

/* Return the descriptor of a new file of this content, and its name in `path`. */
static int new_file(const uint8_t *content, int64_t n_bytes, char path[64]) {
    snprintf(path, 64, "/tmp/dataformats-fuzz-XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && pwrite(fd, content, (size_t)n_bytes, 0) == n_bytes);
    return fd;
}

/* Fill with bytes of which no eight occur twice close to each other. */
static void fill(uint8_t *content, int64_t n_bytes) {
    uint64_t state = 1;
    for (int64_t i = 0; i < n_bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        content[i] = (uint8_t)(state >> 56);
    }
}

/* Return an engine, opened when it is first asked for; NULL: plain reads. */
static read_engine *engine_of(uint64_t choice) {
    static const char *const names[N_ENGINES] = {"auto", "threads", "uring", NULL, "libaio"};
    static read_engine *engines[N_ENGINES];
    static int is_opened[N_ENGINES];
    const size_t i = choice % 64 == 0 ? 4 : choice % 4; /* libaio rarely, because it waits for the disk */
    if (!is_opened[i] && names[i] != NULL) {
        engine_trouble trouble = {NULL, 0};
        is_opened[i] = 1;
        engines[i] = engine_open(names[i], &trouble);
        CHECK(engines[i] != NULL || trouble.what != NULL);
    }
    return engines[i];
}

#endif
