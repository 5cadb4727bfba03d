/* The disk of one process: slow, failing, or durable at fsync only. Files below NEMESIS_DISK_ROOT are meant.

   The page that NEMESIS_DISK names says what holds (clusters/backends/shim/disk.py has the same layout in Python); while it says
   nothing, a call costs two loads more. With a delay each write, pwrite, writev, pwritev, fsync and fdatasync sleeps before it is
   carried out; with an error it fails instead; both are counted.

   NEMESIS_DISK_SHADOW names a directory that holds what a power cut would leave: fsync and fdatasync copy the file there, whole,
   and rename it into place; renaming, removing and making directories are done there at once. A file that is renamed before it was
   synced is empty there under its new name, as on ext4 with noauto_da_alloc. The model is milder than a disk: names are durable at
   once, and no block is torn.

   Calls that go through the C library only; what a program writes by mmap is not delayed and does not fail, and is copied by the
   next fsync of the file (msync copies nothing). */

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned long size_t;
typedef long ssize_t;
struct timespec { long tv_sec; long tv_nsec; };
struct iovec { void *base; size_t length; };

struct page {
    u64 delay_ns; /* before each write and each sync; 0: none */
    u64 error;    /* errno of each write and each sync; 0: none */
    u64 loaded;   /* 1 as soon as a process has this library and this file */
    u64 writes;   /* that were delayed */
    u64 syncs;
    u64 slept_ns;
    u64 failed;   /* writes and syncs that met the error */
};

extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern int close(int);
extern void *mmap(void *, unsigned long, int, int, int, long);
extern char *realpath(const char *, char *);
extern long syscall(long, ...);
extern int *__errno_location(void);

#if defined(__x86_64__)
enum { SYS_WRITE = 1, SYS_PWRITE = 18, SYS_WRITEV = 20, SYS_PWRITEV = 296, SYS_PWRITEV2 = 328, SYS_FSYNC = 74, SYS_FDATASYNC = 75,
       SYS_READLINKAT = 267, SYS_NANOSLEEP = 35, SYS_CLOCK_GETTIME = 228, SYS_LSEEK = 8, SYS_READ = 0, SYS_FTRUNCATE = 77,
       SYS_OPENAT = 257, SYS_RENAMEAT2 = 316, SYS_UNLINKAT = 263, SYS_MKDIRAT = 258, SYS_CLOSE = 3 };
#elif defined(__aarch64__)
enum { SYS_WRITE = 64, SYS_PWRITE = 68, SYS_WRITEV = 66, SYS_PWRITEV = 70, SYS_PWRITEV2 = 287, SYS_FSYNC = 82, SYS_FDATASYNC = 83,
       SYS_READLINKAT = 78, SYS_NANOSLEEP = 101, SYS_CLOCK_GETTIME = 113, SYS_LSEEK = 62, SYS_READ = 63, SYS_FTRUNCATE = 46,
       SYS_OPENAT = 56, SYS_RENAMEAT2 = 276, SYS_UNLINKAT = 35, SYS_MKDIRAT = 34, SYS_CLOSE = 57 };
#else
#error "the numbers of system calls are known for x86-64 and arm64 only"
#endif
#define AT_FDCWD (-100)
#define CLOCK_MONOTONIC 1
#define AT_REMOVEDIR 0x200
#define O_RDWR_CLOEXEC (02 | 02000000)
#define O_RDONLY_CLOEXEC 02000000
#define O_NEW_CLOEXEC (01 | 0100 | 01000 | 02000000)
#define SEEK_DATA 3
#define SEEK_HOLE 4
#define SEEK_END 2
#define COPY_BYTES 65536
#define PROT_READ_WRITE 3
#define MAP_SHARED 1
#define NS 1000000000LL
#define PATH_BYTES 4096
#define SHOWN __attribute__((visibility("default")))

static struct page *page;
static char root[PATH_BYTES], shadow[PATH_BYTES];
static const char *named_root; /* as it was given, which a program may use too */
static size_t root_length, shadow_length;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("NEMESIS_DISK"), *named = getenv("NEMESIS_DISK_ROOT");
    if (!path || !named || !realpath(named, root))
        return;
    named_root = named;
    while (root[root_length])
        root_length++;
    const char *durable = getenv("NEMESIS_DISK_SHADOW");
    if (durable && realpath(durable, shadow))
        while (shadow[shadow_length])
            shadow_length++;
    int file = open(path, O_RDWR_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(0, sizeof(struct page), PROT_READ_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == (void *)-1L)
        return;
    __atomic_store_n(&((struct page *)mapped)->loaded, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&page, (struct page *)mapped, __ATOMIC_RELEASE);
}

/* Where a path lies below a directory: what follows it, with the slash; 0 for one that lies elsewhere. */
static const char *below(const char *path, const char *directory) {
    while (*directory && *path == *directory)
        path++, directory++;
    return !*directory && *path == '/' ? path : 0;
}

