"""Memory of the controller through a long run: is it flat?

    PYTHONPATH=. .venv/bin/python benchmarks/controller_memory.py [--every 10] -- chaos --duration 600 --cluster docker --candidate kafka

Runs `nemesis run` with what follows ``--`` and prints, for each sampling, the resident memory of the controller alone (RSS and what is
private to it) and of all its descendants together (nodes and Spark's JVM), with the run's phase; at the end the growth of the
controller between the first and the last quarter of the load, as a ratio. Exits with the run's own status.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.phases import last_phase

ROOT = Path(__file__).parents[1]
MIB = 1 << 20
LIMIT_S = 3600.0 * 4


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident bytes at one moment."""

    at_s: float
    phase: str
    controller: int
    private: int
    descendants: int


def main() -> int:
    options = parse()
    samples: list[Sample] = []
    with tempfile.NamedTemporaryFile("w+") as told:
        command = [sys.executable, "-m", "nemesis", "run", *options.run]
        begun = time.monotonic()
        run = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=told)
        while run.poll() is None and time.monotonic() - begun < LIMIT_S:
            at_s = time.monotonic() - begun
            if samples_due(samples, at_s, options.every):
                samples.append(sample(run.pid, at_s, last_phase(Path(told.name).read_text()) or "-"))
                print(line(samples[-1]), file=sys.stderr, flush=True)
            time.sleep(0.2)
        status = run.wait()
    print(growth(samples))
    return status


def samples_due(samples: list[Sample], at_s: float, every_s: float) -> bool:
    return not samples or at_s - samples[-1].at_s >= every_s


def sample(pid: int, at_s: float, phase: str) -> Sample:
    resident, private = memory(pid)
    return Sample(at_s, phase, resident, private, sum(memory(child)[0] for child in descendants(pid)))


def memory(pid: int) -> tuple[int, int]:
    """Resident and private bytes of a process, zeros when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0, 0
    kib = {name: int(rest.split()[0]) for name, _, rest in (each.partition(":") for each in lines)}
    return kib["Rss"] << 10, (kib["Private_Clean"] + kib["Private_Dirty"]) << 10


def descendants(pid: int) -> Iterator[int]:
    """Children, their children, and so on. Containers are no descendants: they belong to the engine."""
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
                    for child in (task / "children").read_text().split()]  # fmt: skip
    except OSError:
        return
    for child in children:
        yield child
        yield from descendants(child)


def line(each: Sample) -> str:
    sizes = (each.controller / MIB, each.private / MIB, each.descendants / MIB)
    return "{:7.1f} s {:9} controller {:6.1f} MiB (private {:6.1f}), descendants {:7.1f} MiB".format(
        each.at_s, each.phase, *sizes
    )


def growth(samples: list[Sample]) -> str:
    load = [each.private / MIB for each in samples if each.phase == "load"]
    if len(load) < 8:
        return "too few samples of the load to tell"
    quarter = len(load) // 4
    first, last = statistics.median(load[:quarter]), statistics.median(load[-quarter:])
    return f"controller's private memory, medians: first quarter of the load {first:.1f} MiB, last {last:.1f} MiB, ratio {last / first:.3f}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two samplings")
    parser.add_argument("run", nargs="+", help="arguments of `nemesis run`, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
