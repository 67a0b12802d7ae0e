/* Walks through TFRecords and OFRecords never leave the window; walks in steps, in windows and in pieces that are
 * joined give what one walk gives: each input walks in one of these ways. Input: 1 byte for the kind, 1 for the size of
 * steps, then the file, as it is or as instructions for one whose checksums are right (which a fuzzer would not
 * guess). */
#include "checksum/crc.h"
#include "fuzz.h"
#include "scan/scan.h"
#include "scan/tfrecord.h"

#define MOST 4096 /* bytes of a file */
#define ROOM (MOST / 8 + 1)

typedef struct {
    const uint8_t *bytes;
    int64_t size;
    int is_tfrecord;
} stored_file;

typedef struct {
    int64_t first, stop, n;
    int why;
    int64_t lengths[ROOM];
    uint32_t footers[ROOM];
} chain;

static crc_kernel *crc32c; /* asked once: virtual machines take long to say what their processor has */

static int64_t extra_of(const stored_file *file) { return file->is_tfrecord ? 16 : 8; }

/* Walk through `file[base .. end)` from `at` on, adding to `found` up to `room` frames. */
static void walk(const stored_file *file, int64_t base, int64_t end, int64_t at, chain *found, int64_t room) {
    int64_t *lengths = found->lengths + found->n;
    uint32_t *footers = found->footers + found->n;
    const uint8_t *window = file->bytes + base;
    const scan_found step =
        file->is_tfrecord
            ? scan_tfrecord(crc32c, window, end - base, at - base, lengths, footers, room)
            : scan_ofrecord(window, end - base, at - base, lengths, room);
    CHECK(step.n_frames >= 0 && step.n_frames <= room);
    found->stop = at;
    for (int64_t i = 0; i < step.n_frames; i++) {
        CHECK(lengths[i] >= 0);
        found->stop += lengths[i] + extra_of(file);
    }
    CHECK(found->stop == step.stop + base);
    found->n += step.n_frames;
    found->why = step.why;
}

static void require_same(const stored_file *file, const chain *one, const chain *other) {
    CHECK(one->n == other->n && one->stop == other->stop && one->why == other->why);
    CHECK(memcmp(one->lengths, other->lengths, (size_t)one->n * sizeof *one->lengths) == 0);
    if (file->is_tfrecord) {
        CHECK(memcmp(one->footers, other->footers, (size_t)one->n * sizeof *one->footers) == 0);
    }
}

/* With little room. */
static void check_steps(const stored_file *file, const chain *whole, int64_t step) {
    static chain found;
    found.n = found.stop = 0;
    do {
        walk(file, found.stop, file->size, found.stop, &found, step);
    } while (found.why == SCAN_FULL);
    require_same(file, whole, &found);
}

/* In windows that end anywhere: the footer behind a window is in the next one. */
static void check_windows(const stored_file *file, const chain *whole, int64_t step) {
    static chain found;
    found.n = found.stop = 0;
    for (int64_t before = -1; found.stop != before && found.stop <= file->size;) {
        before = found.stop;
        const int64_t lead = before >= 4 && file->is_tfrecord ? 4 : 0, base = before - lead;
        const int64_t end = base + lead + 16 + step < file->size ? base + lead + 16 + step : file->size;
        if (lead > 0) {
            memcpy(&found.footers[found.n - 1], file->bytes + base, 4); /* on little-endian machines */
        }
        walk(file, base, end, before, &found, ROOM - found.n);
        if (found.why == SCAN_UNSOUND) {
            break;
        }
    }
    require_same(file, whole, &found);
}

/* Return in `found` a walk that starts at the first likely header in the piece and ends behind the piece. */
static int enter(const stored_file *file, int64_t first, int64_t stop, chain *found) {
    while (first < stop) {
        const int64_t at = scan_tfrecord_header(crc32c, file->bytes, file->size, first, file->size);
        CHECK(at == -1 || (at >= first && at <= file->size - TFRECORD_HEAD));
        if (at < 0 || at >= stop) {
            return 0;
        }
        found->first = found->stop = at;
        found->n = 0;
        do {
            walk(file, found->stop, file->size, found->stop, found, 1);
        } while (found->why == SCAN_FULL && found->stop < stop);
        if (found->stop >= stop && found->stop <= file->size) {
            return 1;
        }
        first = found->n > 1 && found->stop <= file->size ? found->stop : at + 1;
    }
    return 0;
}

/* Pieces count where the chain from the first byte arrives at one of their frames. */
static void check_pieces(const stored_file *file, const chain *whole, int64_t size) {
    static chain joined, piece;
    joined.n = joined.stop = 0;
    joined.why = SCAN_FULL;
    for (int64_t first = 0; first < file->size && joined.why == SCAN_FULL; first += size) {
        const int64_t stop = first + size;
        const int is_entered = enter(file, first, stop, &piece);
        while (joined.stop < stop && joined.why == SCAN_FULL) {
            int64_t at = piece.first, n = 0;
            while (is_entered && n < piece.n && at < joined.stop) {
                at += piece.lengths[n++] + 16;
            }
            if (is_entered && n < piece.n && at == joined.stop) {
                const size_t left = (size_t)(piece.n - n);
                memcpy(joined.lengths + joined.n, piece.lengths + n, left * sizeof *piece.lengths);
                memcpy(joined.footers + joined.n, piece.footers + n, left * sizeof *piece.footers);
                joined.n += piece.n - n;
                joined.stop = piece.stop;
            } else {
                walk(file, joined.stop, file->size, joined.stop, &joined, 1);
            }
        }
    }
    if (joined.why == SCAN_FULL) {
        walk(file, joined.stop, file->size, joined.stop, &joined, ROOM - joined.n);
    }
    require_same(file, whole, &joined);
}

