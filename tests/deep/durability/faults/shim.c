/* Injects faults into the file operations of a process: preload it with LD_PRELOAD.
 *
 * Every operation on a path under a prefix has a number, from 1 on, and one of them may fail, write less than it is
 * asked to, or be the last one of the process. All operations are carried out by system calls that every 64-bit Linux
 * has, so that a wrapper does not depend on the name that the program called.
 *
 * Control: faults_arm(), or at the start the variables FAULT_PREFIX, FAULT_AT, FAULT_ACTION, FAULT_ERRNO and FAULT_LOG
 * (a file). The log has a line "KIND PATH" for each operation, before it is carried out.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum action {
    NOTHING,
    FAIL,        /* the operation fails, and is not carried out */
    FULL,        /* it fails, and so does every later one that needs room */
    SHORT,       /* a write stores half of its bytes, and says so */
    TEAR,        /* a write stores half of its bytes, then the process is killed */
    KILL_BEFORE, /* the process is killed */
    KILL_AFTER,
};

struct operation {
    const char *kind;
    bool needs_room; /* a full disk refuses it */
    const char *path;
    const char *path2; /* of a rename or a link */
};

static struct {
    char prefix[PATH_MAX];
    long at;
    enum action action;
    int number;
    int log;
} control = {.log = -1};
static atomic_long count;

/* The C library's syscall(). Looked up at the first use, which may come before start(). */
#define next_syscall (*library_syscall())
static long (*library_syscall(void))(long, ...) {
    static long (*found)(long, ...);
    if (!found)
        found = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return found;
}

