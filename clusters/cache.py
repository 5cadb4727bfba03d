"""Where things that can be had again are kept between runs: downloads, formats, compiled modules."""

from __future__ import annotations

import os
from pathlib import Path

from workloads.problem import Problem

_REMEDY = "Set NEMESIS_CACHE to a directory that you can write to."


def cache_directory() -> Path:
    """``NEMESIS_CACHE``, else ``nemesis`` in the user's cache directory. Raises Problem where the user has none."""
    named = os.environ.get("NEMESIS_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "nemesis"
    except RuntimeError as error:
        raise Problem(
            "cache-missing", "This user has no home directory, so no place for downloads.", _REMEDY
        ) from error


def make_directory(directory: Path) -> Path:
    """Make a directory of the cache and return it. Raises Problem ``cache-not-writable``."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(directory, error.strerror) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise _not_writable(directory, "it belongs to somebody else, or its file system is read-only")
    return directory


def _not_writable(directory: Path, why: str | None) -> Problem:
    return Problem("cache-not-writable", f"The cache {directory} cannot be written: {why}.", _REMEDY)
