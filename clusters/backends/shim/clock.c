/* The wall clock of one process, faked: clock_gettime (CLOCK_REALTIME, CLOCK_REALTIME_COARSE), gettimeofday, time.

   Monotonic clocks, waits and timers are left alone, also those that wait for a time of the wall clock. The control file that
   NEMESIS_CLOCK names says how (clusters/backends/shim/clock.py has the same layout in Python):

       fake = base_fake + (real - base_real) * rate, and strobe_ns more in every other period of period_ns since base_real.

   Two settings lie in it; the generation says which one holds, and the other is the next to be written, so nobody ever waits for
   half a setting. Beside it the shim counts what it answered: that is how the controller knows that the program reads this clock. */

typedef long long i64;
typedef unsigned long long u64;
struct timespec { long tv_sec; long tv_nsec; };
struct timeval { long tv_sec; long tv_usec; };

struct setting {
    i64 base_real; /* ns since 1970 */
    i64 base_fake;
    double rate;
    i64 strobe_ns;
    i64 period_ns;
    i64 spare;
};

struct page {
    u64 generation; /* settings[generation & 1] holds */
    u64 spare;
    struct setting settings[2];
    u64 loaded;     /* 1 as soon as a process has this library and this file */
    u64 seen;       /* the generation of the last answer */
    u64 answers;    /* since the file was made */
    u64 apart;      /* answers of which strobe_ns was a part */
    i64 offset_ns;  /* fake minus real, of the last answer */
    i64 fake_ns;    /* the last answer */
};

extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern int close(int);
extern void *mmap(void *, unsigned long, int, int, int, long);
extern long syscall(long, ...);
extern void *dlsym(void *, const char *) __attribute__((weak)); /* older C libraries keep it in another one */

#if defined(__x86_64__)
#define SYS_CLOCK_GETTIME 228
#elif defined(__aarch64__)
#define SYS_CLOCK_GETTIME 113
#else
#error "the numbers of system calls are known for x86-64 and arm64 only"
#endif
#define CLOCK_REALTIME 0
#define CLOCK_REALTIME_COARSE 5
#define O_RDWR_CLOEXEC (02 | 02000000)
#define PROT_READ_WRITE 3
#define MAP_SHARED 1
#define RTLD_NEXT ((void *)-1L)
#define NS 1000000000LL

typedef int (*clock_gettime_fn)(int, struct timespec *);
static clock_gettime_fn next_clock_gettime;
static struct page *page;

__attribute__((constructor)) static void begin(void) {
    if (dlsym)
        next_clock_gettime = (clock_gettime_fn)dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("NEMESIS_CLOCK");
    if (!path)
        return;
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

static int real_clock(int clock, struct timespec *at) {
    clock_gettime_fn next = __atomic_load_n(&next_clock_gettime, __ATOMIC_ACQUIRE);
    return next ? next(clock, at) : (int)syscall(SYS_CLOCK_GETTIME, (long)clock, at);
}

static i64 faked(struct page *shared, i64 real) {
    for (;;) {
        u64 generation = __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE);
        volatile struct setting *at = &shared->settings[generation & 1];
        i64 base_real = at->base_real, base_fake = at->base_fake, strobe = at->strobe_ns, period = at->period_ns;
        double rate = at->rate;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE) != generation)
            continue; /* what was read may be of the next but one */
        i64 passed = real - base_real;
        i64 fake = base_fake + (rate == 1.0 ? passed : (i64)((double)passed * rate));
        if (period > 0 && passed >= 0 && (passed / period) % 2) {
            fake += strobe;
            __atomic_fetch_add(&shared->apart, 1, __ATOMIC_RELAXED);
        }
        __atomic_store_n(&shared->offset_ns, fake - real, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->fake_ns, fake, __ATOMIC_RELAXED);
        __atomic_fetch_add(&shared->answers, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->seen, generation, __ATOMIC_RELEASE);
        return fake;
    }
}

__attribute__((visibility("default"))) int clock_gettime(int clock, struct timespec *at) {
    int result = real_clock(clock, at);
    struct page *shared = __atomic_load_n(&page, __ATOMIC_ACQUIRE);
    if (result == 0 && at && shared && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        i64 fake = faked(shared, at->tv_sec * NS + at->tv_nsec);
        at->tv_sec = fake / NS;
        at->tv_nsec = fake % NS;
    }
    return result;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone; /* obsolete, and left as it was */
    int result = clock_gettime(CLOCK_REALTIME, &now);
    if (result == 0 && at) {
        at->tv_sec = now.tv_sec;
        at->tv_usec = now.tv_nsec / 1000;
    }
    return result;
}

__attribute__((visibility("default"))) long time(long *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
