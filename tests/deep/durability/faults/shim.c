/* Injects faults into the file operations of a process, and records them: preload it with LD_PRELOAD.
 *
 * Every operation on a path under a prefix has a number, from 1 on, and one of them may fail, write less than it is
 * asked to, or be the last one of the process. All operations are carried out by system calls that every 64-bit Linux
 * has, so that a wrapper does not depend on the name that the program called.
 *
 * Control: faults_arm(), or at the start the variables FAULT_PREFIX, FAULT_AT, FAULT_ACTION, FAULT_ERRNO and FAULT_LOG
 * (a file). The log has a line "KIND PATH" for each operation, before it is carried out.
 *
 * A record has the operations that succeeded, with their data, in the order in which they were carried out: that of
 * all processes and threads that write it. Control: faults_record(), or FAULT_PREFIX and FAULT_RECORD (a file). Inodes
 * stand for files and folders. `stat` may report other inodes than the file system does: faults_inodes().
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
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
    int record;
} control = {.log = -1, .record = -1};
static atomic_long count;

/* The C library's syscall(). Looked up at the first use, which may come before start(). */
#define next_syscall (*library_syscall())
static long (*library_syscall(void))(long, ...) {
    static long (*found)(long, ...);
    if (!found)
        found = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return found;
}

static void free_turn(void);

__attribute__((constructor)) static void start(void) {
    const char *prefix = getenv("FAULT_PREFIX"), *log = getenv("FAULT_LOG"), *record = getenv("FAULT_RECORD");
    pthread_atfork(NULL, NULL, free_turn);
    if (!prefix)
        return;
    snprintf(control.prefix, sizeof control.prefix, "%s", prefix);
    control.at = getenv("FAULT_AT") ? atol(getenv("FAULT_AT")) : 0;
    control.action = getenv("FAULT_ACTION") ? (enum action)atoi(getenv("FAULT_ACTION")) : NOTHING;
    control.number = getenv("FAULT_ERRNO") ? atoi(getenv("FAULT_ERRNO")) : EIO;
    if (log)
        control.log = (int)next_syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (record)
        control.record = (int)next_syscall(SYS_openat, AT_FDCWD, record, O_RDWR | O_APPEND | O_CLOEXEC, 0);
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

/* ---- the record */

enum kind {
    CREATE = 1, /* a new file: folder, inode, name; no folder: a file without a name */
    MKDIR,      /* folder, inode, name */
    SYMLINK,    /* folder, inode, name, target */
    LINK,       /* folder, inode, name */
    REMOVE,     /* folder, -, name */
    RENAME,     /* folder, new folder, name, new name, flags */
    WRITE,      /* inode, offset, data */
    TRUNCATE,   /* inode, size */
    ZERO,       /* inode, offset, length */
    SYNC,       /* inode; 1: without its name */
    SYNC_ALL,
    NOTE, /* text */
};

/* What a record holds of each operation, followed by its two texts. Integers have the machine's byte order. */
struct entry {
    uint32_t kind, n, n2, unused;
    int64_t time_ns;
    uint64_t a, b, c;
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* In a child that was forked while another thread had the turn. */
static void free_turn(void) { pthread_mutex_init(&turn, NULL); }

static bool records(void) { return control.record >= 0; }

/* Wait until no other thread or process carries out an operation that is recorded: their order must be the real one. */
static void take_turn(void) {
    if (!records())
        return;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pthread_mutex_lock(&turn);
    while (next_syscall(SYS_fcntl, control.record, F_SETLKW, &whole) < 0 && errno == EINTR)
        ;
}

static long give_turn(long result) {
    if (!records())
        return result;
    int kept = errno;
    struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    next_syscall(SYS_fcntl, control.record, F_SETLK, &whole);
    pthread_mutex_unlock(&turn);
    errno = kept;
    return result;
}

static void emit(struct entry entry, const void *text, size_t n, const void *text2, size_t n2) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    entry.time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    entry.n = (uint32_t)n;
    entry.n2 = (uint32_t)n2;
    const struct iovec parts[] = {{&entry, sizeof entry}, {(void *)text, n}, {(void *)text2, n2}};
    next_syscall(SYS_writev, control.record, parts, 3L);
}

/* Record operations under a prefix from now on, in a descriptor that is open for appending; -1 ends that. */
void faults_record(const char *prefix, int record) {
    snprintf(control.prefix, sizeof control.prefix, "%s", prefix);
    control.record = record;
}

/* Put a remark of the program between the operations. */
void faults_note(const char *text) {
    take_turn();
    if (records())
        emit((struct entry){.kind = NOTE}, text, strlen(text), NULL, 0);
    give_turn(0);
}

static uint64_t inode_at(int folder, const char *path, int flags) {
    struct stat found;
    return next_syscall(SYS_newfstatat, folder, path, &found, (long)flags) < 0 ? 0 : found.st_ino;
}

static struct stat facts_of(int fd) {
    struct stat found = {0};
    next_syscall(SYS_fstat, fd, &found);
    return found;
}

static uint64_t inode_of(int fd) { return facts_of(fd).st_ino; }

/* The inode of the folder of an absolute path, and the last part of the path. */
static uint64_t folder_of(char *path, const char **name) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    char *slash = strrchr(path, '/');
    *name = slash + 1;
    *slash = 0;
    uint64_t found = inode_at(AT_FDCWD, slash == path ? "/" : path, 0);
    *slash = '/';
    return found;
}

