#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* st_mtim */
#endif
#include "batch/batch.h"

#include <stdlib.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/stat.h>
#include <sys/types.h>
#define DATAFORMATS_POSIX 1
#endif

#include "checksum/crc_copy.h"
#include "io/request.h"
#include "scan/tfrecord.h"

#define GAP 4096             /* neighbors at most a page apart are read as one */
#define RUN_BYTES (256 << 10) /* read, verified and copied while in the second-level cache */
#define DIRECT_BYTES 4096    /* longer blobs are read to their places; shorter ones are copied there, or are one piece */
#define FRAMING_BYTES (2 * BATCH_MAX_FRAMING) /* scratch memory for each blob that is read to its place */
#define RUN_EFFORT 4096       /* bytes whose copy costs as much as a system call; reading costs twice a copy */
#define GROUP 64             /* blobs that are copied together */
#define PREFETCHED_BYTES 4096 /* longer blobs come as fast without */
#define NEAR_BYTES (64 << 10) /* are prefetched at once */
#define LINE_BYTES 64
#define PROBED_RUNS 8           /* are copied first: if they have to be waited for, the others are not */
#define MAPPED_BYTES (6 << 10) /* of longer runs, reading takes less time than touching the pages of a map */

/* ---- planning */

/* Return whether a blob lies in its file, and its place is `at`, in [0, n_out]. */
static int fits(const batch *plan, const batch_field *field, int64_t row, int64_t at) {
    const layout_extents *extents = &field->extents;
    const int32_t file = extents->file[row];
    const batch_slice *slice = &field->slice;
    return file >= 0 && file < plan->n_files && field->place[row] == at && extents->length[row] <= field->n_out - at &&
           (slice->n_bytes == 0 || row < slice->n_out / slice->n_bytes) &&
           layout_lies_in(plan->files[file].n_bytes, extents->offset[row], extents->length[row], field->head,
                          field->tail);
}

/* Return whether a row needs no read: an empty blob without framing. */
static int is_nothing(const batch_field *field, int64_t row) {
    return field->head + field->extents.length[row] + field->tail == 0;
}

/* Return whether the file of a row is read through its descriptor. */
static int is_read(const batch *plan, const batch_field *field, int64_t row) {
    const batch_file *file = &plan->files[field->extents.file[row]];
    return file->memory == NULL && file->fd != BATCH_SKIP;
}

static int by_place(const void *left, const void *right) {
    const batch_span *a = left, *b = right;
    if (a->file != b->file) {
        return a->file < b->file ? -1 : 1;
    }
    return a->start == b->start ? 0 : a->start < b->start ? -1 : 1;
}

static void sort_spans(batch_span *spans, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        if (by_place(&spans[i - 1], &spans[i]) > 0) {
            qsort(spans, (size_t)n, sizeof *spans, by_place);
            return;
        }
    }
}

static int is_long(const batch_span *span) { return span->stop - span->start >= DIRECT_BYTES; }

/* Return whether a run with these first spans has blobs that are read to their places: long ones and their short
 * neighbors. */
static int begins_long(const batch_span *first, int64_t n) { return is_long(first) || (n > 1 && is_long(first + 1)); }

/* Return whether the blobs of a run lie in one output as they do in the file, with nothing between: one piece. */
static int is_one_piece(const batch *plan, const batch_run *run) {
    const batch_span *first = &plan->spans[run->first];
    const batch_field *field = &plan->fields[first->field];
    if (field->head + field->tail > 0 || (run->n > 1 && field->slice.n_bytes > 0)) {
        return 0;
    }
    for (const batch_span *span = first + 1; span < first + run->n; span++) {
        if (span->field != first->field || span->start != span[-1].stop ||
            field->place[span->row] - field->place[first->row] != span->start - first->start) {
            return 0;
        }
    }
    return 1;
}

/* Return whether the blobs of a run are read to their places. */
static int is_direct(const batch *plan, const batch_run *run) {
    return begins_long(&plan->spans[run->first], run->n) || is_one_piece(plan, run);
}

