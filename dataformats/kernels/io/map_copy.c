#define _GNU_SOURCE /* before any header: syscall, pwritev, RUSAGE_THREAD */
#include "io/map_copy.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "io/process.h"

#ifdef __linux__
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#endif

#ifdef __linux__
/* The C library of the oldest systems for which wheels are built lacks it; the kernel may have it. */
#if !defined(SYS_memfd_create) && defined(__x86_64__)
#define SYS_memfd_create 319
#elif !defined(SYS_memfd_create) && defined(__aarch64__)
#define SYS_memfd_create 279
#endif
#endif

#if defined(__linux__) && defined(SYS_memfd_create) && UINTPTR_MAX > UINT32_MAX

#define CLOSE_ON_EXEC 1 /* MFD_CLOEXEC, which old C libraries lack */
#define SPARE_FILES 16  /* descriptors that are left to the rest of the process */

/* Pages of maps that were touched count as memory of the process, until they are unmapped. */
#define MOST_MAPPED_SHARE 4 /* a quarter of the memory of the machine */
static _Atomic int64_t n_mapped_bytes;

#define COPIERS 8 /* kept for later; each has a descriptor */
static map_copier *_Atomic copiers[COPIERS];

struct map_copier {
    int fd;
    long owner; /* the process that opened it: a forked child shares the memory */
    uint8_t *memory;
};

/* Return whether the process may open some more files. */
static int is_spare(int fd) {
    struct rlimit most;
    return getrlimit(RLIMIT_NOFILE, &most) == 0 && (rlim_t)fd + SPARE_FILES < most.rlim_cur;
}

static int open_memory(void) {
    const int fd = (int)syscall(SYS_memfd_create, "dataformats", CLOSE_ON_EXEC);
    if (fd >= 0 && (!is_spare(fd) || ftruncate(fd, MAP_COPY_BYTES) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void close_copier(map_copier *copier) {
    munmap(copier->memory, MAP_COPY_BYTES);
    close(copier->fd);
    free(copier);
}

map_copier *map_copier_take(void) {
    for (int i = 0; i < COPIERS; i++) {
        map_copier *copier = atomic_exchange(&copiers[i], NULL);
        if (copier != NULL && copier->owner == this_process()) {
            return copier;
        }
        if (copier != NULL) {
            close_copier(copier);
        }
    }
    map_copier *copier = calloc(1, sizeof *copier);
    if (copier == NULL || (copier->fd = open_memory()) < 0) {
        free(copier);
        return NULL;
    }
    void *memory = mmap(NULL, MAP_COPY_BYTES, PROT_READ, MAP_SHARED | MAP_POPULATE, copier->fd, 0);
    if (memory == MAP_FAILED) {
        close(copier->fd);
        free(copier);
        return NULL;
    }
    copier->memory = memory;
    copier->owner = this_process();
    return copier;
}

void map_copier_give(map_copier *copier) {
    for (int i = 0; i < COPIERS; i++) {
        map_copier *none = NULL;
        if (atomic_compare_exchange_strong(&copiers[i], &none, copier)) {
            return;
        }
    }
    close_copier(copier);
}

const uint8_t *map_copy(map_copier *copier, const read_part *pieces, int n_pieces) {
    size_t n_bytes = 0;
    for (int i = 0; i < n_pieces; i++) {
        n_bytes += pieces[i].n_bytes;
    }
    if (n_bytes > MAP_COPY_BYTES || copier->owner != this_process()) {
        return NULL;
    }
    const ssize_t done = pwritev(copier->fd, (const struct iovec *)pieces, n_pieces, 0);
    return done == (ssize_t)n_bytes ? copier->memory : NULL;
}

int64_t map_waits(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (int64_t)usage.ru_majflt : 0;
}

int map_file(int fd, int64_t n_bytes, file_map *map) {
    struct stat info;
    if (n_bytes <= 0 || fstat(fd, &info) != 0) {
        return -1;
    }
    const int64_t most = (int64_t)sysconf(_SC_PHYS_PAGES) / MOST_MAPPED_SHARE * sysconf(_SC_PAGESIZE);
    const int has_room = atomic_fetch_add(&n_mapped_bytes, n_bytes) <= most - n_bytes;
    void *memory = has_room ? mmap(NULL, (size_t)n_bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        atomic_fetch_sub(&n_mapped_bytes, n_bytes);
        return -1;
    }
    *map = (file_map){memory, n_bytes, (uint64_t)info.st_dev, (uint64_t)info.st_ino};
    return 0;
}

void unmap_file(const file_map *map) {
    munmap((void *)(uintptr_t)map->memory, (size_t)map->n_bytes);
    atomic_fetch_sub(&n_mapped_bytes, map->n_bytes);
}

#else

map_copier *map_copier_take(void) { return NULL; }

void map_copier_give(map_copier *copier) { (void)copier; }

const uint8_t *map_copy(map_copier *copier, const read_part *pieces, int n_pieces) {
    (void)copier, (void)pieces, (void)n_pieces;
    return NULL;
}

int64_t map_waits(void) { return 0; }

int map_file(int fd, int64_t n_bytes, file_map *map) {
    (void)fd, (void)n_bytes, (void)map;
    return -1;
}

void unmap_file(const file_map *map) { (void)map; }

#endif
