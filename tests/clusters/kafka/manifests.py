"""A manifest for tests that read what a run left behind."""

from __future__ import annotations

from workloads.history.manifest import CandidateEntry, Manifest, NodeEntry, Timers

TIMERS = Timers(election_timeout_ms=500, fetch_timeout_ms=1000, check_quorum_ms=1500, request_timeout_ms=1000)


def manifest(
    *, started_at: str, candidate: CandidateEntry | None = None, nodes: tuple[NodeEntry, ...] = ()
) -> Manifest:
    entry = candidate or CandidateEntry(
        name="kafka", version="4.1.2", quorum="static", promises=(), evidence=(), generation="kip-996"
    )
    return Manifest(
        run_id="none/20261121T153800-1",
        scenario="none",
        scenario_title="nothing is broken",
        seed=1,
        argv=(),
        started_at=started_at,
        started_monotonic_ns=0,
        tool_version="0",
        backend="loopback",
        candidate=entry,
        nodes=nodes,
        timers=TIMERS,
        workload="counter",
        rate=1.0,
        concurrency=1,
        duration_s=1.0,
    )
