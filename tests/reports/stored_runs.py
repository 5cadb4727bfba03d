"""Stored runs made of whole cloth: what a controller and a checker would have left of twenty seconds of `partition-leader`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from checker.verdict import SCHEMA_VERSION, Anomaly, CheckResult, Kind, RunVerdict, Verdict
from clusters.evidence.schema import TABLES
from workloads.history.manifest import CandidateEntry, Manifest, NodeEntry, PhaseEntry, Timers, encode_manifest
from workloads.history.schema import FAULTS, OPERATIONS

S = 1_000_000_000
MS = 1_000_000
RUN_ID = "partition-leader/20261121T154000Z-7"
NODES = ("n1", "n2", "n3")
DISKS = {"n1": "Aq0s1xWJT1mX1a3yqYp0Zw", "n2": "Bq0s1xWJT1mX1a3yqYp0Zw", "n3": "Cq0s1xWJT1mX1a3yqYp0Zw"}
NEW_DISK = "Dq0s1xWJT1mX1a3yqYp0Zw"

REIGNS = (("n1", 1, 4.2, 9.3), ("n2", 2, 8.2, 15.0), ("n3", 3, 14.0, 20.8), ("n1", 4, 19.9, 26.0))
"""leader, epoch, from and to in seconds: each cut-off leader lingers until check-quorum"""
ISOLATIONS = (("n1", 1, 7.4, 10.6), ("n2", 2, 13.2, 16.4), ("n3", 3, 19.0, 22.2))


def manifest(**changes: Any) -> Manifest:
    return msgspec.structs.replace(
        Manifest(
            run_id=RUN_ID,
            scenario="partition-leader",
            scenario_title="The leader is cut off from the others, again and again",
            seed=7,
            argv=("bin/nemesis", "run", "partition-leader", "--candidate", "kafka", "--version", "3.7.0"),
            started_at="2026-11-21T15:40:00.000000Z",
            started_monotonic_ns=1_000 * S,
            tool_version="0.1.0",
            backend="local",
            candidate=CandidateEntry(
                name="kafka",
                version="3.7.0",
                quorum="static",
                promises=("check-quorum", "directory-identity"),
                evidence=("log_entries", "quorum_samples", "lifecycle"),
                generation="kip-595",
                provenance={f"kafka-lib-{i}.jar": f"{i:064x}" for i in range(12)},
            ),
            nodes=tuple(
                NodeEntry(
                    name=name,
                    node_id=i,
                    role="voter",
                    address=f"10.77.0.{i}",
                    port=9093,
                    host="local",
                    directory_id=DISKS[name],
                )
                for i, name in enumerate(NODES, start=1)
            ),
            timers=Timers(election_timeout_ms=400, fetch_timeout_ms=600, check_quorum_ms=900, request_timeout_ms=500),
            workload="register",
            workload_options={"keys": 8},
            rate=200.0,
            concurrency=10,
            duration_s=20.0,
            needs={"isolations": 3, "leader_changes": 3, "cut_off_operations": 1},
            phases=tuple(
                PhaseEntry(name=name, started_ns=int(a * S), ended_ns=int(b * S))
                for name, a, b in (
                    ("deploy", 0, 2.8),
                    ("start", 2.8, 4.4),
                    ("setup", 4.4, 4.7),
                    ("load", 4.7, 24.7),
                    ("heal", 24.7, 24.75),
                    ("recovery", 24.75, 25.5),
                    ("final", 25.5, 26.0),
                    ("stop", 26.0, 26.4),
                    ("collect", 26.4, 26.9),
                )
            ),
            finished=True,
            spark_started_ns=int(4.9 * S),
            spark_ready_ns=int(12.4 * S),
            stalls=((int(17.2 * S), int(17.35 * S)),),
            machine={"cpu": "2 × example CPU", "memory": "24 GiB", "kernel": "6.1", "api_token": "hunter2"},
        ),
        **changes,
    )


@cache
def operations(seed: int = 7, rate: float = 200.0) -> list[dict[str, Any]]:
    """Half of the processes pinned to a node, half following the leader; the cut-off side answers with timeouts and errors."""
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    at = 4.7
    process = 0
    while at < 24.7:
        at += random.expovariate(rate)
        process = (process + 1) % 10
        pinned = process < 6
        node = NODES[process % 3] if pinned else _leader(at)
        cut = next((n for n, _, a, b in ISOLATIONS if a <= at < b), None)
        f = random.choice(("read", "read", "write", "cas"))
        status, error, latency = "ok", None, random.lognormvariate(1.2, 0.45) / 1000
        if pinned and cut == node:
            since = at - next(a for n, _, a, _ in ISOLATIONS if n == node and a <= at)
            status, error, latency = (
                ("info", "REQUEST_TIMED_OUT", 0.5) if since < 1.9 else ("fail", "NOT_LEADER_OR_FOLLOWER", 0.002)
            )
        elif cut is not None and at - next(a for n, _, a, _ in ISOLATIONS if n == cut) < 0.9:
            status, error, latency = random.choice(
                (("info", "REQUEST_TIMED_OUT", 0.5), ("fail", "NOT_LEADER_OR_FOLLOWER", 0.004))
            )
        elif pinned and node != _leader(at) and random.random() < 0.15:
            status, error, latency = "fail", "NOT_LEADER_OR_FOLLOWER", 0.0015
        value = len(rows) + 1
        rows.append(
            {
                "run_id": RUN_ID,
                "op_id": len(rows),
                "process": process,
                "client_node": node,
                "pinned": pinned,
                "f": f,
                "key": value % 8,
                "input": [] if f == "read" else [value - 1, value] if f == "cas" else [value],
                "output": [value - 1] if f == "read" and status == "ok" else [],
                "status": status,
                "error": error,
                "invoked_ns": int(at * S),
                "completed_ns": None if status == "info" else int((at + latency) * S),
                "consistency": "linearizable",
                "phase": "load",
                "offset": value if status == "ok" else None,
                "epoch": 1,
            }
        )
    for i in range(16):
        at = 25.55 + i * 0.02
        rows.append(
            {
                **rows[0],
                "op_id": len(rows),
                "f": "read",
                "input": [],
                "output": [i],
                "status": "ok",
                "phase": "final",
                "pinned": False,
                "invoked_ns": int(at * S),
                "completed_ns": int((at + 0.003) * S),
                "error": None,
                "client_node": "n1",
            }
        )
    return rows


def _leader(at: float) -> str:
    return max((reign for reign in REIGNS if reign[2] <= at), key=lambda reign: reign[1], default=REIGNS[0])[0]


def faults() -> list[dict[str, Any]]:
    rows = []
    for i, (node, epoch, start, end) in enumerate(ISOLATIONS):
        others = [n for n in NODES if n != node]
        rows.append(
            {
                "run_id": RUN_ID,
                "fault_id": i,
                "fault": "partition-leader",
                "targets": [node],
                "isolated": [node],
                "replaced": False,
                "links": [f"{node}>{o}" for o in others] + [f"{o}>{node}" for o in others],
                "planned_ns": int((start - 0.01) * S),
                "started_ns": int(start * S),
                "ended_ns": int(end * S),
                "verified": True,
                "leader": node,
                "leader_epoch": epoch,
                "detail": "",
            }
        )
    return rows


def quorum_samples() -> list[dict[str, Any]]:
    rows = []
    for tick in range(45, 260, 2):
        at = tick / 10
        for node in NODES:
            own = [reign for reign in REIGNS if reign[0] == node and reign[2] <= at < reign[3]]
            leader, epoch = (
                (own[-1][0], own[-1][1]) if own else (_leader(at), max(e for _, e, a, _ in REIGNS if a <= at))
            )
            rows.append(
                {
                    "run_id": RUN_ID,
                    "ts_ns": int(at * S),
                    "node": node,
                    "asked_ns": int(at * S) - 2 * MS,
                    "error": None,
                    "claims_leadership": bool(own),
                    "leader": leader,
                    "epoch": epoch,
                    "high_watermark": tick,
                    "voters": list(NODES),
                    "observers": [],
                    "log_end_offsets": [tick, tick, tick],
                }
            )
    return rows


def node_events() -> list[dict[str, Any]]:
    """State transitions of every node: the elections of ``REIGNS``."""
    rows: list[dict[str, Any]] = []
    for node in NODES:
        told: list[tuple[float, str, int, str | None]] = [(3.4, "unattached", 0, None)]
        for leader, epoch, start, end in REIGNS:
            if leader == node:
                told += [
                    (start - 0.12, "candidate", epoch, None),
                    (start, "leader", epoch, node),
                    (end, "resigned", epoch, None),
                ]
            else:
                told += [(start - 0.05, "voted", epoch, None), (start + 0.03, "follower", epoch, leader)]
        told.sort(key=lambda event: event[0])
        cut = next(((a, b) for n, _, a, b in ISOLATIONS if n == node), (0.0, 0.0))
        reign = next(((a, b) for n, _, a, b in REIGNS if n == node), (0.0, 0.0))
        told = [event for event in told if not cut[0] < event[0] < cut[1] or event[0] == reign[1]]
        previous = None
        for seq, (at, state, epoch, leader_now) in enumerate(told):
            rows.append(
                event(
                    node,
                    seq,
                    int(at * S),
                    "state",
                    state=state,
                    epoch=epoch,
                    leader=leader_now,
                    previous_state=previous,
                )
            )
            previous = state
    return [row for row in rows if row["ts_ns"] < 26 * S]


def event(node: str, seq: int, ts_ns: int, kind: str, **columns: Any) -> dict[str, Any]:
    return dict(
        run_id=RUN_ID, node=node, directory_id=DISKS[node], incarnation=0, seq=seq, ts_ns=ts_ns, kind=kind, **columns
    )


def log_entries(diverge_at: int | None = None) -> list[dict[str, Any]]:
    """Forty records on each disk; from ``diverge_at`` on, n2 holds other ones."""
    rows = []
    for node in NODES:
        for offset in range(40):
            foreign = diverge_at is not None and node == "n2" and offset >= diverge_at
            rows.append(log_entry(node, offset, epoch=1 + offset // 12, foreign=foreign))
    return rows


def log_entry(node: str, offset: int, *, epoch: int, foreign: bool = False) -> dict[str, Any]:
    starts = offset % 12 == 0
    return {
        "run_id": RUN_ID,
        "node": node,
        "directory_id": DISKS[node],
        "collection": 0,
        "final": True,
        "partition": "register-0",
        "offset": offset,
        "epoch": epoch,
        "kind": "leader_change" if starts else "data",
        "checksum": (offset * 2654435761 + foreign * 77777) % 2**32,
        "f": None if starts else "write",
        "key": None if starts else offset % 8,
        "value": None if starts else offset + 1000 * foreign,
        "leader": REIGNS[(epoch - 1) % 4][0] if starts else None,
        "voters": None,
        "below_high_watermark": offset < 38,
    }


def lifecycle() -> list[dict[str, Any]]:
    rows = []
    for node in NODES:
        for kind, at in (("format", 2.5), ("start", 3.0), ("stop", 26.1)):
            rows.append(life(node, kind, at))
    return rows


def life(node: str, kind: str, at_s: float, directory_id: str | None = None, incarnation: int = 0) -> dict[str, Any]:
    return {
        "run_id": RUN_ID,
        "node": node,
        "directory_id": directory_id or DISKS[node],
        "assigned": False,
        "incarnation": incarnation,
        "kind": kind,
        "ts_ns": int(at_s * S),
        "detail": None,
    }


def check(
    name: str, kind: Kind, requirement: str, title: str, verdict: Verdict | None = Verdict.VALID, **columns: Any
) -> CheckResult:
    return CheckResult(name, kind, requirement, title, verdict, **columns)


CHECKS = (
    check(
        "one-leader-per-epoch",
        Kind.SAFETY,
        "A-1, S853-3",
        "No two nodes lead in one epoch.",
        evidence_rows=412,
        exercised=4,
        situation="epochs with a leader",
    ),
    check(
        "one-vote-per-epoch",
        Kind.SAFETY,
        "R853-14",
        "A node votes for one candidate in an epoch.",
        evidence_rows=12,
        exercised=8,
        situation="votes",
    ),
    check(
        "vote-durable",
        Kind.SAFETY,
        "S853-1",
        "A vote survives a restart.",
        evidence_rows=9,
        exercised=0,
        situation="votes before a restart",
    ),
    check(
        "vote-up-to-date",
        Kind.SAFETY,
        "S853-4",
        "A vote goes to a log that is not behind.",
        None,
        reason="the candidate does not promise node-trace",
    ),
    check(
        "log-matching",
        Kind.SAFETY,
        "S853-6",
        "Equal offset and epoch mean equal bytes.",
        evidence_rows=120,
        exercised=40,
        situation="offsets on two disks",
    ),
    check(
        "committed-divergence",
        Kind.SAFETY,
        "S853-7",
        "Committed logs never differ.",
        evidence_rows=120,
        exercised=38,
        situation="committed offsets",
    ),
    check(
        "acknowledged-lost",
        Kind.SAFETY,
        "S853-8",
        "What was acknowledged is not lost.",
        evidence_rows=3812,
        exercised=1904,
        situation="acknowledged writes",
    ),
    check(
        "linearizable",
        Kind.SAFETY,
        "X650-1",
        "Clients see one register.",
        evidence_rows=3812,
        exercised=1908,
        situation="reads",
    ),
    check(
        "leader-resigns",
        Kind.LIVENESS,
        "S853-14, R650-2",
        "A leader cut off from a majority resigns in time.",
        evidence_rows=324,
        exercised=3,
        situation="isolated leaders",
        metrics={"slowest_resignation_ms": 1812.4},
    ),
    check(
        "recovery",
        Kind.LIVENESS,
        "R650-5",
        "The quorum serves again after healing.",
        evidence_rows=16,
        exercised=1,
        situation="healings",
        metrics={"recovery_ms": 312},
    ),
    check(
        "faults-happened",
        Kind.FRAMEWORK,
        "N-1",
        "Every planned fault took effect.",
        evidence_rows=3,
        exercised=3,
        situation="faults",
    ),
    check(
        "evidence-complete",
        Kind.FRAMEWORK,
        "N-2",
        "All promised evidence is there.",
        evidence_rows=5000,
        exercised=3,
        situation="tables",
    ),
)


def verdict(
    word: Verdict = Verdict.VALID,
    sentence: str = "Valid: kafka 3.7.0 kept every promise that could be judged, through 3 isolations of its leader.",
    anomalies: Mapping[str, Sequence[Anomaly]] | None = None,
    **changes: Any,
) -> RunVerdict:
    """A verdict over ``CHECKS``, the checks named in ``anomalies`` violated by them."""
    found = anomalies or {}
    checks = tuple(
        replace(one, verdict=Verdict.INVALID, anomalies=tuple(found[one.check]), anomaly_count=len(found[one.check]))
        if one.check in found
        else one
        for one in CHECKS
    )
    counts = {"ok": 3270, "fail": 310, "info": 248}
    base = RunVerdict(RUN_ID, word, sentence, checks, counts, 3, 3, checker={"pyspark": "4.3.0", "seconds": 6.2})
    return replace(base, **changes)


def store(
    folder: Path,
    run_manifest: Manifest | None = None,
    run_verdict: RunVerdict | None = None,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Path:
    """Write a run folder as the controller and the checker leave it; without ``tables`` those of a healthy run."""
    if tables is None:
        tables = {
            "operations": operations(),
            "faults": faults(),
            "quorum_samples": quorum_samples(),
            "node_events": node_events(),
            "log_entries": log_entries(),
            "lifecycle": lifecycle(),
        }
    (folder / "tables").mkdir(parents=True)
    (folder / "run.json").write_bytes(encode_manifest(run_manifest or manifest()))
    if run_verdict is not None:
        write_verdict(folder, run_verdict)
    schemas = {**TABLES, "operations": OPERATIONS, "faults": FAULTS}
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schemas[name]), folder / "tables" / f"{name}.parquet")
    return folder


def write_verdict(folder: Path, run_verdict: RunVerdict) -> None:
    plain = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(run_verdict)}
    (folder / "verdict.json").write_bytes(msgspec.json.format(msgspec.json.encode(plain), indent=2))
