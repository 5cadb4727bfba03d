"""How long nobody leads when the clock of the node that every majority needs is set back, against the size of the jump.

    PYTHONPATH=. .venv/bin/python benchmarks/clock_jumps.py --candidate kafka:3.9.2 --candidate reference [--sizes 0,1,5,10,20]

Each size is one run of three voters under load with the fault clock-back-without-leader: a follower's wall clock jumps back, and the
leader is killed at once. Measured from the kill to the first answer of a new leader that the quorum's sampler saw. Prints a Markdown
table, medians of ``--repeats``, in brackets the least and the most, and each measurement as it is made. ``--check`` judges all runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

import pyarrow.parquet as pq

from nemesis.life.plan import TIMERS
from tests.runs import perform

_SETTLE_S = 8.0
"""how much longer than the jump the fault holds: elections without any jump take up to three seconds"""
_GAP_S = 6.0
_SCENARIO = """\
title = "The clock goes back by {size} s on the node that the majority needs"
text = "For a table: time without a leader against the size of the jump."
warm_up_s = 2.0
gap_s = {gap}

[[faults]]
fault = "clock-back-without-leader"
offset_ms = {size_ms}
hold = {hold}

[known_hazard]
any = "Timers that read the wall clock stand still after a jump backward."
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidate", action="append", required=True, help="reference, or kafka:VERSION; repeatable")
    parser.add_argument("--sizes", default="0,1,5,10,20", help="seconds, with commas between")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("runs/clock-jumps"))
    parser.add_argument("--check", action="store_true", help="judge the runs")
    options = parser.parse_args()
    sizes = [float(size) for size in options.sizes.split(",")]
    rows, folders = [], []
    for candidate in options.candidate:
        cells = []
        for size in sizes:
            folder = run(options, candidate, size)
            folders.append(folder)
            found = measure(folder)
            told = ", ".join(f"{seconds:.2f} s ({who})" for seconds, who in found)
            print(f"{candidate}, {size:g} s back: {told}; load {os.getloadavg()[0]:.1f}; {folder}", flush=True)
            cells.append(cell([seconds for seconds, _ in found]))
        rows.append(f"| {candidate.replace(':', ' ')} | {' | '.join(cells)} |")
    print(f"\n| set back by | {' | '.join(f'{size:g} s' for size in sizes)} |")
    print(f"|---{'|---' * len(sizes)}|")
    print("\n".join(rows), flush=True)
    if options.check:
        from checker.run import check_runs
        from checker.session import start_session

        for verdict in check_runs(start_session(None), folders):
            print(f"{verdict.verdict.value:8} {verdict.run_id}: {verdict.sentence[:160]}", flush=True)
    return 0


def run(options: argparse.Namespace, candidate: str, size: float) -> Path:
    """One run with ``--repeats`` jumps of one size; returns its folder."""
    period_s = TIMERS.check_quorum_ms / 1000
    hold_s = size + _SETTLE_S
    text = _SCENARIO.format(size=f"{size:g}", gap=_GAP_S, size_ms=round(size * 1000), hold=hold_s / period_s)
    path = options.store / f"clock-back-{size:g}s.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    name, _, version = candidate.partition(":")
    # A hold is drawn up to 8 % longer, a gap up to 25 %.
    duration_s = 3 + options.repeats * 1.08 * hold_s + (options.repeats - 1) * 1.25 * _GAP_S
    extra = {"version": version} if version else {}
    return perform(options.store, str(path), options.seed, duration_s=duration_s, candidate=name, **extra)


def measure(folder: Path) -> list[tuple[float, str]]:
    """(seconds without a leader, who led then) for each verified fault of a run."""
    tables = {name: pq.read_table(folder / "tables" / f"{name}.parquet") for name in ("faults", "lifecycle")}
    samples = pq.read_table(
        folder / "tables" / "quorum_samples.parquet", columns=["node", "epoch", "ts_ns", "claims_leadership", "error"]
    ).to_pylist()
    found = []
    for fault in tables["faults"].to_pylist():
        if not fault["verified"]:
            print(f"not measured: {fault['detail']}", flush=True)
            continue
        kills = [
            row["ts_ns"]
            for row in tables["lifecycle"].to_pylist()
            if row["node"] == fault["leader"] and row["kind"] == "kill" and row["ts_ns"] <= fault["started_ns"]
        ]
        claims = [
            (row["ts_ns"], row["node"])
            for row in samples
            if row["claims_leadership"]
            and row["error"] is None
            and row["epoch"] > fault["leader_epoch"]
            and row["ts_ns"] > kills[-1]
        ]
        at_ns, node = min(claims, default=(fault["ended_ns"], "nobody"))
        who = "the node that was set back" if node == fault["targets"][0] else "the other one"
        if at_ns >= fault["ended_ns"]:
            at_ns, who = fault["ended_ns"], "nobody until the end"
        found.append(((at_ns - kills[-1]) / 1e9, who))
    return found


def cell(found: list[float]) -> str:
    """Median and range."""
    if not found:
        return "–"
    return f"{statistics.median(found):.1f} s ({min(found):.1f}–{max(found):.1f})"


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