/* Record that a path has a new name in its folder. */
static void emit_name(enum kind kind, char *path, uint64_t inode, const char *target) {
    const char *name;
    uint64_t folder = folder_of(path, &name);
    emit((struct entry){.kind = kind, .a = folder, .b = inode}, name, strlen(name), target, target ? strlen(target) : 0);
}

/* Record a write that stored `n` bytes at `offset`; -1: they end at the position of the file. */
static void emit_write(int fd, const struct iovec *parts, int n_parts, int64_t offset, long n, int flags) {
    char path[PATH_MAX];
    if (!records() || n <= 0 || !counted(path_of(fd, path)))
        return;
    if (offset < 0)
        offset = next_syscall(SYS_lseek, fd, 0L, (long)SEEK_CUR) - n;
    uint64_t inode = inode_of(fd);
    for (int i = 0; i < n_parts && n > 0; i++) {
        size_t some = parts[i].iov_len < (size_t)n ? parts[i].iov_len : (size_t)n;
        if (some)
            emit((struct entry){.kind = WRITE, .a = inode, .b = (uint64_t)offset}, parts[i].iov_base, some, NULL, 0);
        offset += (int64_t)some;
        n -= (long)some;
    }
    if (flags & (RWF_DSYNC | RWF_SYNC) || next_syscall(SYS_fcntl, fd, F_GETFL) & O_DSYNC)
        emit((struct entry){.kind = SYNC, .a = inode, .b = 1}, NULL, 0, NULL, 0);
}

/* Record what a copy stored: it is read from the file. */
static void emit_copy(int fd, int64_t offset, long n) {
    char path[PATH_MAX], link[64];
    if (!records() || n <= 0 || !counted(path_of(fd, path)))
        return;
    if (offset < 0)
        offset = next_syscall(SYS_lseek, fd, 0L, (long)SEEK_CUR) - n;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int reader = (int)next_syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    char *data = malloc((size_t)n);
    if (next_syscall(SYS_pread64, reader, data, n, offset) == n)
        emit_write(fd, &(struct iovec){data, (size_t)n}, 1, offset, n, 0);
    free(data);
    next_syscall(SYS_close, reader);
}

static void emit_size(int fd) {
    struct stat found = facts_of(fd);
    emit((struct entry){.kind = TRUNCATE, .a = found.st_ino, .b = (uint64_t)found.st_size}, NULL, 0, NULL, 0);
}

/* ---- inodes */

static struct {
    const uint64_t *pairs; /* inode of the file system, inode to report; in the order of the former */
    long n;
    uint64_t device, added;
} inodes;

/* Report other inodes for the files of a device, from now on: those of the pairs, and for all others a number more. */
void faults_inodes(const uint64_t *pairs, long n, uint64_t device, uint64_t added) {
    inodes.pairs = pairs;
    inodes.n = n;
    inodes.device = device;
    inodes.added = added;
}

