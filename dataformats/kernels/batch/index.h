/* Finds records in the indexes of files: in packed blocks, or in a table of offsets and checksums.
 *
 * An index lies in memory, or in a file. What some records need of mapped files is copied by one system call
 * (`io/map_copy.h`): a plain read of a map would end the process if the file was truncated. Other files are opened for a
 * batch and read by `pread`. */
#ifndef DATAFORMATS_INDEX_H
#define DATAFORMATS_INDEX_H

#include <stdatomic.h>
#include <stdint.h>

#include "checksum/crc.h"
#include "io/map_copy.h"

#define INDEX_ROWS 64 /* of a block */
#define INDEX_BLOCK_BYTES (INDEX_ROWS * 16 + 12)

/* A column of a block: each number has `width` bytes, 1, 2, 4 or 8; or 0, and all are `constant`. */
typedef struct {
    int64_t constant;
    int width;
} index_column;

/* The index of one file. Blocks: see `indexing/block_file.py`; frames lie back to back. A table: offsets (int64), where
 * records lie back to back; the last ends at `end`. */
typedef struct {
    const uint8_t *memory; /* the bytes of the index; blocks are verified. NULL: they lie in the file at `path` */
    const char *path;
    file_map map; /* of that file; its memory may be NULL */
    int64_t n_bytes; /* of memory */
    int64_t base;    /* where blocks begin, or offsets */
    int64_t start;   /* of the first blob; of a table: where the first record must begin */
    int is_table;
    int64_t end, checksums;      /* of a table: the end of the file, and where checksums (uint32) begin */
    int64_t extra;               /* of blocks: framing bytes between blobs */
    index_column length, stored; /* of blocks; `stored` has constant 0 without checksums */
    uint32_t seal;
    _Atomic int64_t n; /* rows; 0 until all else is filled in */
} index_part;

typedef struct {
    const int64_t *starts; /* the number of each file's first record, and of all records */
    index_part *parts;
    int64_t n_files;
    crc_kernel *crc32;
} index_set;

#define INDEX_STAGED (MAP_COPY_BYTES / INDEX_BLOCK_BYTES) /* records: their blocks fit into one copy */

/* What one record needs of its index: a block; or offsets, and a checksum. */
#define INDEX_PIECES 2
typedef const uint8_t *index_pieces[INDEX_PIECES];

/* What a batch has open. */
typedef struct {
    const index_part *opened; /* the part whose file is `fd` */
    int fd;
    const index_part *part; /* the part of the block that was found sound last, unless that is NULL */
    int64_t block;
    const uint8_t *sound;
    const index_part *summed; /* the part of the row whose sum is known without its block, unless that is NULL */
    int64_t row;
    uint64_t sum; /* of the lengths before `row` */
    uint8_t bytes[INDEX_BLOCK_BYTES];
    map_copier *copier;
    index_pieces staged[INDEX_STAGED]; /* copied for records; NULL: not copied */
} index_cursor;

void index_begin(index_cursor *cursor);
void index_end(index_cursor *cursor);

/* Map the index of `n` rows in the file of a part, if the system and the budget of maps allow it. */
void index_map(index_part *part, int64_t n);

/* Return the bytes of the rows of all blocks of a part. */
int64_t index_blocks_bytes(const index_part *part, int64_t n);

/* Return whether all blocks of a part of `n` rows in memory are sound. */
int index_is_sound(const index_part *part, int64_t n, crc_kernel *crc32);

/* Return the file of a record; -1 if there is no such record. */
int32_t index_file_of(const index_set *set, int64_t record);

/* Begin to bring what `index_find` needs into the cache, if it is in memory; `file` may be -1. */
void index_prefetch(const index_set *set, int64_t record, int32_t file);

#define INDEX_AHEAD 8 /* records to prefetch before one is looked up */

/* Copy what the first records need of mapped indexes to `cursor->staged`. Return their number, at most INDEX_STAGED. */
int64_t index_stage(const index_set *set, index_cursor *cursor, const int64_t *records, int64_t n);

/* Find the blob of a record of a file. `staged` has what was copied for it, or is NULL. Return 0, or -1 if it is not
 * known here: its index is not loaded or damaged, or the record has a problem. */
int index_find(const index_set *set, index_cursor *cursor, const uint8_t *const *staged, int64_t record, int32_t file,
               int64_t *offset, int64_t *length, uint32_t *stored);

#endif