/* Return whether `next` is read together with the run from `first` to `last`. */
static int joins(const batch_span *first, const batch_span *last, const batch_span *next) {
    return next->file == last->file && next->start >= last->stop && next->start - last->stop <= GAP &&
           next->stop - first->start <= RUN_BYTES &&
           (next == first + 1 || begins_long(first, next - first) || !is_long(next)) &&
           next - first < READ_MAX_PARTS / BATCH_SPAN_PARTS;
}

static int64_t scratch_of(const batch *plan, const batch_run *run) {
    const batch_span *first = &plan->spans[run->first], *last = first + run->n - 1;
    const int64_t gap = run->n > 1 ? GAP : 0;
    return run->is_direct ? run->n * FRAMING_BYTES + gap : (last->stop - first->start + 63) & ~(int64_t)63;
}

static void cut_runs(batch *plan) {
    const batch_span *spans = plan->spans;
    plan->n_runs = 0;
    plan->n_scratch = 0;
    for (int64_t first = 0; first < plan->n_spans;) {
        int64_t end = first + 1;
        while (end < plan->n_spans && joins(&spans[first], &spans[end - 1], &spans[end])) {
            end++;
        }
        batch_run *run = &plan->runs[plan->n_runs++];
        *run = (batch_run){first, end - first, 0, 0, 0};
        run->is_direct = is_direct(plan, run);
        const int64_t n_scratch = scratch_of(plan, run);
        plan->n_scratch = n_scratch > plan->n_scratch ? n_scratch : plan->n_scratch;
        first = end;
    }
}

int batch_plan(batch *plan) {
    plan->n_spans = 0;
    for (int64_t number = 0; number < plan->n_fields; number++) {
        const batch_field *field = &plan->fields[number];
        int64_t at = 0;
        for (int64_t row = 0; row < field->extents.n; row++) {
            if (!fits(plan, field, row, at)) {
                return -1;
            }
            at += field->extents.length[row];
            if (is_read(plan, field, row) && !is_nothing(field, row)) {
                const int64_t start = field->extents.offset[row] - field->head;
                const int64_t stop = field->extents.offset[row] + field->extents.length[row] + field->tail;
                plan->spans[plan->n_spans++] =
                    (batch_span){start, stop, row, field->extents.file[row], (int32_t)number};
            }
        }
        if (field->place[field->extents.n] != at) {
            return -1;
        }
    }
    sort_spans(plan->spans, plan->n_spans);
    cut_runs(plan);
    return 0;
}

int64_t batch_effort(const batch *plan) {
    int64_t effort = plan->n_runs * RUN_EFFORT;
    for (int64_t number = 0; number < plan->n_fields; number++) {
        const batch_field *field = &plan->fields[number];
        effort += field->place[field->extents.n];
    }
    for (int64_t i = 0; i < plan->n_spans; i++) {
        effort += plan->spans[i].stop - plan->spans[i].start;
    }
    return effort;
}

/* ---- the parts of a blob */

#define BLOB_PIECES 3

/* A piece of a blob, and its place. */
typedef struct {
    uint8_t *to;
    int64_t at, n_bytes;
} blob_piece;

/* Return the number of pieces of a blob: one, or three if it has a slice: before, slice, behind. */
static int pieces_of(const batch_field *field, int64_t row, blob_piece pieces[BLOB_PIECES]) {
    const batch_slice *slice = &field->slice;
    const int64_t length = field->extents.length[row];
    const int64_t begin = slice->begin + (slice->begin < 0 ? length : 0);
    uint8_t *to = field->out + field->place[row];
    if (slice->n_bytes == 0 || begin < 0 || slice->n_bytes > length || begin > length - slice->n_bytes) {
        pieces[0] = (blob_piece){to, 0, length};
        return 1;
    }
    const int64_t end = begin + slice->n_bytes;
    pieces[0] = (blob_piece){to, 0, begin};
    pieces[1] = (blob_piece){slice->out + row * slice->n_bytes, begin, slice->n_bytes};
    pieces[2] = (blob_piece){to + end, end, length - end};
    return BLOB_PIECES;
}

/* ---- verifying */

static crc_kernel *sum_of(const batch *plan, const batch_field *field) {
    switch (field->check) {
    case BATCH_CRC32:
        return field->extents.stored == NULL ? NULL : plan->crc32;
    case BATCH_TFRECORD:
        return plan->crc32c;
    default:
        return NULL;
    }
}

