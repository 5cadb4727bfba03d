/* Lets user-mode Linux up to 6.13 run on processors whose extended state is larger than the room that it has for it.
 *
 * It reads the state of its processes with PTRACE_GETREGSET into a buffer of its own size, and writes that part back. The host refuses to
 * take a part. What lies beyond it (AMX) no program of a test uses: here the part is laid over what the host has of the process. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { X86_XSTATE = 0x202, STATE_BYTES = 1 << 16 };

static long set_state(long process, const struct iovec *part)
{
    static char state[STATE_BYTES];
    struct iovec whole = {state, sizeof state};

    if (syscall(SYS_ptrace, PTRACE_GETREGSET, process, X86_XSTATE, &whole) < 0)
        return -1;
    memcpy(state, part->iov_base, part->iov_len < whole.iov_len ? part->iov_len : whole.iov_len);
    return syscall(SYS_ptrace, PTRACE_SETREGSET, process, X86_XSTATE, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
    va_list rest;
    long process, word;
    void *address, *data;

    va_start(rest, request);
    process = va_arg(rest, int);
    address = va_arg(rest, void *);
    data = va_arg(rest, void *);
    va_end(rest);
    if (request == PTRACE_SETREGSET && (long)address == X86_XSTATE)
        return set_state(process, data);
    if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
        return syscall(SYS_ptrace, (long)request, process, address, data);
    if (syscall(SYS_ptrace, (long)request, process, address, &word) < 0)
        return -1;
    errno = 0;
    return word;
}
