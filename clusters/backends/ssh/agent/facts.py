"""What this machine is, for people, and where the programs are that nodes need."""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import subprocess
import sys
from typing import Any

_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_OLDEST_JAVA = 17
_TIMEOUT_S = 20.0


def facts(root: str, links: str) -> dict[str, Any]:
    """What it is and has; ``links`` is how it cuts them."""
    free = shutil.disk_usage(root).free
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "free_bytes": free,
        "agent_python": ".".join(map(str, sys.version_info[:3])),
        "links": links,
    }


def find_python(command: str) -> list[str] | None:
    """[path, ``3.11``, ABI] of a Python."""
    code = "import sys, sysconfig; print(sys.executable); print('%d.%d' % sys.version_info[:2]); print(sysconfig.get_config_var('SOABI'))"
    told = _output([command, "-I", "-c", code])
    return told.split() if told is not None and len(told.split()) == 3 else None


def find_java(command: str) -> list[Any] | None:
    """[path, major version] of the first Java that is new enough; an empty command: look for one."""
    found = (
        [command] if command else [*filter(None, [shutil.which("java")]), *sorted(glob.glob("/usr/lib/jvm/*/bin/java"))]
    )
    for each in found:
        told = _output([each, "-version"])
        version = _JAVA_VERSION.search(told) if told is not None else None
        if version is not None and int(version.group(1)) >= _OLDEST_JAVA:
            return [os.path.realpath(each), int(version.group(1))]
    return None


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None