static int framing_is_sound(const batch *plan, const batch_field *field, int64_t row, const uint8_t *head,
                            const uint8_t *tail, uint32_t crc) {
    const uint64_t length = (uint64_t)field->extents.length[row];
    switch (field->check) {
    case BATCH_UNCHECKED:
        return 1;
    case BATCH_CRC32:
        return field->extents.stored == NULL || field->extents.stored[row] == crc;
    case BATCH_LENGTH:
        return load64_le(head) == length;
    case BATCH_TFRECORD:
        return load64_le(head) == length && tfrecord_head_is_sound(plan->crc32c, head) &&
               load32_le(tail) == tfrecord_masked(crc) &&
               (field->extents.stored == NULL || field->extents.stored[row] == load32_le(tail));
    }
    return 0;
}

/* A blob in memory, with its framing around it. */
typedef struct {
    int64_t row;
    const uint8_t *from;
} arrival;

/* Copy at most GROUP blobs of one field to their places. Return whether all are valid. */
static int deliver(const batch *plan, const batch_field *field, const arrival *arrivals, int64_t n) {
    blob_piece pieces[GROUP][BLOB_PIECES];
    int n_pieces[GROUP];
    uint32_t crcs[GROUP];
    for (int64_t i = 0; i < n; i++) {
        n_pieces[i] = pieces_of(field, arrivals[i].row, pieces[i]);
        crcs[i] = 0;
    }
    for (int number = 0; number < BLOB_PIECES; number++) {
        crc_copy copies[GROUP];
        int64_t of[GROUP], n_copies = 0;
        for (int64_t i = 0; i < n; i++) {
            const blob_piece *piece = &pieces[i][number];
            if (number < n_pieces[i] && piece->n_bytes > 0) {
                copies[n_copies] =
                    (crc_copy){piece->to, arrivals[i].from + piece->at, (size_t)piece->n_bytes, crcs[i]};
                of[n_copies++] = i;
            }
        }
        crc_copies(sum_of(plan, field), copies, (size_t)n_copies);
        for (int64_t i = 0; i < n_copies; i++) {
            crcs[of[i]] = copies[i].crc;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = arrivals[i].row;
        const uint8_t *from = arrivals[i].from;
        if (!framing_is_sound(plan, field, row, from - field->head, from + field->extents.length[row], crcs[i])) {
            return 0;
        }
    }
    return 1;
}

/* ---- from memory */

/* Begin to bring bytes into the second-level cache, many lines at once: of short blobs here and there, the processor
 * would wait for one after the other. Safe for a page that a truncated file has lost. */
static void prefetch(const uint8_t *from, int64_t n_bytes) {
#ifdef __GNUC__
    const uint8_t *line = from - (uintptr_t)from % LINE_BYTES;
    for (; line < from + n_bytes; line += LINE_BYTES) {
        __builtin_prefetch(line, 0, 2);
    }
#else
    (void)from, (void)n_bytes;
#endif
}

/* Copy those of the rows `[first, stop)` that are in memory. */
static int copy_rows(const batch *plan, const batch_field *field, int64_t first, int64_t stop) {
    arrival arrivals[GROUP];
    int64_t n = 0, n_bytes = 0;
    for (int64_t row = first; row < stop; row++) {
        const uint8_t *memory = plan->files[field->extents.file[row]].memory;
        const int64_t length = field->extents.length[row];
        if (memory != NULL || is_nothing(field, row)) {
            arrivals[n++] = (arrival){row, memory == NULL ? field->out : memory + field->extents.offset[row]};
        }
        if (memory != NULL && length <= PREFETCHED_BYTES) {
            n_bytes += length;
            prefetch(memory + field->extents.offset[row] - field->head, field->head + length + field->tail);
        }
        if (n == GROUP || n_bytes >= NEAR_BYTES || (n > 0 && row == stop - 1)) {
            if (!deliver(plan, field, arrivals, n)) {
                return 0;
            }
            n = n_bytes = 0;
        }
    }
    return 1;
}

int batch_copy(const batch *plan, int64_t share, int64_t n_shares) {
    for (int64_t number = 0; number < plan->n_fields; number++) {
        const batch_field *field = &plan->fields[number];
        const int64_t n = field->extents.n, each = field->place[n] / n_shares;
        const int64_t first = share == 0 ? 0 : layout_row_at(field->place, n, each * share);
        const int64_t stop = share == n_shares - 1 ? n : layout_row_at(field->place, n, each * (share + 1));
        if (!copy_rows(plan, field, first, stop)) {
            return -1;
        }
    }
    return 0;
}

/* ---- from files */

#ifdef DATAFORMATS_POSIX

/* Add a piece of memory; one right behind the last piece makes that longer. */
static void add_part(read_request *request, uint8_t *base, int64_t n_bytes) {
    read_part *last = request->n_parts == 0 ? NULL : &request->parts[request->n_parts - 1];
    if (n_bytes > 0 && last != NULL && base == (uint8_t *)last->base + last->n_bytes) {
        last->n_bytes += (size_t)n_bytes;
    } else if (n_bytes > 0) {
        request->parts[request->n_parts++] = (read_part){base, (size_t)n_bytes};
    }
}

/* Scratch memory of a direct run: room for the framing of each blob, and then for the unused bytes between them. */
static uint8_t *framing_of(uint8_t *scratch, int64_t span) { return scratch + span * FRAMING_BYTES; }

static void place_request(const batch *plan, const batch_run *run, uint8_t *scratch, read_request *request,
                          read_part *parts) {
    const batch_span *first = &plan->spans[run->first], *last = first + run->n - 1;
    *request = (read_request){plan->files[first->file].fd, 0, first->start, last->stop - first->start, parts, 0, 0};
    if (!run->is_direct) {
        add_part(request, scratch, request->length);
        return;
    }
    for (int64_t i = 0; i < run->n; i++) {
        const batch_span *span = first + i;
        const batch_field *field = &plan->fields[span->field];
        uint8_t *framing = framing_of(scratch, i);
        add_part(request, framing_of(scratch, run->n), i == 0 ? 0 : span->start - span[-1].stop);
        add_part(request, framing, field->head);
        blob_piece pieces[BLOB_PIECES];
        const int n = pieces_of(field, span->row, pieces);
        for (int piece = 0; piece < n; piece++) {
            add_part(request, pieces[piece].to, pieces[piece].n_bytes);
        }
        add_part(request, framing + BATCH_MAX_FRAMING, field->tail);
    }
}

/* Verify a blob that was read to its place. */
static int verify(const batch *plan, const batch_span *span, const uint8_t *framing) {
    const batch_field *field = &plan->fields[span->field];
    crc_kernel *kernel = sum_of(plan, field);
    blob_piece pieces[BLOB_PIECES];
    const int n = kernel == NULL ? 0 : pieces_of(field, span->row, pieces);
    uint32_t crc = 0;
    for (int i = 0; i < n; i++) {
        crc = kernel(crc, pieces[i].to, (size_t)pieces[i].n_bytes);
    }
    return framing_is_sound(plan, field, span->row, framing, framing + BATCH_MAX_FRAMING, crc);
}

/* Blobs of one field on the way to their places. */
typedef struct {
    int32_t field;
    int64_t n;
    arrival arrivals[GROUP];
} delivery;

static int deliver_rest(const batch *plan, delivery *some) {
    const int64_t n = some->n;
    some->n = 0;
    return n == 0 || deliver(plan, &plan->fields[some->field], some->arrivals, n);
}

/* Copy the blobs of a run, which lie in memory from `from` on, to their places; some of them later. */
static int deliver_memory(const batch *plan, const batch_run *run, const uint8_t *from, delivery *some) {
    const batch_span *first = &plan->spans[run->first];
    for (int64_t i = 0; i < run->n; i++) {
        const batch_span *span = first + i;
        if ((some->n == GROUP || some->field != span->field) && !deliver_rest(plan, some)) {
            return 0;
        }
        some->field = span->field;
        some->arrivals[some->n++] =
            (arrival){span->row, from + (span->start - first->start) + plan->fields[span->field].head};
    }
    return 1;
}

static int deliver_scratch(const batch *plan, const batch_run *run, const uint8_t *scratch) {
    delivery some;
    some.field = 0;
    some.n = 0;
    return deliver_memory(plan, run, scratch, &some) && deliver_rest(plan, &some);
}

static int deliver_run(const batch *plan, const batch_run *run, uint8_t *scratch) {
    if (!run->is_direct) {
        return deliver_scratch(plan, run, scratch);
    }
    for (int64_t i = 0; i < run->n; i++) {
        if (!verify(plan, &plan->spans[run->first + i], framing_of(scratch, i))) {
            return 0;
        }
    }
    return 1;
}

/* Read without waiting for a disk. Return 1 if all was read, 0 if it needs waiting. */
static int read_warm(read_request *request) {
    request_begin(request);
    return request_try(request) == REQUEST_READ && request->error == 0 && request->done == request->length;
}

/* Return whether a map is of the file behind the descriptor, which still has all bytes: others read as zeros. */
static int is_mapped_whole(const batch_file *file, const struct stat *info) {
    return (uint64_t)info->st_dev == file->map->device && (uint64_t)info->st_ino == file->map->inode &&
           info->st_size >= file->n_bytes;
}

static int unchanged(const batch_file *file) {
    struct stat info;
    if (file->mtime_ns < 0 && file->map == NULL) {
        return 1;
    }
    if (fstat(file->fd, &info) != 0 || (file->map != NULL && !is_mapped_whole(file, &info))) {
        return 0;
    }
    if (file->mtime_ns < 0) {
        return 1;
    }
    if (info.st_nlink == 0) {
        return 0;
    }
#ifdef __APPLE__
    const struct timespec changed = info.st_mtimespec;
#else
    const struct timespec changed = info.st_mtim;
#endif
    return info.st_size == file->n_bytes &&
           (int64_t)changed.tv_sec * 1000000000 + changed.tv_nsec == file->mtime_ns;
}

static int all_unchanged(const batch *plan) {
    int32_t last = -1;
    for (int64_t i = 0; i < plan->n_spans; i++) {
        const int32_t file = plan->spans[i].file;
        if (file != last && !unchanged(&plan->files[file])) {
            return 0;
        }
        last = file;
    }
    return 1;
}

static int64_t bytes_of(const batch *plan, const batch_run *run) {
    return plan->spans[run->first + run->n - 1].stop - plan->spans[run->first].start;
}

int batch_is_short(const batch *plan, const batch_run *run) { return bytes_of(plan, run) <= MAPPED_BYTES; }

static int is_mapped(const batch *plan, const batch_run *run) {
    return plan->files[plan->spans[run->first].file].map != NULL && batch_is_short(plan, run);
}

/* Return the place of a run in its mapped file, with the bytes around it that make copying fast. */
static read_part piece_of(const batch *plan, const batch_run *run) {
    const batch_span *first = &plan->spans[run->first];
    const batch_file *file = &plan->files[first->file];
    const int64_t begin = first->start & -(int64_t)MAP_COPY_ALIGN, stop = first->start + bytes_of(plan, run);
    const int64_t end = (stop + MAP_COPY_ALIGN - 1) & -(int64_t)MAP_COPY_ALIGN; /* no further than its page */
    return (read_part){(void *)(uintptr_t)(file->map->memory + begin), (size_t)(end - begin)};
}

/* Copy and verify as many of the runs [first, end) as one call takes, at most READ_MAX_PARTS. Return their number, or -1
 * if a blob is invalid. */
static int64_t copy_mapped(const batch *plan, int64_t first, int64_t end, map_copier *copier, read_part *parts) {
    int64_t n = 0, n_bytes = 0;
    while (first + n < end && is_mapped(plan, &plan->runs[first + n])) {
        parts[n] = piece_of(plan, &plan->runs[first + n]);
        n_bytes += (int64_t)parts[n].n_bytes;
        if (n_bytes > MAP_COPY_BYTES) {
            break;
        }
        prefetch(parts[n].base, (int64_t)parts[n].n_bytes);
        n++;
    }
    const uint8_t *from = n == 0 ? NULL : map_copy(copier, parts, (int)n);
    delivery some;
    some.field = 0;
    some.n = 0;
    for (int64_t i = 0; from != NULL && i < n; i++) {
        batch_run *run = &plan->runs[first + i];
        if (!deliver_memory(plan, run, from + plan->spans[run->first].start % MAP_COPY_ALIGN, &some)) {
            return -1;
        }
        run->is_done = 1;
        from += parts[i].n_bytes;
    }
    return from == NULL ? 0 : deliver_rest(plan, &some) ? n : -1;
}

/* Copy and verify the first of the runs [first, end) that are short and mapped, until one has to be waited for. Return
 * their number, or -1 if a blob is invalid. */
static int64_t try_mapped(const batch *plan, int64_t first, int64_t end, map_copier *copier, read_part *parts,
                          int *waited) {
    const int64_t waits = map_waits();
    int64_t n = 0, more = 1;
    while (more > 0 && first + n < end && !*waited) {
        const int64_t most = n == 0 ? PROBED_RUNS : READ_MAX_PARTS, left = end - first - n;
        more = copy_mapped(plan, first + n, first + n + (left < most ? left : most), copier, parts);
        n += more;
        *waited = map_waits() != waits;
    }
    return more < 0 ? -1 : n;
}

int batch_try(const batch *plan, const read_engine *engine, int64_t share, int64_t n_shares, uint8_t *scratch,
              read_part *parts, map_copier *copier, int *waited) {
    const int try_first = read_tries_first(engine);
    if (engine != NULL && !try_first) {
        return 0;
    }
    const int64_t end = plan->n_runs * (share + 1) / n_shares;
    for (int64_t i = plan->n_runs * share / n_shares; i < end; i++) {
        if (copier != NULL && !*waited && is_mapped(plan, &plan->runs[i])) {
            const int64_t n = try_mapped(plan, i, end, copier, parts, waited);
            if (n < 0) {
                return -1;
            }
            i += n;
            if (i == end) {
                break;
            }
        }
        batch_run *run = &plan->runs[i];
        read_request request;
        place_request(plan, run, scratch, &request, parts);
        run->is_done = try_first ? read_warm(&request) : run_requests(NULL, &request, 1) < 0;
        if (run->is_done ? !deliver_run(plan, run, scratch) : engine == NULL) {
            return -1;
        }
    }
    return 0;
}

int64_t batch_left(batch *plan, int64_t *n_scratch) {
    int64_t n = 0;
    *n_scratch = 0;
    for (int64_t i = 0; i < plan->n_runs; i++) {
        if (!plan->runs[i].is_done) {
            plan->runs[n] = plan->runs[i];
            plan->runs[n].scratch = *n_scratch;
            *n_scratch += scratch_of(plan, &plan->runs[n++]);
        }
    }
    return n;
}

int batch_read(const batch *plan, read_engine *engine, int64_t n, uint8_t *scratch, read_request *requests,
               read_part *parts) {
    for (int64_t i = 0; i < n; i++) {
        const batch_run *run = &plan->runs[i];
        place_request(plan, run, scratch + run->scratch, &requests[i], parts + BATCH_SPAN_PARTS * run->first);
    }
    if (n > 0 && run_requests(engine, requests, n) >= 0) {
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        if (!deliver_run(plan, &plan->runs[i], scratch + plan->runs[i].scratch)) {
            return -1;
        }
    }
    return all_unchanged(plan) ? 0 : -1;
}

#else

int batch_is_short(const batch *plan, const batch_run *run) {
    (void)plan, (void)run;
    return 0;
}

int batch_try(const batch *plan, const read_engine *engine, int64_t share, int64_t n_shares, uint8_t *scratch,
              read_part *parts, map_copier *copier, int *waited) {
    (void)engine, (void)share, (void)n_shares, (void)scratch, (void)parts, (void)copier, (void)waited;
    return plan->n_runs == 0 ? 0 : -1; /* the caller uses the reference path */
}

int64_t batch_left(batch *plan, int64_t *n_scratch) {
    *n_scratch = 0;
    return plan->n_runs;
}

int batch_read(const batch *plan, read_engine *engine, int64_t n, uint8_t *scratch, read_request *requests,
               read_part *parts) {
    (void)plan, (void)engine, (void)scratch, (void)requests, (void)parts;
    return n == 0 ? 0 : -1;
}

#endif