static uint64_t reported(uint64_t device, uint64_t inode) {
    if (!inodes.pairs || device != inodes.device)
        return inode;
    long low = 0, high = inodes.n;
    while (low < high) {
        long middle = (low + high) / 2;
        if (inodes.pairs[2 * middle] < inode)
            low = middle + 1;
        else
            high = middle;
    }
    return low < inodes.n && inodes.pairs[2 * low] == inode ? inodes.pairs[2 * low + 1] : inode + inodes.added;
}

int fstatat(int folder, const char *restrict path, struct stat *restrict out, int flags) {
    int result = (int)next_syscall(SYS_newfstatat, folder, path, out, (long)flags);
    if (result == 0)
        out->st_ino = reported(out->st_dev, out->st_ino);
    return result;
}
int fstat(int fd, struct stat *out) {
    int result = (int)next_syscall(SYS_fstat, fd, out);
    if (result == 0)
        out->st_ino = reported(out->st_dev, out->st_ino);
    return result;
}
int stat(const char *restrict path, struct stat *restrict out) { return fstatat(AT_FDCWD, path, out, 0); }
int lstat(const char *restrict path, struct stat *restrict out) {
    return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
/* On 64-bit Linux both structures are the same. */
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict out, int flags) {
    return fstatat(folder, path, (struct stat *)out, flags);
}
int fstat64(int fd, struct stat64 *out) { return fstat(fd, (struct stat *)out); }
int stat64(const char *restrict path, struct stat64 *restrict out) { return stat(path, (struct stat *)out); }
int lstat64(const char *restrict path, struct stat64 *restrict out) { return lstat(path, (struct stat *)out); }
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
    int result = (int)next_syscall(SYS_statx, folder, path, (long)flags, (long)mask, out);
    if (result == 0)
        out->stx_ino = reported(makedev(out->stx_dev_major, out->stx_dev_minor), out->stx_ino);
    return result;
}

