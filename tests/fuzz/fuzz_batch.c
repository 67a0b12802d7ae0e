/* A batch is read exactly if all its extents fit, all blobs are sound and no file has changed, from memory, by every
 * engine and from a map: then each byte is in its place. Otherwise it fails, and nothing is written elsewhere. Input: files, then
 * fields and their extents. The content of all files is the same, with frames where the extents say. */
#include "fuzz_file.h"

#include <sys/stat.h>

#include "batch/batch.h"
#include "scan/tfrecord.h"

#define FILE_BYTES 24000 /* long blobs are read to their places */
#define MOST_FILES 4
#define MOST_FIELDS 3
#define MOST_ROWS 12
#define MOST_SHARES 3

typedef struct {
    int32_t file[MOST_ROWS];
    int64_t offset[MOST_ROWS], length[MOST_ROWS], place[MOST_ROWS + 1];
    uint32_t stored[MOST_ROWS];
} rows;

/* What the input describes. */
typedef struct {
    input in;
    uint64_t choice;
    int64_t most_bytes; /* of a file; all behind is the original content */
    int is_changed;     /* files that have a time have another one on the disk */
    batch_file files[MOST_FILES];
    batch_field fields[MOST_FIELDS];
    rows rows[MOST_FIELDS];
    batch plan;
} described;

static uint8_t original[FILE_BYTES], content[FILE_BYTES];
static int64_t n_different; /* bytes at the front of `content`, and of the file, that may differ from the original */
static int disk_file;
static char disk_path[64];
static file_map disk_map;
static map_copier *copier; /* NULL if the system has none */
static crc_kernel *crc32, *crc32c;

static void remove_file(void) { unlink(disk_path); }

static void prepare(void) {
    fill(original, FILE_BYTES);
    disk_file = new_file(original, FILE_BYTES, disk_path);
    atexit(remove_file);
    copier = map_copier_take();
    if (copier != NULL) {
        CHECK(map_file(disk_file, FILE_BYTES + 100, &disk_map) == 0); /* some files are said to be as long */
    }
    crc32 = crc_choose(crc32_variants);
    crc32c = crc_choose(crc32c_variants);
}

/* ---- from the input */

static void take_files(described *d) {
    const int is_long = (d->choice >> 8) % 16 == 0;
    d->most_bytes = is_long ? FILE_BYTES : 1 + next_below(&d->in, 1000);
    d->plan.n_files = 1 + next_below(&d->in, MOST_FILES);
    for (int64_t i = 0; i < d->plan.n_files; i++) {
        const uint8_t how = next_byte(&d->in);
        const int64_t shorter = how >= 192 ? next_below(&d->in, d->most_bytes) : 0;
        batch_file *file = &d->files[i];
        *file = (batch_file){NULL, how % 16 == 1 ? BATCH_SKIP : how % 32 == 2 ? -1 : disk_file, 0, -1, NULL};
        file->n_bytes = how % 32 == 3 ? FILE_BYTES : d->most_bytes - shorter; /* an unchanged file is as long as this */
        if (copier != NULL && file->fd == disk_file && how % 8 > 4) {
            file->map = &disk_map;
        }
        if (how % 2 == 0) {
            file->memory = original; /* replaced by a copy when its content is known */
        } else if (how % 64 == 5) {
            file->n_bytes = FILE_BYTES + 100; /* truncated meanwhile */
        }
    }
    d->plan.files = d->files;
}

static void take_framing(described *d, batch_field *field) {
    field->check = (batch_check)next_below(&d->in, BATCH_TFRECORD + 1);
    const int64_t least_head = field->check == BATCH_TFRECORD ? TFRECORD_HEAD : field->check == BATCH_LENGTH ? 8 : 0;
    const int64_t least_tail = field->check == BATCH_TFRECORD ? TFRECORD_TAIL : 0;
    const uint8_t more = next_byte(&d->in); /* mostly none */
    field->head = least_head + (more % 8 == 1 ? more % (BATCH_MAX_FRAMING - least_head + 1) : 0);
    field->tail = least_tail + (more % 8 == 2 ? more % (BATCH_MAX_FRAMING - least_tail + 1) : 0);
}

