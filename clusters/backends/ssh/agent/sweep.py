"""Removes what dead agents left on this machine: rules, processes, files of their runs. A living agent is ended only when asked to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusters.backends.ssh.agent.guardian import RECORD, RUNS, holder, remove_routing, remove_rules, started_ticks
from clusters.backends.ssh.agent.links import IptablesLinks, Links, LinksError, NftLinks

LAB_MARK = "NEMESIS_LAB"
"""environment variable that every process of a lab carries"""

_LAB = re.compile(r"lab-[0-9]+-[0-9a-f]{12}")
_TERM_PATIENCE_S = 15.0
_KILL_PATIENCE_S = 5.0


def sweep(data: str, wanted: str | None, *, dry_run: bool, keep_files: bool) -> list[dict[str, Any]]:
    """What was found of each run: {"lab", "state", "detail"}; state: running, left, removed, failed.

    ``wanted`` names a run whose controller is known to be dead: its agent is ended too. None: every run whose agent has ended.
    ``keep_files`` leaves the files of the runs.
    """
    try:
        labs = sorted(name for name in os.listdir(os.path.join(data, RUNS)) if _LAB.fullmatch(name))
    except FileNotFoundError:
        return []
    found = []
    for lab in labs:
        if wanted is not None and lab != wanted:
            continue
        living = holder(data)
        state, detail = _left(data, lab, living, dry_run=dry_run, end=wanted is not None, keep_files=keep_files)
        found.append({"lab": lab, "state": state, "detail": detail})
    return found


def _left(
    data: str, lab: str, living: dict[str, Any] | None, *, dry_run: bool, end: bool, keep_files: bool
) -> tuple[str, str]:
    if living is not None and living.get("lab") == lab:
        agent = f"agent {living.get('pid')}"
        if not end:
            return "running", agent
        if dry_run:
            return "left", f"{agent} runs"
        if not _end(data, living):
            return "failed", f"{agent} does not end"
    root = os.path.join(data, RUNS, lab)
    address = _address(root)
    kinds: tuple[Links, ...] = (NftLinks(lab, address), IptablesLinks(lab, address))
    rules = [links for links in kinds if _there(links)]
    left = [f"process {pid}" for pid in _carriers(lab)]
    left += [f"rules of {links.kind}" for links in rules] + [f"files in {root}"]
    trouble = "" if dry_run else _remove(lab, rules, None if keep_files else root)
    # Another run's own rules are not told apart; its shaper has removed what was there before it began.
    if not (dry_run or trouble or holder(data) is not None or remove_routing()):
        trouble = "its routing rules cannot be removed"
    return ("failed", trouble) if trouble else ("left" if dry_run else "removed", ", ".join(left))


def _remove(lab: str, rules: Sequence[Links], root: str | None) -> str:
    """Remove what is left of a run, its files in ``root`` last; returns what could not be."""
    if not all(remove_rules(links) for links in rules):
        return "its rules cannot be removed"
    if not _kill_carriers(lab):
        return "its processes do not end"
    if root is None:
        return ""
    shutil.rmtree(root, ignore_errors=True)
    return f"{root} cannot be removed" if os.path.exists(root) else ""


def _there(links: Links) -> bool:
    try:
        return links.exists()
    except LinksError:
        return False  # a tool that is not here has made no rules either


def _end(data: str, living: dict[str, Any]) -> bool:
    """Ask an agent to end, then kill it; True when the lock is free."""
    pid = int(living["pid"])
    for number, patience_s in ((signal.SIGTERM, _TERM_PATIENCE_S), (signal.SIGKILL, _KILL_PATIENCE_S)):
        if started_ticks(pid) == living["ticks"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if holder(data) is None:
                return True
            time.sleep(0.05)
    return False


def _address(root: str) -> str:
    try:
        return str(json.loads(Path(root, RECORD).read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError):
        return "0.0.0.0"


def _carriers(lab: str) -> list[int]:
    """Processes that carry the run's mark in their environment."""
    mark = f"{LAB_MARK}={lab}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended
                if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    found.append(int(name))
    return found


def _kill_carriers(lab: str) -> bool:
    deadline = time.monotonic() + _KILL_PATIENCE_S
    while left := _carriers(lab):
        if time.monotonic() > deadline:
            return False
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return True