/* Lines fill the window up to the last end, in steps as at once, and none holds another end. */
static void check_lines(const uint8_t *bytes, int64_t size, int64_t room) {
    static int64_t lengths[MOST];
    int64_t at = 0;
    scan_lines_found step;
    do {
        step = scan_lines(bytes, size, at, lengths, room);
        CHECK(step.n_lines >= 0 && step.n_lines <= room && step.n_crlf <= step.n_lines && step.n_blank <= step.n_lines);
        for (int64_t i = 0; i < step.n_lines; i++) {
            const int64_t length = lengths[i] < 0 ? -lengths[i] : lengths[i];
            CHECK(length > 0 && at + length <= size);
            CHECK(memchr(bytes + at, '\n', (size_t)length) == bytes + at + length - 1);
            at += length;
        }
        CHECK(at == step.stop);
    } while (step.n_lines == room);
    CHECK(memchr(bytes + at, '\n', (size_t)(size - at)) == NULL);
}

/* The ends of values in a document are those of one scan, in windows and with any room. */
static void check_json(const uint8_t *bytes, int64_t size, int64_t step) {
    static int64_t whole[MOST], ends[MOST];
    for (int level = 0; level <= 1; level++) {
        scan_json_state state = {level, 0}, again = state;
        const scan_found all = scan_json(bytes, size, 0, level, &state, whole, MOST);
        CHECK(all.n_frames >= 0 && all.n_frames <= all.stop && all.stop <= size && all.why != SCAN_FULL);
        int64_t n = 0, first = 0;
        scan_found found = {0, 0, SCAN_ENDS};
        while (found.why != SCAN_CLOSED && first + found.stop < size) {
            if (found.why == SCAN_ENDS) {
                first += found.stop;
                found.stop = 0;
            }
            const int64_t n_bytes = step < size - first ? step : size - first;
            uint8_t *window = exact_copy(bytes + first, (size_t)n_bytes);
            found = scan_json(window, n_bytes, found.stop, level, &again, ends, 1 + n % 3);
            free(window);
            for (int64_t i = 0; i < found.n_frames; i++) {
                CHECK(n < all.n_frames && first + ends[i] == whole[n]);
                n++;
            }
        }
        CHECK(n == all.n_frames && first + found.stop == all.stop && (found.why == SCAN_CLOSED) == (all.why == SCAN_CLOSED));
        CHECK(state.depth == again.depth && state.text == again.text);
    }
}

static void put64(uint8_t *to, uint64_t number) {
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)(number >> 8 * i);
    }
}

static void put_masked(uint8_t *to, const uint8_t *data, size_t n_bytes) {
    const uint32_t crc = crc32c(0, data, n_bytes), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(masked >> 8 * i);
    }
}

/* Follow instructions of two bytes, and the bytes that they take: 0 raw bytes, 1 a frame of bytes, 2 a frame
 * around the last bytes written, 3 a header that announces too much. Return the size of the file. */
static int64_t build(const uint8_t *data, size_t size, uint8_t *out, int with_checksums) {
    const size_t head = with_checksums ? 12 : 8, tail = with_checksums ? 4 : 0;
    size_t n = 0;
    while (size >= 2) {
        const int kind = data[0] % 4;
        size_t take = data[1];
        data += 2, size -= 2;
        take = kind == 2 ? (take * 8 < n ? take * 8 : n) : kind == 3 ? 0 : take < size ? take : size;
        if (n + take + head + tail > MOST) {
            break;
        }
        const size_t first = kind == 2 ? n - take : n, shift = kind == 0 ? 0 : head;
        memmove(out + first + shift, kind == 2 ? out + first : data, take);
        n = first + shift + take;
        if (kind != 0) {
            put64(out + first, kind == 3 ? (uint64_t)1 << size % 64 : take);
            if (with_checksums) {
                put_masked(out + first + 8, out + first, 8);
            }
        }
        if ((kind == 1 || kind == 2) && with_checksums) {
            put_masked(out + n, out + first + head, take);
            n += tail;
        }
        if (kind < 2) {
            data += take, size -= take;
        }
    }
    return (int64_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static chain whole;
    if (size < 2 || size > MOST) {
        return 0;
    }
    stored_file file = {data + 2, (int64_t)size - 2, data[0] & 1};
    const int64_t step = 1 + data[1];
    crc32c = crc32c == NULL ? crc_choose(crc32c_variants) : crc32c;
    uint8_t *made = NULL;
    if (data[0] & 2) {
        made = malloc(MOST);
        file.size = build(data + 2, size - 2, made, data[0] & 1);
        made = realloc(made, file.size > 0 ? (size_t)file.size : 1); /* so that its end is the allocation's */
        file.bytes = made;
    }
    check_lines(file.bytes, file.size, step);
    check_json(file.bytes, file.size, step);
    whole.n = 0;
    walk(&file, 0, file.size, 0, &whole, ROOM);
    CHECK(whole.why != SCAN_FULL);
    const uint64_t choice = choice_of(data, size) % 3;
    if (choice == 0) {
        check_steps(&file, &whole, step);
    } else if (choice == 1 || !file.is_tfrecord) {
        check_windows(&file, &whole, step);
    } else {
        check_pieces(&file, &whole, 8 * step);
    }
    free(made);
    return 0;
}
