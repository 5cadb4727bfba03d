"""Where things lie in the store: ``<store>/<scenario>/<UTC time>-<seed>/``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from workloads.problem import Problem

DEFAULT_STORE = Path("runs")
MANIFEST = "run.json"
JOURNAL = "journal"
TABLES = "tables"
NODES = "nodes"
SCENARIO = "scenario.toml"
DESCRIPTION = "candidate.toml"
"""of a candidate that a file describes"""
CAPTURE = "capture/packets.pcap.gz"
"""below a node's folder: what it and the other nodes sent each other"""
RPCS = "rpcs.arrow"
"""the messages in the captures, until they are a table"""
VERDICT = "verdict.json"
REPORT = "report.html"


def new_run(store: Path, scenario: str, seed: int, now: datetime) -> Path:
    """Make the folder of a new run. Raises :class:`Problem` when the store cannot be written."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    run = store.absolute() / scenario / f"{stamp}-{seed}"
    for attempt in range(100):
        folder = run if attempt == 0 else run.with_name(f"{run.name}-{attempt}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise Problem(
                "store-unwritable",
                f"The store {store} cannot be written: {error.strerror}.",
                "Name another one with --store DIR.",
            ) from error
        return folder
    raise Problem("store-unwritable", f"{run} and 99 names beside it exist already.", "Name another --store DIR.")


def run_id(run: Path) -> str:
    """The identity of a run: its scenario and its folder's name."""
    return f"{run.parent.name}/{run.name}"


def find_runs(paths: list[Path]) -> list[Path]:
    """The runs among ``paths``: a run's folder, its ``run.json``, or a folder that holds runs at any depth.

    Raises :class:`Problem` (usage) for a path that is no run and holds none.
    """
    found: list[Path] = []
    for path in paths:
        folder = path.parent if path.name == MANIFEST else path
        if (folder / MANIFEST).is_file():
            runs = [folder]
        else:
            runs = sorted(p.parent for p in folder.glob("**/" + MANIFEST) if NODES not in p.relative_to(folder).parts)
        if not runs:
            what = "is no run and holds none" if folder.exists() else "does not exist"
            raise Problem("run-unknown", f"{path} {what}.", "Name a folder that has a run.json.", usage=True)
        found += [run.absolute() for run in runs if run.absolute() not in found]
    return found