#define READDIR(name, type)                                                \
    struct type *name(DIR *folder) {                                       \
        static struct type *(*next)(DIR *);                                \
        if (!next)                                                         \
            next = (struct type * (*)(DIR *)) dlsym(RTLD_NEXT, #name);     \
        struct type *found = next(folder);                                 \
        if (found && inodes.pairs)                                         \
            found->d_ino = reported(facts_of(dirfd(folder)).st_dev, found->d_ino); \
        return found;                                                      \
    }
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

/* ---- names */

static bool makes_file(int flags) { return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE; }

/* Record what opening a file has changed. */
static void emit_open(int fd, char *path, int flags, bool is_new) {
    if (makes_file(flags) && !(flags & O_CREAT))
        emit((struct entry){.kind = CREATE, .b = inode_of(fd)}, NULL, 0, NULL, 0);
    else if (is_new)
        emit_name(CREATE, path, inode_of(fd), NULL);
    else if (flags & O_TRUNC)
        emit_size(fd);
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    char there[PATH_MAX];
    bool creates = flags & O_TRUNC || makes_file(flags);
    if (begin(ON(creates ? "create" : "open", creates, path_at(folder, path, there))) == FAIL)
        return (int)failed();
    if (!creates || !records() || !counted(there))
        return (int)end(next_syscall(SYS_openat, folder, path, flags, (long)mode));
    take_turn();
    bool is_new = flags & O_CREAT && !inode_at(folder, path, 0);
    long fd = next_syscall(SYS_openat, folder, path, flags, (long)mode);
    if (fd >= 0)
        emit_open((int)fd, there, flags, is_new);
    return (int)end(give_turn(fd));
}

#define OPEN(name)                                                \
    int name(const char *path, int flags, ...) {                  \
        va_list rest;                                             \
        va_start(rest, flags);                                    \
        int mode = makes_file(flags) ? va_arg(rest, int) : 0;           \
        va_end(rest);                                             \
        return open_at(AT_FDCWD, path, flags, (mode_t)mode);      \
    }
#define OPEN_AT(name)                                             \
    int name(int folder, const char *path, int flags, ...) {      \
        va_list rest;                                             \
        va_start(rest, flags);                                    \
        int mode = makes_file(flags) ? va_arg(rest, int) : 0;           \
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
    if (begin(op) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_renameat2, from, path, to, path2, (long)flags);
    if (result == 0 && records() && (counted(there) || counted(there2))) {
        const char *name, *name2;
        struct entry entry = {.kind = RENAME, .a = folder_of(there, &name), .b = folder_of(there2, &name2), .c = flags};
        emit(entry, name, strlen(name), name2, strlen(name2));
    }
    return (int)end(give_turn(result));
}
int renameat(int from, const char *path, int to, const char *path2) { return renameat2(from, path, to, path2, 0); }
int rename(const char *path, const char *path2) { return renameat2(AT_FDCWD, path, AT_FDCWD, path2, 0); }

int linkat(int from, const char *path, int to, const char *path2, int flags) {
    char there[PATH_MAX], there2[PATH_MAX];
    struct operation op = ON_TWO("link", path_at(from, path, there), path_at(to, path2, there2));
    if (begin(op) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_linkat, from, path, to, path2, (long)flags);
    if (result == 0 && records() && counted(there2))
        emit_name(LINK, there2, inode_at(to, path2, AT_SYMLINK_NOFOLLOW), NULL);
    return (int)end(give_turn(result));
}
int link(const char *path, const char *path2) { return linkat(AT_FDCWD, path, AT_FDCWD, path2, 0); }

int symlinkat(const char *target, int folder, const char *path) {
    char there[PATH_MAX];
    if (begin(ON("symlink", true, path_at(folder, path, there))) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_symlinkat, target, folder, path);
    if (result == 0 && records() && counted(there))
        emit_name(SYMLINK, there, inode_at(folder, path, AT_SYMLINK_NOFOLLOW), target);
    return (int)end(give_turn(result));
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

int unlinkat(int folder, const char *path, int flags) {
    char there[PATH_MAX];
    const char *kind = flags & AT_REMOVEDIR ? "rmdir" : "unlink";
    if (begin(ON(kind, false, path_at(folder, path, there))) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_unlinkat, folder, path, (long)flags);
    if (result == 0 && records() && counted(there))
        emit_name(REMOVE, there, 0, NULL);
    return (int)end(give_turn(result));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *path, mode_t mode) {
    char there[PATH_MAX];
    if (begin(ON("mkdir", true, path_at(folder, path, there))) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_mkdirat, folder, path, (long)mode);
    if (result == 0 && records() && counted(there))
        emit_name(MKDIR, there, inode_at(folder, path, 0), NULL);
    return (int)end(give_turn(result));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ---- contents */

#define ON_FILE(kind, needs_room, descriptor) ON(kind, needs_room, path_of(descriptor, (char[PATH_MAX]){0}))

static bool is_recorded(int fd) {
    char path[PATH_MAX];
    return records() && counted(path_of(fd, path));
}

static int sync_file(int fd, long number) {
    if (begin(ON_FILE("fsync", false, fd)) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(number, fd);
    if (result == 0 && is_recorded(fd))
        emit((struct entry){.kind = SYNC, .a = inode_of(fd), .b = number == SYS_fdatasync}, NULL, 0, NULL, 0);
    return (int)end(give_turn(result));
}
int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

/* These sync all files: they count as an operation only in a record. */
static long sync_all(long number, int fd) {
    take_turn();
    long result = next_syscall(number, fd);
    if (records())
        emit((struct entry){.kind = SYNC_ALL}, NULL, 0, NULL, 0);
    return give_turn(result);
}
void sync(void) { sync_all(SYS_sync, 0); }
int syncfs(int fd) { return (int)sync_all(SYS_syncfs, fd); }

int ftruncate(int fd, off_t size) {
    if (begin(ON_FILE("ftruncate", true, fd)) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_ftruncate, fd, size);
    if (result == 0 && is_recorded(fd))
        emit_size(fd);
    return (int)end(give_turn(result));
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int truncate(const char *path, off_t size) {
    char there[PATH_MAX];
    if (begin(ON("ftruncate", true, path_at(AT_FDCWD, path, there))) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_truncate, path, size);
    if (result == 0 && records() && counted(there))
        emit((struct entry){.kind = TRUNCATE, .a = inode_at(AT_FDCWD, path, 0), .b = (uint64_t)size}, NULL, 0, NULL, 0);
    return (int)end(give_turn(result));
}
int truncate64(const char *path, off64_t size) { return truncate(path, size); }
int flock(int fd, int how) { return (int)CARRY_OUT(ON_FILE("flock", false, fd), SYS_flock, fd, (long)how); }
int fallocate(int fd, int mode, off_t at, off_t n) {
    if (begin(ON_FILE("fallocate", true, fd)) == FAIL)
        return (int)failed();
    take_turn();
    long result = next_syscall(SYS_fallocate, fd, (long)mode, at, n);
    if (result == 0 && is_recorded(fd)) {
        if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
            emit((struct entry){.kind = ZERO, .a = inode_of(fd), .b = (uint64_t)at, .c = (uint64_t)n}, NULL, 0, NULL, 0);
        emit_size(fd);
    }
    return (int)end(give_turn(result));
}
int fallocate64(int fd, int mode, off64_t at, off64_t n) { return fallocate(fd, mode, at, n); }
int posix_fallocate(int fd, off_t at, off_t n) { return fallocate(fd, 0, at, n) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off64_t at, off64_t n) { return posix_fallocate(fd, at, n); }
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
    if (fault == FAIL)
        return failed();
    take_turn();
    long result = next_syscall(SYS_write, fd, data, room(fault, n));
    emit_write(fd, &(struct iovec){(void *)data, n}, 1, -1, result, 0);
    return written(fault, give_turn(result));
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    enum action fault = begin(ON_FILE("write", true, fd));
    if (fault == FAIL)
        return failed();
    take_turn();
    long result = next_syscall(SYS_pwrite64, fd, data, room(fault, n), at);
    emit_write(fd, &(struct iovec){(void *)data, n}, 1, at, result, 0);
    return written(fault, give_turn(result));
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) { return pwrite(fd, data, n, at); }
/* Of one part, the half is stored; of several, half of them. */
static ssize_t write_parts(int fd, const struct iovec *parts, int n, off_t at, int flags) {
    enum action fault = begin(ON_FILE("write", true, fd));
    if (fault == FAIL)
        return failed();
    struct iovec one = n > 0 ? parts[0] : (struct iovec){0};
    one.iov_len = room(fault, one.iov_len);
    const struct iovec *some = n == 1 ? &one : parts;
    take_turn();
    long result = next_syscall(SYS_pwritev2, fd, some, (long)room(fault, (size_t)n), at, 0L, (long)flags);
    emit_write(fd, parts, n, at, result, flags);
    return written(fault, give_turn(result));
}
ssize_t writev(int fd, const struct iovec *parts, int n) { return write_parts(fd, parts, n, -1, 0); }
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) { return write_parts(fd, parts, n, at, 0); }
ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t at) { return write_parts(fd, parts, n, at, 0); }
ssize_t pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags) {
    return write_parts(fd, parts, n, at, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int n, off64_t at, int flags) {
    return write_parts(fd, parts, n, at, flags);
}
/* A program that cannot copy so may copy another way. */
ssize_t sendfile(int to, int from, off_t *at, size_t n) {
    enum action fault = begin(ON_FILE("copy", true, to));
    if (fault == FAIL)
        return failed();
    take_turn();
    long result = next_syscall(SYS_sendfile, to, from, at, room(fault, n));
    emit_copy(to, -1, result);
    return written(fault, give_turn(result));
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t n) { return sendfile(to, from, at, n); }
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *at2, size_t n, unsigned flags) {
    enum action fault = begin(ON_FILE("copy", true, to));
    if (fault == FAIL)
        return failed();
    off64_t place = at2 ? *at2 : -1;
    take_turn();
    long result = next_syscall(SYS_copy_file_range, from, at, to, at2, room(fault, n), (long)flags);
    emit_copy(to, place, result);
    return written(fault, give_turn(result));
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
