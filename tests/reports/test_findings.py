"""Witnesses as the checks write them, with few columns, are made whole from the stored tables before they are drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from checker.verdict import Kind, Verdict
from clusters.evidence.schema import NODE_EVENTS
from reports.evidence import completed
from reports.findings import findings
from reports.load import read_run
from tests.reports import stored_runs
from tests.reports.stored_runs import DISKS, S, event
from tests.reports.witnesses import anomaly


def test_a_row_gets_the_columns_that_it_lacks() -> None:
    stored = [event("n1", 4, 7 * S, "vote", epoch=3, peer="n2"), event("n2", 4, 8 * S, "vote", epoch=3, peer="n3")]
    tables = {"node_events": pa.Table.from_pylist(stored, schema=NODE_EVENTS)}
    bare = {"table": "node_events", "node": "n1", "incarnation": 0, "seq": 4, "kind": "vote"}
    (row,) = completed([bare], tables)
    assert (row["table"], row["ts_ns"], row["peer"], row["directory_id"]) == ("node_events", 7 * S, "n2", DISKS["n1"])


def test_a_row_that_contradicts_the_store_stays_as_the_check_wrote_it() -> None:
    tables = {"node_events": pa.Table.from_pylist([event("n1", 4, 7 * S, "vote", epoch=3)], schema=NODE_EVENTS)}
    odd = {"table": "node_events", "node": "n1", "incarnation": 0, "seq": 4, "epoch": 9}
    unkeyed = {"table": "node_events", "node": "n1"}
    foreign = {"table": "somewhere", "node": "n1"}
    assert completed([odd, unkeyed, foreign], tables) == (odd, unkeyed, foreign)


def test_a_report_of_a_high_watermark_is_found_by_what_it_tells() -> None:
    stored = [
        event("n1", 4, 7 * S, "high_watermark", epoch=3, high_watermark=9, previous_high_watermark=8),
        event("n1", 5, 7 * S, "apply", epoch=3, high_watermark=9),
    ]
    tables = {"node_events": pa.Table.from_pylist(stored, schema=NODE_EVENTS)}
    (row,) = completed(
        [{"table": "node_events", "node": "n1", "ts_ns": 7 * S, "epoch": 3, "high_watermark": 9}], tables
    )
    assert (row["kind"], row["previous_high_watermark"]) == ("high_watermark", 8)


def test_a_finding_about_an_offset_shows_the_logs_there(tmp_path: Path) -> None:
    lost = {
        "table": "operations",
        "op_id": 1,
        "process": 1,
        "f": "write",
        "status": "ok",
        "invoked_ns": S,
        "completed_ns": 2 * S,
    }
    found = {"acknowledged-lost": [anomaly("acknowledged-lost", "operation 1", "It is lost.", [lost], offset=20)]}
    run = stored_runs.store(tmp_path / "run", run_verdict=stored_runs.verdict(Verdict.INVALID, "Invalid.", found))
    (finding,) = findings(read_run(run), (), [])
    assert [figure.title for figure in finding.figures] == ["What happened, in order", "The logs, side by side"]
    assert ">20<" in finding.figures[1].svg
    assert "named" not in finding.figures[1].svg


def test_a_witness_without_directory_ids_stands_in_the_strip_of_its_disk(tmp_path: Path) -> None:
    bare = [{"table": "log_entries", "node": node, "collection": 0, "offset": 26} for node in ("n1", "n2")]
    found = {"log-matching": [anomaly("log-matching", "offset 26", "They differ.", bare, offset=26)]}
    run = stored_runs.store(
        tmp_path / "run",
        run_verdict=stored_runs.verdict(Verdict.INVALID, "Invalid.", found),
        tables={"log_entries": stored_runs.log_entries(diverge_at=26)},
    )
    (finding,) = findings(read_run(run), (), [])
    svg = finding.figures[0].svg
    assert re.findall(r'class="lane-name">([^<]*)<', svg) == ["n1", "n2", "n3"]
    assert len(re.findall(r'class="cell differs-[AB] named"', svg)) == 2
    assert svg.count("high watermark ≥ 38<") == 3


def test_safety_stands_before_liveness_and_numbers_run_through(tmp_path: Path) -> None:
    found = {
        "recovery": [anomaly("recovery", "heal", "No leader.", (), Kind.LIVENESS)],
        "linearizable": [anomaly("linearizable", f"key {i}", "Stale.", ()) for i in range(2)],
    }
    run = stored_runs.store(tmp_path / "run", run_verdict=stored_runs.verdict(Verdict.INVALID, "Invalid.", found))
    made = findings(read_run(run), (), [])
    assert [(f.number, f.check, f.kind) for f in made] == [
        (1, "linearizable", "safety"),
        (2, "linearizable", "safety"),
        (3, "recovery", "liveness"),
    ]
