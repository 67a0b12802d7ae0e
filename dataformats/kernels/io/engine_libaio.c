/* Linux's older asynchronous I/O (io_submit), past the page cache: it is asynchronous only with O_DIRECT.
 *
 * O_DIRECT reads whole blocks into aligned memory. So a request is cut into chunks; each is read, with the blocks
 * around it, into a slot of the engine's memory, and copied from there. Files that refuse O_DIRECT are read through
 * the page cache. */
#define _GNU_SOURCE /* before any header: O_DIRECT, syscall */
#include "io/engine.h"

#include <errno.h>

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/aio_abi.h>)
#define HAVE_AIO 1
#endif
#endif

#ifdef HAVE_AIO

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/request.h"

#define DEPTH 256
#define BLOCK 4096
#define SLOT_BYTES (64 * 1024)
#define MOST_CHUNK (SLOT_BYTES - BLOCK) /* its blocks fit into a slot, wherever it begins */
#define N_FILES 64

/* A part of a request, in flight into a slot. */
typedef struct {
    read_request *request;
    int64_t begin, length; /* in the request */
} chunk;

/* A file that was reopened with O_DIRECT; -1 if that was refused. */
typedef struct {
    int used, fd, direct;
} direct_file;

typedef struct {
    pthread_mutex_t lock;
    aio_context_t context;
    char *slots; /* DEPTH of them */
    chunk chunks[DEPTH];
    struct iocb blocks[DEPTH];
    int free_slots[DEPTH];
    int n_free;
    direct_file files[N_FILES];
} aio_state;

/* The begin of the next chunk of a call. */
typedef struct {
    read_request *requests;
    int64_t n_requests, number, begin;
} cursor;