__attribute__((constructor)) static void start(void) {
    const char *prefix = getenv("FAULT_PREFIX"), *log = getenv("FAULT_LOG");
    if (!prefix)
        return;
    snprintf(control.prefix, sizeof control.prefix, "%s", prefix);
    control.at = getenv("FAULT_AT") ? atol(getenv("FAULT_AT")) : 0;
    control.action = getenv("FAULT_ACTION") ? (enum action)atoi(getenv("FAULT_ACTION")) : NOTHING;
    control.number = getenv("FAULT_ERRNO") ? atoi(getenv("FAULT_ERRNO")) : EIO;
    if (log)
        control.log = (int)next_syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Count operations under a prefix from now on; an empty prefix ends that. `log` is a descriptor, or -1. */
void faults_arm(const char *prefix, long at, int action, int number, int log) {
    snprintf(control.prefix, sizeof control.prefix, "%s", prefix);
    control.at = at;
    control.action = (enum action)action;
    control.number = number;
    control.log = log;
    atomic_store(&count, 0);
}

/* Return how many operations were counted. */
long faults_count(void) { return atomic_load(&count); }

static const char *path_of(int descriptor, char out[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long n = next_syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    out[n < 0 ? 0 : n] = 0;
    return out;
}

static const char *path_at(int folder, const char *path, char out[PATH_MAX]) {
    char base[PATH_MAX] = "";
    if (path && path[0] != '/') {
        if (folder != AT_FDCWD)
            path_of(folder, base);
        else if (next_syscall(SYS_getcwd, base, sizeof base) < 0)
            base[0] = 0;
    }
    size_t n = strlen(base);
    snprintf(out, PATH_MAX, "%s", base);
    snprintf(out + n, PATH_MAX - n, "%s%s", n ? "/" : "", path ? path : "");
    return out;
}

static bool counted(const char *path) {
    size_t n = strlen(control.prefix);
    return n && strncmp(path, control.prefix, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static bool is_here(void) { return atomic_load(&count) == control.at; }

static void stop(void) { next_syscall(SYS_kill, (long)getpid(), SIGKILL); }

/* Count an operation. Return the fault that it is to meet: NOTHING, FAIL, SHORT or TEAR. */
static enum action begin(struct operation op) {
    if (!counted(op.path) && !(op.path2 && counted(op.path2)))
        return NOTHING;
    long here = atomic_fetch_add(&count, 1) + 1;
    if (control.log >= 0) {
        char line[PATH_MAX + 32];
        int n = snprintf(line, sizeof line, "%s %s\n", op.kind, op.path);
        next_syscall(SYS_write, control.log, line, (long)n);
    }
    if (control.action == FULL && control.at && here >= control.at && (op.needs_room || here == control.at))
        return FAIL;
    if (here != control.at)
        return NOTHING;
    if (control.action == KILL_BEFORE)
        stop();
    return control.action == KILL_AFTER ? NOTHING : control.action;
}

static long end(long result) {
    int kept = errno;
    if (control.action == KILL_AFTER && is_here())
        stop();
    errno = kept;
    return result;
}

static long failed(void) {
    errno = control.number;
    return -1;
}

/* Carry out a system call, or let it fail. */
#define CARRY_OUT(op, ...) (begin(op) == FAIL ? failed() : end(next_syscall(__VA_ARGS__)))
#define ON(kind, needs_room, path) ((struct operation){kind, needs_room, path, NULL})
#define ON_TWO(kind, path, path2) ((struct operation){kind, true, path, path2})

/* ---- names */

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    char there[PATH_MAX];
    bool creates = flags & (O_CREAT | O_TRUNC);
    return (int)CARRY_OUT(ON(creates ? "create" : "open", creates, path_at(folder, path, there)),
                          SYS_openat, folder, path, flags, (long)mode);
}

#define OPEN(name)                                                \
    int name(const char *path, int flags, ...) {                  \
        va_list rest;                                             \
        va_start(rest, flags);                                    \
        int mode = flags & O_CREAT ? va_arg(rest, int) : 0;       \
        va_end(rest);                                             \
        return open_at(AT_FDCWD, path, flags, (mode_t)mode);      \
    }
#define OPEN_AT(name)                                             \
    int name(int folder, const char *path, int flags, ...) {      \
        va_list rest;                                             \
        va_start(rest, flags);                                    \
        int mode = flags & O_CREAT ? va_arg(rest, int) : 0;       \
        va_end(rest);                                             \
        return open_at(folder, path, flags, (mode_t)mode);        \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int renameat2(int from, const char *path, int to, const char *path2, unsigned flags) {
    char there[PATH_MAX], there2[PATH_MAX];
    struct operation op = ON_TWO("rename", path_at(from, path, there), path_at(to, path2, there2));
    return (int)CARRY_OUT(op, SYS_renameat2, from, path, to, path2, (long)flags);
}
int renameat(int from, const char *path, int to, const char *path2) { return renameat2(from, path, to, path2, 0); }
int rename(const char *path, const char *path2) { return renameat2(AT_FDCWD, path, AT_FDCWD, path2, 0); }

int linkat(int from, const char *path, int to, const char *path2, int flags) {
    char there[PATH_MAX], there2[PATH_MAX];
    struct operation op = ON_TWO("link", path_at(from, path, there), path_at(to, path2, there2));
    return (int)CARRY_OUT(op, SYS_linkat, from, path, to, path2, (long)flags);
}
int link(const char *path, const char *path2) { return linkat(AT_FDCWD, path, AT_FDCWD, path2, 0); }

int symlinkat(const char *target, int folder, const char *path) {
    char there[PATH_MAX];
    return (int)CARRY_OUT(ON("symlink", true, path_at(folder, path, there)), SYS_symlinkat, target, folder, path);
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

int unlinkat(int folder, const char *path, int flags) {
    char there[PATH_MAX];
    const char *kind = flags & AT_REMOVEDIR ? "rmdir" : "unlink";
    return (int)CARRY_OUT(ON(kind, false, path_at(folder, path, there)), SYS_unlinkat, folder, path, (long)flags);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *path, mode_t mode) {
    char there[PATH_MAX];
    return (int)CARRY_OUT(ON("mkdir", true, path_at(folder, path, there)), SYS_mkdirat, folder, path, (long)mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ---- contents */

#define ON_FILE(kind, needs_room, descriptor) ON(kind, needs_room, path_of(descriptor, (char[PATH_MAX]){0}))

int fsync(int fd) { return (int)CARRY_OUT(ON_FILE("fsync", false, fd), SYS_fsync, fd); }
int fdatasync(int fd) { return (int)CARRY_OUT(ON_FILE("fsync", false, fd), SYS_fdatasync, fd); }
int ftruncate(int fd, off_t size) { return (int)CARRY_OUT(ON_FILE("ftruncate", true, fd), SYS_ftruncate, fd, size); }
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int flock(int fd, int how) { return (int)CARRY_OUT(ON_FILE("flock", false, fd), SYS_flock, fd, (long)how); }
int fallocate(int fd, int mode, off_t at, off_t n) {
    return (int)CARRY_OUT(ON_FILE("fallocate", true, fd), SYS_fallocate, fd, (long)mode, at, n);
}
int fallocate64(int fd, int mode, off64_t at, off64_t n) { return fallocate(fd, mode, at, n); }
int fchmod(int fd, mode_t mode) { return (int)CARRY_OUT(ON_FILE("chmod", false, fd), SYS_fchmod, fd, (long)mode); }

/* The descriptor is free after a failure too, as Linux has it. Without access to write, nothing is lost by one. */
int close(int fd) {
    bool reads = (next_syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
    enum action fault = begin(ON_FILE(reads ? "close-read" : "close", false, fd));
    long result = next_syscall(SYS_close, fd);
    return (int)(fault == FAIL ? failed() : end(result));
}

/* The bytes that a write may store. */
static size_t room(enum action fault, size_t n) { return (fault == SHORT || fault == TEAR) && n > 1 ? n / 2 : n; }

static ssize_t written(enum action fault, long result) {
    if (fault == TEAR)
        stop();
    return (ssize_t)end(result);
}

ssize_t write(int fd, const void *data, size_t n) {
    enum action fault = begin(ON_FILE("write", true, fd));
    return fault == FAIL ? failed() : written(fault, next_syscall(SYS_write, fd, data, room(fault, n)));
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    enum action fault = begin(ON_FILE("write", true, fd));
    return fault == FAIL ? failed() : written(fault, next_syscall(SYS_pwrite64, fd, data, room(fault, n), at));
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) { return pwrite(fd, data, n, at); }
ssize_t writev(int fd, const struct iovec *parts, int n) {
    enum action fault = begin(ON_FILE("write", true, fd));
    return fault == FAIL ? failed() : written(fault, next_syscall(SYS_writev, fd, parts, (long)room(fault, (size_t)n)));
}
/* A program that cannot copy so may copy another way. */
ssize_t sendfile(int to, int from, off_t *at, size_t n) {
    enum action fault = begin(ON_FILE("copy", true, to));
    return fault == FAIL ? failed() : written(fault, next_syscall(SYS_sendfile, to, from, at, room(fault, n)));
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t n) { return sendfile(to, from, at, n); }
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *at2, size_t n, unsigned flags) {
    enum action fault = begin(ON_FILE("copy", true, to));
    if (fault == FAIL)
        return failed();
    return written(fault, next_syscall(SYS_copy_file_range, from, at, to, at2, room(fault, n), (long)flags));
}

/* ---- the one that may stand for others */

long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_renameat2)
        return renameat2((int)a, (const char *)b, (int)c, (const char *)d, (unsigned)e);
    return next_syscall(number, a, b, c, d, e, f);
}
