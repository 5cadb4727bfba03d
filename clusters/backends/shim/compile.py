"""Compiles the shims, once for each source and kind of machine, with whatever C compiler there is.

In order: ``CC``, ``cc``, ``gcc``, ``clang`` on the path; as root on a Debian its package ``gcc``, installed on demand; else the PyPI
package ``ziglang`` in this virtual environment, installed on demand from a lock file of its own. Other runs need none of them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from clusters.cache import cache_directory, make_directory
from workloads.problem import Problem

Say = Callable[[str], None]

SOURCES = Path(__file__).parent
LOCK = Path(__file__).parents[3] / "requirements-compiler.lock"
_FLAGS = (
    "-O2",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fvisibility=hidden",
    "-Wall",
    "-Werror",
)
_MACHINES = ("x86_64", "aarch64")
_COMPILE_TIMEOUT_S = 120.0
_INSTALL_TIMEOUT_S = 900.0
_REMEDY = "Install a C compiler (as root: apt-get install gcc), or name one: CC=/path/to/cc."


def shim_library(name: str, say: Say = lambda _: None) -> Path:
    """The compiled ``<name>.c`` of this package, from the cache or made now.

    Raises Problem ``compiler-missing``, ``shim-not-compiled`` or ``machine-unknown``.
    """
    kept = _kept(name)
    if kept.is_file():
        return kept
    compiler = _compiler() or _installed_compiler(say)
    if compiler is None:
        raise Problem("compiler-missing", f"The library {name} is compiled here, and there is no C compiler.", _REMEDY)
    make_directory(kept.parent)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=kept.parent) as scratch:
        made = Path(scratch) / kept.name
        command = [*compiler, *_FLAGS, "-o", str(made), str(SOURCES / f"{name}.c")]
        done = _run(command, _COMPILE_TIMEOUT_S)
        if done is None or done.returncode != 0 or not made.is_file():
            said = "it did not end" if done is None else (done.stderr or done.stdout).strip()[-600:]
            raise Problem("shim-not-compiled", f"{shlex.join(command)} failed: {said}", _REMEDY)
        made.chmod(0o755)
        made.rename(kept)
    say(
        f"compiled the library {name} with {shlex.join(compiler[:3])} in {time.monotonic() - began:.1f} s, kept in {kept.parent}"
    )
    return kept


def can_compile(names: Sequence[str] = ()) -> tuple[bool, str, str]:
    """Whether shims can be had here, found without installing anything: (ok, what was found, what mends it)."""
    try:
        if names and all(_kept(name).is_file() for name in names):
            return True, f"compiled before, kept in {_kept(names[0]).parent}", ""
    except Problem as problem:
        return False, problem.what, problem.remedy
    compiler = _compiler()
    if compiler is not None:
        return True, f"C compiler: {shlex.join(compiler)}", ""
    if _is_debian_root():
        return True, "no C compiler yet: Debian's package gcc is installed when a run needs it", ""
    if LOCK.is_file() and os.access(sys.prefix, os.W_OK) and sys.prefix != sys.base_prefix:
        return True, "no C compiler yet: the PyPI package ziglang (100 MB) is installed when a run needs it", ""
    return False, "no C compiler", _REMEDY


def _kept(name: str) -> Path:
    machine = platform.machine()
    if machine not in _MACHINES or sys.platform != "linux":
        raise Problem(
            "machine-unknown",
            f"Libraries for preloading are written for Linux on {' and '.join(_MACHINES)}, not for {sys.platform} on {machine}.",
            "Leave out faults that need one.",
            usage=True,
        )
    told = (SOURCES / f"{name}.c").read_bytes() + " ".join(_FLAGS).encode()
    return cache_directory() / "shims" / f"{name}-{machine}-{hashlib.sha256(told).hexdigest()[:16]}.so"


def _compiler() -> tuple[str, ...] | None:
    """The command that compiles, None where nothing on this machine does."""
    named = os.environ.get("CC")
    for candidate in filter(None, (named, "cc", "gcc", "clang")):
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return tuple(words)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc", "-target", f"{platform.machine()}-linux-gnu.2.17")
    return None


def _installed_compiler(say: Say) -> tuple[str, ...] | None:
    """Install one: Debian's as root, else the locked Python package into this virtual environment."""
    began = time.monotonic()
    if _is_debian_root():
        say("no C compiler: installing Debian's package gcc (about 40 MB to fetch)")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run(
            ["apt-get", "update"], _INSTALL_TIMEOUT_S, environment
        )  # a source that does not answer is no reason to stop
        lock = ("-o", "DPkg::Lock::Timeout=300")
        _run(["apt-get", *lock, "install", "-y", "--no-install-recommends", "gcc"], _INSTALL_TIMEOUT_S, environment)
    elif LOCK.is_file() and sys.prefix != sys.base_prefix:
        say("no C compiler: installing one as a Python package (ziglang, 100 MB to fetch, 0.3 GB on disk)")
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--require-hashes"]
        _run([*pip, "--no-deps", "-r", str(LOCK)], _INSTALL_TIMEOUT_S)
        importlib.invalidate_caches()
    found = _compiler()
    if found is not None:
        say(f"installed a C compiler in {time.monotonic() - began:.0f} s")
    return found


def _is_debian_root() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _run(
    command: Sequence[str], timeout_s: float, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str] | None:
    """Run a command to its end; None where it cannot be run or does not end."""
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