static int aio_open(read_engine *engine) {
    aio_state *state = calloc(1, sizeof *state);
    const char *what = "mmap";
    void *slots =
        mmap(NULL, (size_t)DEPTH * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (state != NULL && slots != MAP_FAILED) {
        what = "io_setup";
        if (syscall(SYS_io_setup, DEPTH, &state->context) == 0) {
            (void)madvise(slots, (size_t)DEPTH * SLOT_BYTES, MADV_DONTFORK); /* open(2): O_DIRECT and fork */
            state->slots = slots;
            pthread_mutex_init(&state->lock, NULL);
            engine->state = state;
            return 0;
        }
    }
    engine_note(engine, what, errno);
    if (slots != MAP_FAILED) {
        munmap(slots, (size_t)DEPTH * SLOT_BYTES);
    }
    free(state);
    return -1;
}

static void aio_close(read_engine *engine) {
    aio_state *state = engine->state;
    (void)syscall(SYS_io_destroy, state->context);
    munmap(state->slots, (size_t)DEPTH * SLOT_BYTES);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

/* Is another file in this one's place? */
static int displaces(const aio_state *state, int fd) {
    return fd >= 0 && state->files[fd % N_FILES].used && state->files[fd % N_FILES].fd != fd;
}

/* Return the file with O_DIRECT, or -1. Calls have few files; if two share a place, one is reopened. */
static int direct_of(aio_state *state, int fd) {
    direct_file *file = &state->files[fd % N_FILES];
    if (!file->used || file->fd != fd) {
        char path[32];
        if (file->used && file->direct >= 0) {
            close(file->direct); /* reads in flight keep it open */
        }
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        *file = (direct_file){1, fd, open(path, O_RDONLY | O_DIRECT | O_CLOEXEC)};
    }
    return file->direct;
}

static void close_files(aio_state *state) {
    for (int i = 0; i < N_FILES; i++) {
        if (state->files[i].used && state->files[i].direct >= 0) {
            close(state->files[i].direct);
        }
        state->files[i].used = 0;
    }
}

/* Copy to place `at` of the request, whose parts follow each other. */
static void scatter(const read_request *request, int64_t at, const char *data, int64_t n_bytes) {
    for (const read_part *part = request->parts; n_bytes > 0; part++) {
        const int64_t size = (int64_t)part->n_bytes;
        if (at < size) {
            const int64_t n_here = size - at < n_bytes ? size - at : n_bytes;
            memcpy((char *)part->base + at, data, (size_t)n_here);
            data += n_here;
            n_bytes -= n_here;
        }
        at = at > size ? at - size : 0;
    }
}

static struct iocb *block_of(aio_state *state, int slot, int direct) {
    const chunk *chunk = &state->chunks[slot];
    const int64_t first = chunk->request->offset + chunk->begin, before = first % BLOCK;
    struct iocb *block = &state->blocks[slot];
    memset(block, 0, sizeof *block);
    block->aio_data = (uint64_t)slot;
    block->aio_lio_opcode = IOCB_CMD_PREAD;
    block->aio_fildes = (uint32_t)direct;
    block->aio_buf = (uint64_t)(uintptr_t)(state->slots + (size_t)slot * SLOT_BYTES);
    block->aio_nbytes = (uint64_t)((before + chunk->length + BLOCK - 1) & -BLOCK);
    block->aio_offset = first - before;
    return block;
}

/* A request counts as read up to its end until a chunk comes short, which lowers that. */
static void lower(read_request *request, int64_t done) {
    if (done < request->done) {
        request->done = done;
    }
}

/* Can its begin go past the page cache? A request that was begun through the page cache is also finished so. */
static int takes_direct(aio_state *state, const read_request *request) {
    return !request_is_done(request) && request->done == 0 && request->fd >= 0 && direct_of(state, request->fd) >= 0;
}

/* Put chunks into free slots. Return the number of `blocks` to submit. */
static int fill(aio_state *state, cursor *cursor, struct iocb **blocks) {
    int n_blocks = 0;
    while (cursor->number < cursor->n_requests && state->n_free > 0) {
        read_request *request = &cursor->requests[cursor->number];
        if (n_blocks > 0 && displaces(state, request->fd)) {
            break; /* the blocks name a descriptor that must stay open until they are submitted */
        }
        if (cursor->begin == 0 ? !takes_direct(state, request) : cursor->begin == request->length) {
            cursor->number++;
            cursor->begin = 0;
            continue;
        }
        const int slot = state->free_slots[--state->n_free];
        const int64_t left = request->length - cursor->begin;
        state->chunks[slot] = (chunk){request, cursor->begin, left < MOST_CHUNK ? left : MOST_CHUNK};
        request->done = cursor->begin == 0 ? request->length : request->done;
        cursor->begin += state->chunks[slot].length;
        blocks[n_blocks++] = block_of(state, slot, direct_of(state, request->fd));
    }
    return n_blocks;
}

/* A chunk has `result` bytes from the begin of its block on. The end of the file, failures and chunks that were never
 * begun look alike: they are read again through the page cache, and that result counts. */
static void land(aio_state *state, int slot, int64_t result) {
    chunk *chunk = &state->chunks[slot];
    const int64_t before = (chunk->request->offset + chunk->begin) % BLOCK;
    const int64_t found = result <= before ? 0 : result - before;
    const int64_t n_bytes = found < chunk->length ? found : chunk->length;
    scatter(chunk->request, chunk->begin, state->slots + (size_t)slot * SLOT_BYTES + before, n_bytes);
    if (n_bytes < chunk->length) {
        lower(chunk->request, chunk->begin + n_bytes);
    }
    chunk->request = NULL;
    state->free_slots[state->n_free++] = slot;
}

static void submit(aio_state *state, struct iocb **blocks, int n_blocks) {
    while (n_blocks > 0) {
        const long n_taken = syscall(SYS_io_submit, state->context, (long)n_blocks, blocks);
        const int n_gone = n_taken > 0 ? (int)n_taken : 1;
        if (n_taken <= 0) { /* the first was refused */
            land(state, (int)blocks[0]->aio_data, 0);
        }
        blocks += n_gone;
        n_blocks -= n_gone;
    }
}

/* Take answers, at least a quarter of those in flight, or all. Return 0, or an errno. */
static int wait_some(aio_state *state, int all) {
    struct io_event events[DEPTH];
    const long n_flying = DEPTH - state->n_free;
    const long n_events = syscall(SYS_io_getevents, state->context, all ? n_flying : (n_flying + 3) / 4,
                                  (long)DEPTH, events, NULL);
    for (long i = 0; i < n_events; i++) {
        land(state, (int)events[i].data, events[i].res);
    }
    return n_events >= 0 || errno == EINTR ? 0 : errno;
}

/* End all reads in flight, and ignore their results. */
static void drain(aio_state *state, const cursor *cursor) {
    (void)syscall(SYS_io_destroy, state->context); /* returns when the kernel no longer writes to slots */
    for (int slot = 0; slot < DEPTH; slot++) {
        if (state->chunks[slot].request != NULL) {
            land(state, slot, 0);
        }
    }
    if (cursor->begin > 0) {
        lower(&cursor->requests[cursor->number], cursor->begin);
    }
}

/* Keep as many reads in flight as possible until all that can go past the page cache is read. Return 0, or an errno. */
static int fly(aio_state *state, cursor *cursor) {
    struct iocb *blocks[DEPTH];
    for (;;) {
        submit(state, blocks, fill(state, cursor, blocks));
        const int all = cursor->number == cursor->n_requests;
        if (all && state->n_free == DEPTH) {
            return 0;
        }
        const int error = state->n_free == DEPTH ? 0 : wait_some(state, all);
        if (error != 0) {
            drain(state, cursor);
            return error;
        }
    }
}

/* Make the parts of each request begin at the first missing byte. */
static void settle(read_request *requests, int64_t n_requests) {
    for (int64_t i = 0; i < n_requests; i++) {
        const int64_t done = requests[i].done;
        if (!request_is_done(&requests[i])) {
            requests[i].done = 0;
            request_advance(&requests[i], done);
        }
    }
}

static void aio_run(read_engine *engine, read_request *requests, int64_t n_requests) {
    aio_state *state = engine->state;
    if (!engine_is_broken(engine) && pthread_mutex_trylock(&state->lock) == 0) {
        cursor cursor = {requests, n_requests, 0, 0};
        for (state->n_free = 0; state->n_free < DEPTH; state->n_free++) {
            state->free_slots[state->n_free] = state->n_free;
        }
        const int error = fly(state, &cursor);
        close_files(state);
        settle(requests, n_requests);
        if (error != 0) {
            engine_note(engine, "io_getevents", error);
        }
        pthread_mutex_unlock(&state->lock);
    }
    requests_read_advised(requests, n_requests); /* the rest: usually nothing */
}

#else
static int aio_open(read_engine *engine) {
    engine_note(engine, "io_submit is a part of Linux", ENOSYS);
    return -1;
}

static void aio_close(read_engine *engine) { (void)engine; }

static void aio_run(read_engine *engine, read_request *requests, int64_t n_requests) {
    (void)engine;
    (void)requests;
    (void)n_requests;
}
#endif

const engine_kind engine_libaio = {"libaio", aio_open, aio_run, aio_close, NULL};