static void take_rows(described *d, batch_field *field, rows *made) {
    const int64_t n = next_below(&d->in, MOST_ROWS + 1);
    int64_t at = 0, next_offset = field->head;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t how = next_byte(&d->in);
        made->file[i] = how < 250 ? how % (int32_t)d->plan.n_files : (int32_t)next_number(&d->in);
        made->length[i] = how % 16 == 15 ? next_number(&d->in) : next_below(&d->in, d->most_bytes > 999 ? 9000 : 99);
        made->offset[i] = how % 32 == 14 ? next_number(&d->in) : next_offset;
        made->place[i] = at;
        at += made->length[i] > 0 && made->length[i] <= FILE_BYTES ? made->length[i] : 0;
        next_offset = made->offset[i] > FILE_BYTES || made->offset[i] < 0 || made->length[i] < 0 ? field->head
                                                                                                : next_offset;
        next_offset += made->length[i] >= 0 && made->length[i] <= FILE_BYTES ? made->length[i] : 0;
        next_offset += field->tail + field->head + (how % 4 == 3 ? next_byte(&d->in) : 0);
    }
    made->place[n] = at;
    const uint8_t how = next_byte(&d->in);
    if (how == 255) {
        made->place[next_below(&d->in, n + 1)] += next_number(&d->in) & 1023;
    }
    field->n_out = at + (how == 253) - (how == 254 && at > 0);
    field->extents = (layout_extents){made->file, made->offset, made->length, made->stored, n};
    field->place = made->place;
}

static void take_slice(described *d, batch_field *field) {
    if (next_byte(&d->in) % 4 == 0) {
        const int64_t begin = next_number(&d->in), n_bytes = 1 + next_below(&d->in, 600);
        const int64_t n = field->extents.n - (next_byte(&d->in) == 255);
        field->slice = (batch_slice){begin, n_bytes, NULL, (n < 0 ? 0 : n) * n_bytes};
    }
}

/* ---- what must happen */

static int is_in_place(const described *d, const batch_field *field, int64_t i) {
    const layout_extents *extents = &field->extents;
    const __int128 offset = extents->offset[i], length = extents->length[i];
    const int32_t file = extents->file[i];
    return file >= 0 && file < d->plan.n_files && length >= 0 && offset >= field->head &&
           offset + length + field->tail <= d->files[file].n_bytes && field->place[i + 1] - field->place[i] == length &&
           field->place[i] + length <= field->n_out &&
           (field->slice.n_bytes == 0 || (i + 1) * field->slice.n_bytes <= field->slice.n_out);
}

static int fits(const described *d) {
    for (int64_t i = 0; i < d->plan.n_fields; i++) {
        for (int64_t row = 0; row < d->fields[i].extents.n; row++) {
            if (!is_in_place(d, &d->fields[i], row)) {
                return 0;
            }
        }
        if (d->fields[i].place[0] != 0) {
            return 0;
        }
    }
    return 1;
}

static int is_there(const batch_file *file, int64_t stop) {
    const int is_cut = file->map != NULL && file->n_bytes > FILE_BYTES; /* then nothing is read from the map */
    return file->memory != NULL || (file->fd >= 0 && stop <= FILE_BYTES && !is_cut);
}

static int is_sound(const batch_field *field, int64_t i) {
    const uint8_t *at = content + field->extents.offset[i], *head = at - field->head;
    const int64_t length = field->extents.length[i];
    const uint32_t *stored = field->extents.stored == NULL ? NULL : &field->extents.stored[i];
    if (field->check == BATCH_CRC32) {
        return stored == NULL || *stored == crc32_portable(0, at, (size_t)length);
    }
    if (field->check == BATCH_UNCHECKED) {
        return 1;
    }
    if (load64_le(head) != (uint64_t)length || field->check == BATCH_LENGTH) {
        return load64_le(head) == (uint64_t)length;
    }
    const uint32_t tail = load32_le(at + length);
    return load32_le(head + 8) == tfrecord_masked(crc32c_portable(0, head, 8)) &&
           tail == tfrecord_masked(crc32c_portable(0, at, (size_t)length)) && (stored == NULL || *stored == tail);
}