/* The path of an open file, and what of it is below the root; 0 for other files, sockets and pipes. */
static const char *path_of(int file, char path[PATH_BYTES]) {
    char link[32] = "/proc/self/fd/", digits[12];
    int count = 0, at = 14;
    if (file < 0)
        return 0;
    do
        digits[count++] = (char)('0' + file % 10);
    while (file /= 10);
    while (count)
        link[at++] = digits[--count];
    link[at] = 0;
    ssize_t length = syscall(SYS_READLINKAT, (long)AT_FDCWD, link, path, (long)(PATH_BYTES - 1));
    if (length < 0)
        return 0;
    path[length] = 0;
    return below(path, root);
}

static i64 now_ns(void) {
    struct timespec now;
    syscall(SYS_CLOCK_GETTIME, (long)CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS + now.tv_nsec;
}

/* Sleeps where it must, and says whether the call may be carried out; the file is looked up only while something holds. */
static int disk_allows(int file, int sync) {
    char path[PATH_BYTES];
    struct page *shared = __atomic_load_n(&page, __ATOMIC_ACQUIRE);
    u64 delay = shared ? __atomic_load_n(&shared->delay_ns, __ATOMIC_ACQUIRE) : 0;
    u64 error = shared ? __atomic_load_n(&shared->error, __ATOMIC_ACQUIRE) : 0;
    if ((!delay && !error) || !path_of(file, path))
        return 1;
    i64 began = now_ns(), left = (i64)delay;
    while (left > 0) { /* a signal may end a sleep early */
        struct timespec rest = {(long)(left / NS), (long)(left % NS)};
        syscall(SYS_NANOSLEEP, &rest, (void *)0);
        left = began + (i64)delay - now_ns();
    }
    if (delay) {
        __atomic_fetch_add(sync ? &shared->syncs : &shared->writes, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&shared->slept_ns, (u64)(now_ns() - began), __ATOMIC_RELEASE);
    }
    if (!error)
        return 1;
    __atomic_fetch_add(&shared->failed, 1, __ATOMIC_RELEASE);
    *__errno_location() = (int)error;
    return 0;
}

/* The name in the shadow of what lies below the root; 0 when it is too long. */
static const char *shadowed(const char *rest, const char *suffix, char name[PATH_BYTES]) {
    size_t at = 0;
    const char *parts[] = {shadow, rest, suffix};
    for (int i = 0; i < 3; i++)
        for (const char *from = parts[i]; *from; from++) {
            if (at + 1 >= PATH_BYTES)
                return 0;
            name[at++] = *from;
        }
    name[at] = 0;
    return name;
}

static int copy_part(int from, int to, long begin, long end) {
    static __thread char data[COPY_BYTES];
    syscall(SYS_LSEEK, (long)from, begin, 0L);
    syscall(SYS_LSEEK, (long)to, begin, 0L);
    while (begin < end) {
        long wanted = end - begin < COPY_BYTES ? end - begin : COPY_BYTES;
        ssize_t count = syscall(SYS_READ, (long)from, data, wanted);
        if (count <= 0 || syscall(SYS_WRITE, (long)to, data, count) != count)
            return 0;
        begin += count;
    }
    return 1;
}

static int copy_data(int from, int to) {
    long size = syscall(SYS_LSEEK, (long)from, 0L, (long)SEEK_END), begin = 0;
    if (size < 0 || syscall(SYS_FTRUNCATE, (long)to, size) != 0)
        return 0;
    while (begin < size && (begin = syscall(SYS_LSEEK, (long)from, begin, (long)SEEK_DATA)) >= 0) {
        long end = syscall(SYS_LSEEK, (long)from, begin, (long)SEEK_HOLE);
        if (!copy_part(from, to, begin, end))
            return 0;
        begin = end;
    }
    return 1;
}

/* After a sync: the file as it is now is what a power cut would leave. A file under several syncs at once is copied by each. */
static void make_durable(int file) {
    char path[PATH_BYTES], target[PATH_BYTES], draft[PATH_BYTES], suffix[] = ".sync-0000000000";
    const char *rest = shadow_length ? path_of(file, path) : 0;
    static u64 drafts;
    u64 number = __atomic_add_fetch(&drafts, 1, __ATOMIC_RELAXED);
    for (int i = 15; i > 5; i--, number /= 10)
        suffix[i] = (char)('0' + number % 10);
    if (!rest || !shadowed(rest, "", target) || !shadowed(rest, suffix, draft))
        return;
    int from = (int)syscall(SYS_OPENAT, (long)AT_FDCWD, path, (long)O_RDONLY_CLOEXEC, 0L);
    if (from < 0)
        return;
    int to = (int)syscall(SYS_OPENAT, (long)AT_FDCWD, draft, (long)O_NEW_CLOEXEC, 0644L);
    if (to >= 0) {
        int copied = copy_data(from, to);
        syscall(SYS_CLOSE, (long)to);
        /* a directory cannot be copied, nor replaced by a file */
        if (!copied || syscall(SYS_RENAMEAT2, (long)AT_FDCWD, draft, (long)AT_FDCWD, target, 0L) != 0)
            syscall(SYS_UNLINKAT, (long)AT_FDCWD, draft, 0L);
    }
    syscall(SYS_CLOSE, (long)from);
}

/* What of a path that a program named is below the root, in a buffer where it is relative to the working directory; else 0. */
static const char *named_below(const char *path, char whole[PATH_BYTES]) {
    if (!shadow_length || !path || !*path)
        return 0;
    if (*path != '/') {
        ssize_t at = syscall(SYS_READLINKAT, (long)AT_FDCWD, "/proc/self/cwd", whole, (long)(PATH_BYTES - 1));
        if (at <= 0)
            return 0;
        for (whole[at++] = '/'; *path; path++) {
            if (at + 1 >= PATH_BYTES)
                return 0;
            whole[at++] = *path;
        }
        whole[at] = 0;
        path = whole;
    }
    const char *rest = below(path, root);
    return rest ? rest : below(path, named_root);
}

SHOWN ssize_t write(int file, const void *data, size_t count) {
    if (!disk_allows(file, 0))
        return -1;
    return syscall(SYS_WRITE, (long)file, data, count);
}

SHOWN ssize_t pwrite64(int file, const void *data, size_t count, long offset) {
    if (!disk_allows(file, 0))
        return -1;
    return syscall(SYS_PWRITE, (long)file, data, count, offset);
}

SHOWN ssize_t pwrite(int file, const void *data, size_t count, long offset) {
    return pwrite64(file, data, count, offset);
}

SHOWN ssize_t writev(int file, const struct iovec *parts, int count) {
    if (!disk_allows(file, 0))
        return -1;
    return syscall(SYS_WRITEV, (long)file, parts, (long)count);
}

SHOWN ssize_t pwritev64(int file, const struct iovec *parts, int count, long offset) {
    if (!disk_allows(file, 0))
        return -1;
    return syscall(SYS_PWRITEV, (long)file, parts, (long)count, offset, 0L);
}

SHOWN ssize_t pwritev(int file, const struct iovec *parts, int count, long offset) {
    return pwritev64(file, parts, count, offset);
}

SHOWN ssize_t pwritev64v2(int file, const struct iovec *parts, int count, long offset, int flags) {
    if (!disk_allows(file, 0))
        return -1;
    return syscall(SYS_PWRITEV2, (long)file, parts, (long)count, offset, 0L, (long)flags);
}

SHOWN ssize_t pwritev2(int file, const struct iovec *parts, int count, long offset, int flags) {
    return pwritev64v2(file, parts, count, offset, flags);
}

static int synced(int file, long call) {
    if (!disk_allows(file, 1))
        return -1;
    int result = (int)syscall(call, (long)file), error = *__errno_location();
    if (result == 0)
        make_durable(file);
    *__errno_location() = error;
    return result;
}

SHOWN int fsync(int file) {
    return synced(file, SYS_FSYNC);
}

SHOWN int fdatasync(int file) {
    return synced(file, SYS_FDATASYNC);
}

SHOWN int rename(const char *old, const char *new) {
    int result = (int)syscall(SYS_RENAMEAT2, (long)AT_FDCWD, old, (long)AT_FDCWD, new, 0L), error = *__errno_location();
    char from[PATH_BYTES], to[PATH_BYTES], first[PATH_BYTES], second[PATH_BYTES];
    const char *old_rest = named_below(old, first), *new_rest = named_below(new, second);
    if (result == 0 && new_rest && shadowed(new_rest, "", to)) {
        if (!old_rest || !shadowed(old_rest, "", from) ||
            syscall(SYS_RENAMEAT2, (long)AT_FDCWD, from, (long)AT_FDCWD, to, 0L) != 0) {
            int empty = (int)syscall(SYS_OPENAT, (long)AT_FDCWD, to, (long)O_NEW_CLOEXEC, 0644L);
            if (empty >= 0)
                syscall(SYS_CLOSE, (long)empty);
        }
    }
    *__errno_location() = error;
    return result;
}

static int removed(const char *path, long how) {
    int result = (int)syscall(SYS_UNLINKAT, (long)AT_FDCWD, path, how), error = *__errno_location();
    char gone[PATH_BYTES], whole[PATH_BYTES];
    const char *rest = named_below(path, whole);
    if (result == 0 && rest && shadowed(rest, "", gone))
        syscall(SYS_UNLINKAT, (long)AT_FDCWD, gone, how);
    *__errno_location() = error;
    return result;
}

SHOWN int unlink(const char *path) {
    return removed(path, 0L);
}

SHOWN int rmdir(const char *path) {
    return removed(path, (long)AT_REMOVEDIR);
}

SHOWN int mkdir(const char *path, unsigned mode) {
    int result = (int)syscall(SYS_MKDIRAT, (long)AT_FDCWD, path, (long)mode), error = *__errno_location();
    char made[PATH_BYTES], whole[PATH_BYTES];
    const char *rest = named_below(path, whole);
    if (result == 0 && rest && shadowed(rest, "", made))
        syscall(SYS_MKDIRAT, (long)AT_FDCWD, made, 0755L);
    *__errno_location() = error;
    return result;
}
