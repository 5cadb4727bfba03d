"""What faults of single messages do to real nodes, as the nodes' own traces tell it; and what they claim of a quorum."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nemesis import scenario
from nemesis.faults.registry import fault_of
from nemesis.faults.rpc import RpcFault, told
from nemesis.faults.schedule import NS, PlannedFault
from nemesis.life.begin import begin_run
from nemesis.life.controller import control
from nemesis.life.plan import SHORT_TIMERS, RunOptions, plan_run
from tests.runs import Quiet

VOTERS = ("n1", "n2", "n3")


@pytest.mark.namespaces
def test_no_vote_is_heard_and_a_late_word_to_truncate_is_not_obeyed(tmp_path: Path) -> None:
    file = tmp_path / "messages.toml"
    file.write_text(
        'title = "T"\ntext = "t"\nquorum = "unrestricted"\nrequest_timeout_ms = 20000\n'
        '[[faults]]\nfault = "stale-divergence"\nlag_ms = 900\n[[faults]]\nfault = "votes-unheard"\n'
    )
    planned = [
        PlannedFault(0, "stale-divergence", NS, NS // 10, False, 0.3, parameters=(("lag_ms", 900),)),
        PlannedFault(1, "votes-unheard", 2 * NS, 2 * NS, False, 0.3),
    ]
    asked = RunOptions(
        scenario=scenario.load(str(file)),
        argv=("run",),
        seed=1,
        store=tmp_path / "store",
        timers=SHORT_TIMERS,
        duration_s=9.0,
    )
    lived = begin_run(replace(plan_run(asked), schedule=tuple(planned)), Quiet())
    asyncio.run(control(lived))
    run = lived.folder

    def rows(table: str, **wanted: Any) -> list[dict[str, Any]]:
        found = pq.read_table(run / "tables" / f"{table}.parquet").to_pylist()
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    divergence, votes = sorted(rows("faults"), key=lambda row: row["fault_id"])
    assert divergence["verified"], divergence["detail"]
    (follower,) = divergence["targets"]
    done = [json.loads(line) for line in (run / "nodes" / follower / "relay.jsonl").read_text().splitlines()]
    (held,) = [event for event in done if event["action"] == "hold"]
    (release,) = [event for event in done if event["action"] == "release"]
    released_ns = held["ts_ns"] + release["waited_ms"] * 1e6
    ends = [
        row["end_offset"] for row in rows("node_events", node=follower, kind="append") if row["ts_ns"] < released_ns
    ]
    assert max(ends) > held["diverging_end"] + 5, "it had gone on far beyond where it was told to truncate"
    truncated = [row for row in rows("node_events", node=follower, kind="truncate") if row["ts_ns"] > released_ns]
    assert [row for row in truncated if row["offset"] <= held["diverging_end"]] == []

    assert votes["verified"], votes["detail"]
    elected = [row["ts_ns"] for row in rows("node_events", kind="state", state="leader")]
    assert not [ts_ns for ts_ns in elected if votes["started_ns"] < ts_ns < votes["ended_ns"]], "nobody took office"
    assert [ts_ns for ts_ns in elected if ts_ns > votes["ended_ns"]], "somebody did as soon as votes were heard"
    asked = [row for row in rows("node_events", kind="vote", granted=True) if row["ts_ns"] > votes["started_ns"]]
    assert [row for row in asked if row["ts_ns"] < votes["ended_ns"]], "votes were granted all the time"


@pytest.mark.parametrize(
    ("values", "silenced"),
    [
        ({"senders": ("n1",), "receivers": ("n2",)}, {"n2"}),
        ({"senders": ("n1",), "receivers": VOTERS}, {"n1"}),
        ({"senders": ("n2",), "receivers": ("n1",), "part": "request"}, {"n2"}),
        ({"senders": VOTERS, "receivers": VOTERS}, set(VOTERS)),
        ({"senders": ("n1",), "receivers": ("n2",), "percent": 50.0}, set()),
        ({"senders": ("n1",), "receivers": ("n2",), "api": "Vote"}, set()),
        ({"senders": ("n1",), "receivers": ("n2",), "action": "delay"}, set()),
    ],
)
def test_who_is_out_of_service_when_messages_are_lost(values: dict[str, Any], silenced: set[str]) -> None:
    senders, receivers = values.pop("senders"), values.pop("receivers")
    fault = RpcFault(**{"action": "drop", "api": "Fetch", "part": "response", "targets": "all", "to": "all", **values})
    assert fault._silenced(senders, receivers, VOTERS) == silenced


def test_a_fault_of_requests_needs_no_part() -> None:
    fault = fault_of(PlannedFault(0, "duplicate-rpc", 0, NS, False, 0.1, parameters=(("api", "Vote"),)))
    assert isinstance(fault, RpcFault)
    assert (fault.action, fault.part, fault.api) == ("duplicate", "request", "Vote")


def test_what_is_told_of_what_was_done() -> None:
    lost = {"action": "drop", "api": "Vote", "part": "response", "receiver": "n1"}
    events = [{**lost, "sender": "n2", "epoch": 4}, {**lost, "sender": "n3", "epoch": 6}, {**lost, "sender": "n3"}]
    assert told(events, "lost") == "3 Vote responses lost (n2>n1 1, n3>n1 2) of epochs 4 to 6"
    assert told([], "lost") == "no message was lost: none matched"
