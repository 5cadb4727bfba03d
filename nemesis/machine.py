"""What this machine is, and whether it can do what a run needs."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from clusters.backends.registry import find_backend


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried."""

    check: str
    ok: bool
    detail: str
    remedy: str = ""
    needed: bool = True


def describe() -> dict[str, str]:
    """The machine of a run, for its manifest."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": str(os.cpu_count()),
        "python": platform.python_version(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
    }


def _docker() -> list[Finding]:
    """What the docker engine permits, in one line when all is well; a machine without an engine lacks nothing that a run needs."""
    tried = find_backend("docker").examine()
    failed = next((each for each in tried if not each.ok), None)
    if failed is not None:
        detail = f"{failed.name}: {failed.detail} Only --cluster docker needs it."
        return [Finding("docker", False, detail, failed.remedy, needed=False)]
    detail = "; ".join(each.detail for each in (tried[0], tried[-1]))
    return [Finding("docker", True, f"{detail}; containers, one-way cuts and removal work", needed=False)]


def examine_inventory(inventory: Path) -> list[Finding]:
    """Try every machine of an inventory. Raises Problem (usage) for one that cannot be used."""
    from clusters.backends.backend import Place
    from clusters.backends.ssh.backend import examine_machines

    tried = examine_machines(Place(inventory=inventory))
    of_one_candidate = (" for the reference", " for Apache Kafka")
    return [
        Finding(each.name, each.ok, each.detail, each.remedy, needed=not each.name.endswith(of_one_candidate))
        for each in tried
    ]


def examine() -> list[Finding]:
    """Try everything that a run needs; takes a second or two."""
    from checker.java import find_java
    from clusters.backends.shim.compile import can_compile
    from workloads.problem import Problem

    findings = [Finding("python", True, f"{platform.python_version()} at {sys.executable}")]
    if sys.flags.optimize:
        findings.append(Finding("assertions", False, "python -O drops them", "Run without -O and PYTHONOPTIMIZE."))
    try:
        java = find_java()
        findings.append(Finding("java", True, f"version {java.version} at {java.home}"))
    except Problem as problem:
        findings.append(Finding("java", False, problem.what, problem.remedy))
    findings += [Finding(tried.name, tried.ok, tried.detail, tried.remedy) for tried in find_backend("local").examine()]
    findings += _docker()
    can, found, remedy = can_compile()
    detail = found if can else f"{found}; only faults that preload a library need one"
    findings.append(Finding("preload", can, detail, remedy, needed=False))
    maven = shutil.which("mvn")
    findings.append(
        Finding(
            "maven",
            maven is not None,
            maven or "no mvn on PATH; only the candidate kafka needs it",
            "apt-get install maven, or give --kafka-home DIR",
            needed=False,
        )
    )
    free = shutil.disk_usage(os.getcwd()).free / 2**30
    findings.append(Finding("disk", free > 2, f"{free:.0f} GiB free here", "A run of Kafka keeps about 0.2 GiB."))
    return findings
