"""Copies of a node's evidence files, and the tables of a stored run made from them and from its journal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from clusters.backends.files import copy_matching
from clusters.backends.image_disks import FOLDER as IMAGES
from clusters.candidates.candidate import Candidate
from clusters.cluster import NodeSpec
from clusters.collect.collection import Collection, read_collections
from clusters.collect.rpcs.follow import Listener, read_captures, read_target
from clusters.collect.rpcs.rows import on_the_controllers_clock
from clusters.evidence.schema import TABLES as EVIDENCE
from nemesis.store.layout import CAPTURE, JOURNAL, NODES, RPCS, TABLES
from workloads.history.manifest import Manifest, NodeEntry
from workloads.journal_tables import JournalContents, read_journal


def write_collection(node: NodeSpec, collection: Collection, copy: Callable[[Path], None]) -> None:
    """Copy the node's evidence files into ``collections/<number>``; ``collection.json`` comes last and marks a whole copy."""
    target = node.directory / "collections" / str(collection.number)
    target.mkdir(parents=True, exist_ok=True)
    copy(target)
    (target / "collection.json").write_bytes(msgspec.json.encode(collection))


def specification(run: Path, node: NodeEntry) -> NodeSpec:
    """The node of a stored run."""
    return NodeSpec(node.name, node.node_id, node.role, node.address, node.port, run / NODES / node.name, node.host)


def collect_leftovers(run: Path, manifest: Manifest, candidate: Candidate, journal: JournalContents) -> None:
    """Take the final copies that a killed controller did not take; its nodes ended with it."""
    lives = {row["node"]: row for row in journal.tables["lifecycle"].to_pylist()}
    disks = _disks(journal)
    for node in manifest.nodes:
        taken = read_collections(run, node.name)
        spec = specification(run, node)
        disk = disks.get(node.name)
        if (spec.directory / IMAGES).exists():
            continue  # it was on a file system of its own, whose mount ended with the lab
        if any(collection.final for collection, _ in taken) or not spec.data.is_dir() or disk == "wipe":
            continue  # after a wipe that was not followed by a format nobody knows whose disk it would be
        last = lives.get(node.name)
        collection = Collection(
            node=node.name,
            directory_id=last["directory_id"] if last else node.directory_id,
            assigned=bool(last and last["assigned"]),
            incarnation=(last["incarnation"] if last else 0) + (disk == "format"),
            number=len(taken),
            ts_ns=last["ts_ns"] if last else 0,
            final=True,
            reason="end",
        )
        write_collection(spec, collection, partial(copy_matching, spec.data, candidate.keep()))


def _disks(journal: JournalContents) -> dict[str, str]:
    """What befell each node's disk last: ``format`` (no process has run on it since), ``start`` or ``wipe``."""
    return {
        row["node"]: row["kind"]
        for row in journal.tables["lifecycle"].to_pylist()
        if row["kind"] in ("format", "start", "wipe")
    }


def write_tables(run: Path, manifest: Manifest, candidate: Candidate, journal: JournalContents) -> None:
    """Write ``tables/*.parquet``: what the journal and the nodes' files hold. Raises Problem for foreign files."""
    tables: dict[str, list[pa.Table]] = {name: [] for name in EVIDENCE}
    for name, rows in candidate.evidence(manifest, run):
        tables[name].append(rows)
    for name in ("quorum_samples", "lifecycle"):
        tables[name].append(journal.tables[name])
    tables["rpcs"].append(_messages(run, manifest))
    whole = {name: pa.concat_tables(parts) if parts else EVIDENCE[name].empty_table() for name, parts in tables.items()}
    whole["operations"] = journal.tables["operations"]
    whole["faults"] = journal.tables["faults"]
    _write(run / TABLES, whole)
    (run / RPCS).unlink(missing_ok=True)


def _messages(run: Path, manifest: Manifest) -> pa.Table:
    """What the nodes sent each other: as it was read while the run went on, else from the captures."""
    ahead_ns = {node.name: node.clock_ahead_ns for node in manifest.nodes}
    try:
        raw = read_target(run / RPCS)
    except (OSError, pa.ArrowException):
        listeners = [
            Listener(node.name, node.address, str(run / NODES / node.name / CAPTURE)) for node in manifest.nodes
        ]
        # Nobody told of a capture that did not come to its end whether it lost packets.
        whole = {capture.node for capture in manifest.captures if capture.whole}
        raw = read_captures(manifest.nodes[0].port, listeners, set(ahead_ns) - whole)
    return on_the_controllers_clock(raw, manifest.run_id, manifest.started_monotonic_ns, ahead_ns)


def read_run_journal(run: Path) -> JournalContents:
    """The journal of a stored run."""
    return read_journal(run / JOURNAL)


def _write(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    """All tables or none: they are written beside and moved into place."""
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for name, table in tables.items():
        pq.write_table(table, fresh / f"{name}.parquet", compression="zstd")
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
