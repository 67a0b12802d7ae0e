/* Every engine reads each byte of a file once, to its place, and nothing beyond it; requests that cannot be read fail
 * alone. Input: requests. */
#include "fuzz_file.h"

#include <errno.h>
#include <fcntl.h>

#include "io/read.h"

#define FILE_BYTES 70000 /* several blocks, longer than what an engine reads at once, and a rest */
#define FAR ((int64_t)1 << 40)
#define MOST 6 /* requests */
#define MOST_PARTS 4

typedef struct {
    read_request request;
    read_part parts[MOST_PARTS], kept[MOST_PARTS]; /* the engine may change the former */
} asked;

static uint8_t content[FILE_BYTES];
static int file, folder;

static void open_files(void) {
    char path[64];
    fill(content, FILE_BYTES);
    file = new_file(content, FILE_BYTES, path);
    unlink(path);
    folder = open("/", O_RDONLY);
    CHECK(folder > 0);
}

static void take_request(input *in, asked *one, int64_t most_bytes) {
    const uint8_t how = next_byte(in);
    const int fd = how < 240 ? file : how < 248 ? folder : -1;
    const int64_t offset = how % 8 == 7 ? next_number(in) : next_below(in, FILE_BYTES + 100);
    const int n_parts = 1 + (how >> 4) % MOST_PARTS;
    one->request = (read_request){fd, n_parts, offset, 0, one->parts, -1, -1};
    for (int i = 0; i < n_parts; i++) {
        const size_t n_bytes = 1 + (size_t)next_below(in, most_bytes);
        one->parts[i] = one->kept[i] = (read_part){exact_room(n_bytes), n_bytes};
        one->request.length += (int64_t)n_bytes;
    }
}

static void check_bytes(const asked *one) {
    size_t left = (size_t)one->request.done;
    const uint8_t *at = content + (left > 0 ? one->request.offset : 0);
    for (const read_part *part = one->kept; left > 0; part++) {
        const size_t n = part->n_bytes < left ? part->n_bytes : left;
        CHECK(memcmp(part->base, at, n) == 0);
        at += n;
        left -= n;
    }
}

static void check_request(const asked *one) {
    const read_request *request = &one->request;
    const int is_outside = request->offset < 0 || request->offset > INT64_MAX - request->length;
    const int64_t there = request->offset >= 0 && request->offset < FILE_BYTES ? FILE_BYTES - request->offset : 0;
    if (is_outside || request->fd != file) {
        CHECK(request->error == (is_outside ? EINVAL : request->fd < 0 ? EBADF : EISDIR) && request->done == 0);
    } else {
        CHECK(request->done == (there < request->length ? there : request->length));
        CHECK(request->error == 0 || request->offset > FAR); /* file systems differ about these */
        check_bytes(one);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (folder == 0) {
        open_files();
    }
    const uint64_t choice = choice_of(data, size);
    const int64_t most_bytes = (choice >> 16) % 64 == 0 ? 40000 : 256; /* of a part */
    input in = {data, data + size};
    const int64_t n = next_below(&in, MOST + 1);
    asked all[MOST];
    read_request requests[MOST];
    for (int64_t i = 0; i < n; i++) {
        take_request(&in, &all[i], most_bytes);
        requests[i] = all[i].request;
    }
    const int64_t failed = run_requests(engine_of(choice), requests, n);
    int64_t first = -1;
    for (int64_t i = n - 1; i >= 0; i--) {
        all[i].request.done = requests[i].done;
        all[i].request.error = requests[i].error;
        check_request(&all[i]);
        first = requests[i].error != 0 || requests[i].done < requests[i].length ? i : first;
        for (int part = 0; part < all[i].request.n_parts; part++) {
            free(all[i].kept[part].base);
        }
    }
    CHECK(failed == first);
    return 0;
}
