"""Entering the lab: the system calls that make its namespaces and tie its life to the controller's."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from pathlib import Path

from workloads.problem import Problem

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x4_0000
_PR_SET_PDEATHSIG, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 1, 47, 2
_CAP_NET_ADMIN, _CAP_NET_RAW, _CAP_SYS_ADMIN = 12, 13, 21
_CAPABILITY_VERSION = 0x2008_0522

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent dies. The caller checks afterwards that the parent had not died before.

    The kernel watches the parent's *thread* that forked, so that thread must live as long as the lab. A change of credentials
    forgets the wish: repeat it after :func:`leave_host`.
    """
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def leave_host() -> None:
    """Enter new mount and network namespaces, and a new process namespace for the next child; a user namespace where needed.

    Must be called before any thread is started. In a user namespace the user keeps his id: what the nodes write is his.
    Raises Problem ``namespaces-not-permitted``.
    """
    uid, gid = os.getuid(), os.getgid()
    privileged = _has_capability(_CAP_SYS_ADMIN)
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET
    try:
        if not privileged:
            unshare(CLONE_NEWUSER)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        unshare(flags)
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    except OSError as error:
        raise not_permitted(error, privileged=privileged) from error


def mount_proc() -> bool:
    """Show the lab's own processes in /proc; False where the kernel refuses (some containers), and the old one stays."""
    try:
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    except OSError:
        return False
    return True


def forget_name_servers() -> None:
    """Let name lookups in the lab fail at once: no name server can be reached, and each lookup would wait 5 s for one."""
    with contextlib.suppress(OSError):  # without the file there is no name server either
        _mount("/dev/null", "/etc/resolv.conf", None, _MS_BIND)


def unshare(flags: int) -> None:
    """Leave namespaces for new ones. Raises OSError."""
    _call("unshare", _libc.unshare(flags))


def enter_network(descriptor: int) -> None:
    """Move this thread into a network namespace. Raises OSError."""
    _call("setns", _libc.setns(descriptor, CLONE_NEWNET))


def network_descriptor() -> int:
    """A descriptor of the network namespace that this thread is in; the namespace lives as long as it is open."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def pass_on_capabilities() -> None:
    """Let the programs that this thread starts keep its rights over networks: in a user namespace whose user is not root, and only
    there, starting a program loses them. Nothing happens where they are missing; whoever needs them says so."""
    if os.geteuid() == 0:
        return
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    if _libc.capget(header, sets) != 0:
        return
    sets[2] |= sets[1] & (1 << _CAP_NET_ADMIN | 1 << _CAP_NET_RAW)  # effective, permitted, inheritable
    _libc.capset(header, sets)
    for number in (_CAP_NET_ADMIN, _CAP_NET_RAW):
        _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0)


def not_permitted(error: OSError, *, privileged: bool) -> Problem:
    """Why this machine refuses namespaces, and what mends it."""
    reason = "the limit of namespaces is reached" if error.errno == errno.ENOSPC else error.strerror
    what = f"Network namespaces are not permitted here: {reason} ({error.filename})."
    return Problem("namespaces-not-permitted", what, " ".join(_remedies(error, privileged=privileged)))


def _remedies(error: OSError, *, privileged: bool) -> list[str]:
    found = []
    if not privileged and _sysctl("kernel/unprivileged_userns_clone") == "0":
        found.append("Allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1` as root.")
    if not privileged and _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        found.append("Allow user namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root.")
    for kind in ("user", "net", "pid", "mnt"):
        if _sysctl(f"user/max_{kind}_namespaces") == "0" and (kind != "user" or not privileged):
            found.append(f"Allow more namespaces: `sysctl -w user.max_{kind}_namespaces=15000` as root.")
    if error.errno == errno.ENOSPC and not found:
        found.append("Too many namespaces exist or are nested: raise the limits in `sysctl user` as root.")
    if _in_container():
        found.append(
            "In a container: start it with `--privileged`, or as a user with `--security-opt seccomp=unconfined`."
        )
    if os.getuid() != 0:
        if not found:
            found.append(
                "An ordinary user needs user namespaces, which are refused in a chroot and by security modules."
            )
        found.append("Or run as root.")
    elif not privileged:
        found.append("This root lacks CAP_SYS_ADMIN: give it the capabilities SYS_ADMIN and NET_ADMIN.")
    return found or ["Something refuses it even to root: look for a seccomp filter or a security module."]


def _in_container() -> bool:
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists() or "container" in os.environ:
        return True
    return _status_field("Seccomp") == "2"


def _has_capability(number: int) -> bool:
    return bool(int(_status_field("CapEff") or "0", 16) >> number & 1)


def _status_field(name: str) -> str | None:
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return None


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return None


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None)
    _call(f"mount {target}", result)


def _call(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
