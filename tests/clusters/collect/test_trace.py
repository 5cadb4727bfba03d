"""Traces that nodes write themselves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from clusters.collect.trace import collect_traces, read_trace
from clusters.evidence.schema import NODE_EVENTS
from workloads.problem import Problem

HEAD = b'{"trace_version":1,"node":"n1","directory_id":"d","incarnation":2}\n'
START = b'{"seq":0,"ts_ns":1500,"kind":"start","epoch":3,"voters":["n1","n2"]}\n'
VOTE = b'{"seq":1,"ts_ns":1600,"kind":"vote","granted":true,"pre_vote":false,"peer":"n2","offset":4}\n'


@dataclass(frozen=True)
class Node:
    name: str
    clock_ahead_ns: int


@dataclass(frozen=True)
class Run:
    run_id: str = "s/1"
    started_monotonic_ns: int = 1000
    nodes: tuple[Node, ...] = ()


def test_rows_have_the_columns_of_node_events(tmp_path):
    path = tmp_path / "2.jsonl"
    path.write_bytes(HEAD + START + VOTE)
    table = read_trace(path, Run())
    assert table.schema.equals(NODE_EVENTS)
    start, vote = table.to_pylist()
    assert (start["node"], start["directory_id"], start["incarnation"], start["ts_ns"]) == ("n1", "d", 2, 500)
    assert (start["kind"], start["epoch"], start["voters"]) == ("start", 3, ["n1", "n2"])
    assert (vote["seq"], vote["granted"], vote["pre_vote"], vote["peer"], vote["epoch"]) == (1, True, False, "n2", None)


def test_times_of_another_machine_are_set_back_by_how_far_its_clock_is_ahead(tmp_path):
    path = tmp_path / "2.jsonl"
    path.write_bytes(HEAD + START)
    run = Run(nodes=(Node("n2", 7), Node("n1", 1200)))
    assert read_trace(path, run).column("ts_ns").to_pylist() == [1500 - 1000 - 1200]


def test_a_torn_last_line_is_dropped_at_every_byte(tmp_path):
    path = tmp_path / "2.jsonl"
    for size in range(len(VOTE)):
        path.write_bytes(HEAD + START + VOTE[:size])
        assert read_trace(path, Run()).column("seq").to_pylist() == [0]


def test_a_trace_torn_in_its_first_line_is_empty(tmp_path):
    path = tmp_path / "2.jsonl"
    path.write_bytes(HEAD[:10])
    assert read_trace(path, Run()).num_rows == 0


@pytest.mark.parametrize(
    "content",
    [
        HEAD + b"garbage\n" + START,
        HEAD + VOTE,
        HEAD + START + START,
        HEAD + START.replace(b"epoch", b"term"),
        HEAD.replace(b'"trace_version":1', b'"trace_version":9') + START,
        START,
    ],
)
def test_anything_else_is_a_problem(tmp_path, content):
    path = tmp_path / "2.jsonl"
    path.write_bytes(content)
    with pytest.raises(Problem) as caught:
        read_trace(path, Run())
    assert caught.value.slug == "damaged-trace"


def test_incarnations_come_in_order(tmp_path):
    directory = tmp_path / "nodes" / "n1" / "trace"
    directory.mkdir(parents=True)
    for incarnation in (10, 9, 2):
        head = HEAD.replace(b'"incarnation":2', b'"incarnation":%d' % incarnation)
        (directory / f"{incarnation}.jsonl").write_bytes(head + START)
    assert collect_traces(tmp_path, Run(), "n1").column("incarnation").to_pylist() == [2, 9, 10]
    assert collect_traces(tmp_path, Run(), "n2").num_rows == 0