/* Return whether a batch that fits is read. */
static int is_readable(const described *d) {
    for (int64_t i = 0; i < d->plan.n_fields; i++) {
        const batch_field *field = &d->fields[i];
        for (int64_t row = 0; row < field->extents.n; row++) {
            const batch_file *file = &d->files[field->extents.file[row]];
            const int64_t stop = field->extents.offset[row] + field->extents.length[row] + field->tail;
            const int is_nothing = field->head + field->extents.length[row] + field->tail == 0;
            if (file->memory == NULL && file->fd == BATCH_SKIP && !is_nothing) {
                continue;
            }
            if (!is_nothing && !is_there(file, stop)) {
                return 0;
            }
            if (!is_nothing && file->memory == NULL && file->mtime_ns >= 0 &&
                (file->n_bytes != FILE_BYTES || d->is_changed)) {
                return 0;
            }
            if (is_nothing ? field->check == BATCH_CRC32 && field->extents.stored != NULL &&
                                 field->extents.stored[row] != 0
                           : !is_sound(field, row)) {
                return 0;
            }
        }
    }
    return 1;
}

static void check_row(const batch_field *field, int64_t i) {
    const uint8_t *from = content + field->extents.offset[i], *to = field->out + field->place[i];
    const int64_t length = field->extents.length[i], n_bytes = field->slice.n_bytes;
    const __int128 begin = field->slice.begin + (__int128)(field->slice.begin < 0 ? length : 0);
    if (length == 0) {
        return;
    }
    if (n_bytes == 0 || begin < 0 || begin + n_bytes > length) {
        CHECK(memcmp(to, from, (size_t)length) == 0);
        return;
    }
    const int64_t end = (int64_t)begin + n_bytes;
    CHECK(memcmp(to, from, (size_t)begin) == 0);
    CHECK(memcmp(field->slice.out + i * n_bytes, from + begin, (size_t)n_bytes) == 0);
    CHECK(memcmp(to + end, from + end, (size_t)(length - end)) == 0);
}

static void check_read(const described *d) {
    for (int64_t i = 0; i < d->plan.n_fields; i++) {
        const batch_field *field = &d->fields[i];
        for (int64_t row = 0; row < field->extents.n; row++) {
            const batch_file *file = &d->files[field->extents.file[row]];
            if (file->memory != NULL || file->fd != BATCH_SKIP) {
                check_row(field, row);
            }
        }
    }
}

/* ---- content */

/* Write the frame of a row around its blob, and its checksum. */
static void put_frame(batch_field *field, rows *made, int64_t i) {
    uint8_t *at = content + made->offset[i], *head = at - field->head;
    const int64_t length = made->length[i];
    const uint32_t sum = tfrecord_masked(crc32c(0, at, (size_t)length));
    if (field->check == BATCH_LENGTH || field->check == BATCH_TFRECORD) {
        memcpy(head, &length, 8);
    }
    if (field->check == BATCH_TFRECORD) {
        const uint32_t masked = tfrecord_masked(crc32c(0, head, 8));
        memcpy(head + 8, &masked, 4);
        memcpy(at + length, &sum, 4);
    }
    made->stored[i] = field->check == BATCH_CRC32 ? crc32(0, at, (size_t)length) : sum;
}

static void put_frames(described *d) {
    const uint8_t broken = next_byte(&d->in);
    for (int64_t i = 0; i < d->plan.n_fields; i++) {
        for (int64_t row = 0; row < d->fields[i].extents.n; row++) {
            const layout_extents *extents = &d->fields[i].extents;
            const __int128 stop = (__int128)extents->offset[row] + extents->length[row] + d->fields[i].tail;
            d->rows[i].stored[row] = 0;
            if (extents->length[row] >= 0 && extents->offset[row] >= d->fields[i].head && stop <= d->most_bytes) {
                put_frame(&d->fields[i], &d->rows[i], row);
            }
        }
        if (next_byte(&d->in) % 4 == 0) {
            d->fields[i].extents.stored = NULL;
        }
    }
    if (broken >= 192) { /* a bit of anything */
        content[next_below(&d->in, d->most_bytes)] ^= (uint8_t)(1 << broken % 8);
    }
}

/* Put the content on the disk and into memory, and the times into the files. */
static void store(described *d) {
    struct stat info;
    const int is_timed = (d->choice >> 12) % 8 == 0;
    const size_t n_bytes = (size_t)(n_different > d->most_bytes ? n_different : d->most_bytes);
    CHECK(pwrite(disk_file, content, n_bytes, 0) == (ssize_t)n_bytes);
    n_different = d->most_bytes;
    d->is_changed = (d->choice >> 16) % 2 == 0;
    CHECK(!is_timed || fstat(disk_file, &info) == 0);
    for (int64_t i = 0; i < d->plan.n_files; i++) {
        batch_file *file = &d->files[i];
        if (file->memory != NULL) {
            file->memory = exact_copy(content, (size_t)file->n_bytes);
        } else if (is_timed) {
            file->mtime_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec + d->is_changed;
        }
    }
}

