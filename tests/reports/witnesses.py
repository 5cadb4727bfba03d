"""One finding of each kind that a report draws, and a run convicted by all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checker.verdict import Anomaly, Kind, Verdict
from tests.reports.stored_runs import (
    DISKS,
    RUN_ID,
    event,
    faults,
    lifecycle,
    log_entries,
    log_entry,
    node_events,
    operations,
    quorum_samples,
    store,
    verdict,
)


def anomaly(
    check_name: str,
    subject: str,
    message: str,
    witness: Sequence[Mapping[str, Any]],
    kind: Kind = Kind.SAFETY,
    **columns: Any,
) -> Anomaly:
    return Anomaly(RUN_ID, check_name, kind, subject, message, tuple(witness), **columns)


def stale_read() -> Anomaly:
    """An operation that misses what had been acknowledged before it began."""
    write = {
        "table": "operations",
        "op_id": 1201,
        "process": 7,
        "client_node": "n2",
        "f": "write",
        "key": 3,
        "input": [1202],
        "output": [],
        "status": "ok",
        "error": None,
        "invoked_ns": 8_412_000_000,
        "completed_ns": 8_418_300_000,
        "phase": "load",
        "offset": 88,
    }
    read = {
        **write,
        "op_id": 1209,
        "process": 0,
        "client_node": "n1",
        "f": "read",
        "input": [],
        "output": [1150],
        "invoked_ns": 8_430_100_000,
        "completed_ns": 8_432_000_000,
        "offset": 80,
    }
    hanging = {
        **write,
        "op_id": 1190,
        "process": 3,
        "client_node": "n1",
        "f": "write",
        "input": [1191],
        "status": "info",
        "error": "REQUEST_TIMED_OUT",
        "invoked_ns": 8_101_000_000,
        "completed_ns": None,
        "offset": None,
    }
    return anomaly(
        "linearizable",
        "key 3",
        "Write 1202 of key 3 (n2, process 7) was acknowledged at 8.418 s; read 1209 began 11.8 ms later on n1 and returned 1150, "
        "the value that 1202 had replaced.",
        (write, read, hanging),
        operations=(1201, 1209),
        epoch=2,
    )


def forked_log() -> Anomaly:
    """Two disks that hold different committed records at one offset."""
    one = {"table": "log_entries", **log_entry("n1", 26, epoch=3)}
    other = {"table": "log_entries", **log_entry("n2", 26, epoch=3, foreign=True)}
    return anomaly(
        "log-matching",
        "offset 26",
        "At offset 26 of epoch 3 the disk of n1 holds 26 and the disk of n2 holds 1026: equal offset and epoch, different bytes.",
        (one, other),
        offset=26,
        epoch=3,
    )


def two_votes() -> Anomaly:
    """One voter, one epoch, two candidates."""
    votes = [
        {
            "table": "node_events",
            **event(
                "n3", seq, at, "vote", epoch=5, peer=peer, peer_directory_id=DISKS[peer], granted=True, pre_vote=False
            ),
        }
        for seq, at, peer in ((41, 13_912_000_000, "n1"), (44, 13_951_000_000, "n2"))
    ]
    return anomaly(
        "one-vote-per-epoch",
        "n3, epoch 5",
        "n3 voted for n1 and then, 39 ms later, for n2, both in epoch 5.",
        votes,
        epoch=5,
    )


def two_leaders() -> Anomaly:
    """Two identities that lead one epoch, by event, sample and disk."""
    return anomaly(
        "one-leader-per-epoch",
        "epoch 2",
        "n2 became leader of epoch 2 at 8.200 s, and n3 answered as leader of epoch 2 at 8.600 s.",
        (
            {
                "table": "node_events",
                **event(
                    "n2", 9, 8_200_000_000, "state", state="leader", epoch=2, leader="n2", previous_state="candidate"
                ),
            },
            {
                "table": "quorum_samples",
                "node": "n3",
                "ts_ns": 8_600_000_000,
                "claims_leadership": True,
                "leader": "n3",
                "epoch": 2,
                "high_watermark": 81,
            },
            {
                "table": "quorum_states",
                "node": "n3",
                "directory_id": DISKS["n3"],
                "epoch": 2,
                "voted_for": None,
                "leader": "n3",
                "ts_ns": None,
            },
        ),
        epoch=2,
    )


def lingering_leader() -> Anomaly:
    """A cut-off leader that goes on leading beyond the bound."""
    samples = [
        {
            "table": "quorum_samples",
            "node": "n1",
            "ts_ns": at,
            "claims_leadership": True,
            "leader": "n1",
            "epoch": 1,
            "high_watermark": 73,
            "error": None,
        }
        for at in (7_900_000_000, 9_300_000_000, 10_500_000_000)
    ]
    fault = {
        "table": "faults",
        "fault_id": 0,
        "fault": "partition-leader",
        "targets": ["n1"],
        "isolated": ["n1"],
        "started_ns": 7_400_000_000,
        "ended_ns": 10_600_000_000,
        "verified": True,
        "leader": "n1",
        "leader_epoch": 1,
    }
    return anomaly(
        "leader-resigns",
        "n1, epoch 1",
        "n1 was cut off from a majority at 7.400 s and still answered as leader of epoch 1 at 10.500 s, 3.100 s later; "
        "check-quorum promises 1.800 s.",
        (fault, *samples),
        kind=Kind.LIVENESS,
        epoch=1,
    )


def convicted(folder: Path) -> Path:
    """An invalid run with one witness of each kind."""
    found = {
        "one-leader-per-epoch": [two_leaders()],
        "one-vote-per-epoch": [two_votes()],
        "log-matching": [forked_log()],
        "linearizable": [stale_read()],
        "leader-resigns": [lingering_leader()],
    }
    sentence = (
        "Invalid: kafka 3.7.0 forked its log at offset 26 and let clients read stale values; 5 checks are violated."
    )
    return store(
        folder,
        run_verdict=verdict(Verdict.INVALID, sentence, found),
        tables={
            "operations": operations(),
            "faults": faults(),
            "quorum_samples": quorum_samples(),
            "node_events": node_events(),
            "log_entries": log_entries(diverge_at=26),
            "lifecycle": lifecycle(),
        },
    )
