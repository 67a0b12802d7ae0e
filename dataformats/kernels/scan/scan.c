#include "scan/scan.h"

#include <string.h>

#include "scan/tfrecord.h"

scan_found scan_tfrecord(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                         int64_t *lengths, uint32_t *footers, int64_t room) {
    scan_found found = {0, at, SCAN_ENDS};
    while (found.stop <= n_bytes - TFRECORD_HEAD) {
        const uint8_t *header = window + found.stop;
        const uint64_t length = load64_le(header);
        if (found.n_frames == room) {
            found.why = SCAN_FULL;
            break;
        }
        if (length > SCAN_MAX_LENGTH || !tfrecord_head_is_sound(crc32c, header)) {
            found.why = SCAN_UNSOUND;
            break;
        }
        const int64_t footer = found.stop + TFRECORD_HEAD + (int64_t)length;
        lengths[found.n_frames] = (int64_t)length;
        footers[found.n_frames] = footer <= n_bytes - TFRECORD_TAIL ? load32_le(window + footer) : 0;
        found.n_frames++;
        found.stop = footer + TFRECORD_TAIL;
    }
    return found;
}

scan_found scan_ofrecord(const uint8_t *window, int64_t n_bytes, int64_t at, int64_t *lengths, int64_t room) {
    scan_found found = {0, at, SCAN_ENDS};
    while (found.stop <= n_bytes - SCAN_OFRECORD_HEAD) {
        const uint64_t length = load64_le(window + found.stop); /* a negative one is past the longest */
        if (found.n_frames == room) {
            found.why = SCAN_FULL;
            break;
        }
        if (length > SCAN_MAX_LENGTH) {
            found.why = SCAN_UNSOUND;
            break;
        }
        lengths[found.n_frames++] = (int64_t)length;
        found.stop += SCAN_OFRECORD_HEAD + (int64_t)length;
    }
    return found;
}

int64_t scan_tfrecord_header(crc_kernel *crc32c, const uint8_t *window, int64_t n_bytes, int64_t at,
                             int64_t most) {
    for (; at <= n_bytes - TFRECORD_HEAD; at++) {
        /* The length first: it refuses nearly everything, and costs less than the checksum. */
        const uint64_t length = load64_le(window + at);
        if (length <= SCAN_MAX_LENGTH && (int64_t)length <= most && tfrecord_head_is_sound(crc32c, window + at)) {
            return at;
        }
    }
    return -1;
}

static int is_blank(const uint8_t *line, const uint8_t *end) {
    while (line < end && (*line == ' ' || *line == '\t' || *line == '\r')) {
        line++;
    }
    return line == end;
}

scan_lines_found scan_lines(const uint8_t *window, int64_t n_bytes, int64_t at, int64_t *lengths, int64_t room) {
    scan_lines_found found = {0, at, 0, 0};
    while (found.stop < n_bytes && found.n_lines < room) {
        const uint8_t *line = window + found.stop;
        const uint8_t *end = memchr(line, '\n', (size_t)(n_bytes - found.stop));
        if (end == NULL) {
            break;
        }
        const int64_t length = end - line + 1;
        const int blank = is_blank(line, end);
        found.n_blank += blank;
        found.n_crlf += length > 1 && end[-1] == '\r';
        lengths[found.n_lines++] = blank ? -length : length;
        found.stop += length;
    }
    return found;
}

/* Go on in a text; return the byte behind the quote at its end, or the end of the window. */
static int64_t after_text(const uint8_t *window, int64_t n_bytes, int64_t at, int64_t *text) {
    while (at < n_bytes && *text) {
        const uint8_t byte = window[at++];
        *text = *text == 2 ? 1 : byte == '"' ? 0 : byte == '\\' ? 2 : 1;
    }
    return at;
}

scan_found scan_json(const uint8_t *window, int64_t n_bytes, int64_t at, int level, scan_json_state *state,
                     int64_t *ends, int64_t room) {
    enum { OTHER, QUOTE, OPEN, CLOSE, COMMA };
    static const uint8_t kinds[256] = {['"'] = QUOTE,  ['['] = OPEN,  ['{'] = OPEN,
                                       [']'] = CLOSE, ['}'] = CLOSE, [','] = COMMA};
    scan_found found = {0, at, SCAN_ENDS};
    scan_json_state now = *state;
    while (at < n_bytes && found.why == SCAN_ENDS) {
        if (now.text) {
            at = after_text(window, n_bytes, at, &now.text);
            continue;
        }
        if (found.n_frames == room) {
            found.why = SCAN_FULL;
            break;
        }
        while (at < n_bytes - 1 && kinds[window[at]] == OTHER) {
            at++;
        }
        int is_end = 0;
        switch (kinds[window[at++]]) {
        case QUOTE:
            now.text = 1;
            break;
        case OPEN:
            now.depth++;
            break;
        case CLOSE:
            now.depth--;
            found.why = now.depth < level ? SCAN_CLOSED : SCAN_ENDS;
            is_end = level == 0 && now.depth == 0;
            break;
        case COMMA:
            is_end = level == 1 && now.depth == 1;
            break;
        default:
            break;
        }
        if (is_end) {
            ends[found.n_frames++] = at;
        }
    }
    found.stop = at;
    *state = now;
    return found;
}