/* ---- reading */

static void describe(described *d) {
    memcpy(content, original, (size_t)n_different);
    take_files(d);
    d->plan.n_fields = next_below(&d->in, MOST_FIELDS + 1);
    d->plan.fields = d->fields;
    d->plan.crc32 = crc32;
    d->plan.crc32c = crc32c;
    for (int64_t i = 0; i < d->plan.n_fields; i++) {
        take_framing(d, &d->fields[i]);
        take_rows(d, &d->fields[i], &d->rows[i]);
        take_slice(d, &d->fields[i]);
    }
    put_frames(d);
    store(d);
}

/* Allocate everything that the kernels write to. Return the number of rows that may be read from descriptors. */
static int64_t make_room(described *d) {
    int64_t n_rows = 0, n_on_disk = 0;
    for (int64_t i = 0; i < d->plan.n_fields; i++) {
        batch_field *field = &d->fields[i];
        field->out = exact_room((size_t)field->n_out);
        field->slice.out = field->slice.n_bytes == 0 ? NULL : exact_room((size_t)field->slice.n_out);
        n_rows += field->extents.n;
    }
    for (int64_t i = 0; i < d->plan.n_files; i++) {
        n_on_disk += d->files[i].memory == NULL && d->files[i].fd != BATCH_SKIP;
    }
    n_rows = n_on_disk > 0 ? n_rows : 0;
    d->plan.spans = n_on_disk > 0 ? exact_room((size_t)n_rows * sizeof *d->plan.spans) : NULL;
    d->plan.runs = n_on_disk > 0 ? exact_room((size_t)n_rows * sizeof *d->plan.runs) : NULL;
    return n_rows;
}

static void release(described *d) {
    for (int64_t i = 0; i < d->plan.n_fields; i++) {
        free(d->fields[i].out);
        free(d->fields[i].slice.out);
    }
    for (int64_t i = 0; i < d->plan.n_files; i++) {
        free((void *)(uintptr_t)d->files[i].memory);
    }
    free(d->plan.spans);
    free(d->plan.runs);
}

static int read_left(batch *plan, read_engine *engine) {
    int64_t n_scratch;
    const int64_t n = batch_left(plan, &n_scratch);
    uint8_t *scratch = exact_room((size_t)n_scratch);
    read_request *requests = exact_room((size_t)n * sizeof *requests);
    read_part *parts = exact_room((size_t)plan->n_spans * BATCH_SPAN_PARTS * sizeof *parts);
    const int result = batch_read(plan, engine, n, scratch, requests, parts);
    free(scratch);
    free(requests);
    free(parts);
    return result;
}

/* Do the three steps of a read. Return 0, or -1. */
static int read_all(batch *plan, read_engine *engine, int64_t n_shares) {
    uint8_t *scratch = exact_room((size_t)plan->n_scratch);
    read_part *parts = exact_room(READ_MAX_PARTS * sizeof *parts);
    int result = 0, waited = 0;
    for (int64_t share = 0; result == 0 && share < n_shares; share++) {
        result = batch_copy(plan, share, n_shares);
        if (result == 0 && plan->n_runs > 0) {
            result = batch_try(plan, engine, share, n_shares, scratch, parts, copier, &waited);
        }
    }
    free(scratch);
    free(parts);
    return result < 0 || plan->n_runs == 0 ? result : read_left(plan, engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static described d;
    if (disk_file == 0) {
        prepare();
    }
    memset(&d, 0, sizeof d);
    d.in = (input){data, data + size};
    d.choice = choice_of(data, size);
    describe(&d);
    const int64_t n_rows = make_room(&d);
    const int is_fit = fits(&d);
    CHECK(batch_plan(&d.plan) == (is_fit ? 0 : -1));
    if (is_fit) {
        CHECK(d.plan.n_spans <= n_rows && d.plan.n_runs <= d.plan.n_spans && batch_effort(&d.plan) >= 0);
        const int result = read_all(&d.plan, engine_of(d.choice >> 24), 1 + (int64_t)(d.choice >> 20) % MOST_SHARES);
        CHECK(result == (is_readable(&d) ? 0 : -1));
        if (result == 0) {
            check_read(&d);
        }
    }
    release(&d);
    return 0;
}
