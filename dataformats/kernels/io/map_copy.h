/* Copies short pieces of mapped files, many by one system call.
 *
 * `pwritev` copies them to a memfd, which is mapped: the operating system reads the pages of the files, so a file that
 * was truncated makes the call come short, where a plain copy would end the process (SIGBUS). A truncation inside the
 * last page reads as zeros: look at the size of the file afterwards. Pieces that are not in the page cache are waited
 * for, one page after the other.
 *
 * Linux, 64 bits. Elsewhere nothing opens, and nothing is mapped. */
#ifndef DATAFORMATS_MAP_COPY_H
#define DATAFORMATS_MAP_COPY_H

#include "io/read.h"

typedef struct map_copier map_copier;

#define MAP_COPY_BYTES (64 << 10) /* of one call: they stay in the second-level cache */
#define MAP_COPY_ALIGN 64         /* pieces that begin and end at such offsets are copied a fifth faster */

/* Return a copier that no other thread of this process has, until it is given back; NULL if the system refuses one. */
map_copier *map_copier_take(void);

void map_copier_give(map_copier *copier);

/* Copy pieces, together at most MAP_COPY_BYTES. Return where they lie, back to back, until the next call; NULL if the
 * system did not copy them all. */
const uint8_t *map_copy(map_copier *copier, const read_part *pieces, int n_pieces);

/* Return the number of pages that this thread has waited for. */
int64_t map_waits(void);

/* A file that is mapped for reading. */
typedef struct {
    const uint8_t *memory;
    int64_t n_bytes;
    uint64_t device, inode;
} file_map;

/* Map a file. Return 0, or -1 if that is not possible, or if more than a quarter of the machine's memory would be mapped
 * in this process. */
int map_file(int fd, int64_t n_bytes, file_map *map);

void unmap_file(const file_map *map);

#endif
