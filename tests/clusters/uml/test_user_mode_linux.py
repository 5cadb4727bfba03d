"""What netem does to real packets, on a kernel that has it, wherever Debian's package ``user-mode-linux`` is installed."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PROJECT = FOLDER.parents[2]
PATIENCE_S = 240.0
HIDDEN = ("/tmp", "/run", "/var/tmp", "/dev")
"""where ``init.sh`` mounts file systems of its own"""

pytestmark = pytest.mark.uml


def test_netem_shapes_packets_of_nodes_in_user_mode_linux(tmp_path: Path) -> None:
    kernel, compiler = shutil.which("linux.uml"), shutil.which("cc") or shutil.which("gcc")
    if kernel is None or compiler is None or platform.machine() != "x86_64":
        pytest.skip("there is no linux.uml (Debian's package user-mode-linux) or no C compiler")
    if any(PROJECT.is_relative_to(hidden) for hidden in HIDDEN):
        pytest.skip(f"{PROJECT} cannot be seen in there: it has a temporary file system in its place")
    preloaded = tmp_path / "xstate.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", preloaded, FOLDER / "xstate.c"], check=True, timeout=60)
    told = tmp_path / "console"
    arguments = [
        *("mem=1G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", f"uml_dir={tmp_path}"),
        *("con=null", "con0=null,fd:2", "ssl=null", f"init={FOLDER / 'init.sh'}"),
        *(f"TEST_PYTHON={sys.executable}", f"TEST_FOLDER={FOLDER}", f"TEST_PROJECT={PROJECT}"),
    ]
    with told.open("wb") as console:
        running = subprocess.Popen(
            [kernel, *arguments],
            env={"PATH": os.environ["PATH"], "LD_PRELOAD": str(preloaded)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=console,
            start_new_session=True,
        )
        try:
            running.wait(PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):  # its processes are the host's
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    text = told.read_text(errors="replace")
    assert "the tests in user-mode Linux ended with 0" in text, text[-5000:]
    passed = re.search(r"(\d+) passed(?!.*skipped)", text)
    assert passed is not None, text[-5000:]
    assert int(passed[1]) == 3
