"""An archive of Spark's classes, parsed and laid out by the JVM itself (class-data sharing), which halves what a session takes to start.

It is made once, by ``python -m checker.archive``, from a session that rehearses all checks, and lies in the virtual environment
whose jars it was made from. The JVM compares it with the jars and does without it where they differ.
"""

from __future__ import annotations

import hashlib
import sys
import time
from contextlib import suppress
from pathlib import Path

from checker.java import Java, find_java

_PREFIX = "spark-"
_SUFFIX = ".jsa"


def archive_file(java: Java) -> Path | None:
    """Where the archive for this Java lies or would lie; None outside a virtual environment, where nothing is ours to write."""
    if sys.prefix == sys.base_prefix:
        return None
    try:
        release = (java.home / "release").read_bytes()
    except OSError:
        release = b""
    key = hashlib.sha256(str(java.home).encode() + release).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "nemesis" / f"{_PREFIX}{key}{_SUFFIX}"


def make_archive() -> Path | None:
    """Run a session over no run and let the JVM write down the classes that it loaded.

    Returns the archive, or None where this Java cannot make one (a linked runtime without a base archive) or there is no place
    for it. Raises Problem where Spark does not start at all.
    """
    from checker.session import start_session, stop_session, warm_up

    java = find_java()
    path = archive_file(java)
    if path is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob(f"{_PREFIX}*{_SUFFIX}"):
        old.unlink()
    fresh = path.with_suffix(f".{int(time.time())}.tmp")
    try:
        session = start_session(write_archive=fresh)
        warm_up(session)
        stop_session(session, patience_s=_DUMP_LIMIT_S)
        fresh.replace(path)
    except FileNotFoundError:
        return None
    finally:
        with suppress(OSError):
            fresh.unlink()
    return path


_DUMP_LIMIT_S = 120.0

if __name__ == "__main__":
    began = time.monotonic()
    made = make_archive()
    took = f"{time.monotonic() - began:.0f} s"
    if made is None:
        print(f"this Java keeps no archive of classes ({took}); sessions start without one", file=sys.stderr)
    else:
        print(f"archive of Spark's classes: {made.stat().st_size / 1e6:.0f} MB in {took}", file=sys.stderr)
