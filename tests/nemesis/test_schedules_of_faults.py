"""Faults that are a whole schedule for all voters, on one backend: what they consist of is shown on each (``test_fault_effects.py``)."""

from __future__ import annotations

import json

import pytest

from nemesis.faults.schedule import NS, PlannedFault
from nemesis.life.plan import SHORT_TIMERS
from tests.nemesis.effects import Lived
from tests.runs import perform

pytestmark = pytest.mark.namespaces

PLANNED = (
    PlannedFault(0, "stale-divergence", NS, NS // 10, False, 0.3, parameters=(("lag_ms", 900),)),
    PlannedFault(1, "votes-unheard", 2 * NS, 2 * NS, False, 0.3),
    PlannedFault(2, "restart-next", 3 * NS, NS // 10, False, 0.3, turn=0),
    PlannedFault(3, "restart-next", 4 * NS, NS // 10, False, 0.3, turn=1),
    PlannedFault(4, "wipe-behind-laggards", 5 * NS, NS, False, 0.3, parameters=(("lag_ms", 600),)),
)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    folder = tmp_path_factory.mktemp("schedules")
    file = folder / "schedules.toml"
    head = 'title = "T"\ntext = "t"\nquorum = "unrestricted"\nrequest_timeout_ms = 20000\n'
    names = dict.fromkeys(planned.fault for planned in PLANNED)
    file.write_text(head + "".join(f'[[faults]]\nfault = "{name}"\n' for name in names))
    return Lived(perform(folder / "store", str(file), 1, schedule=PLANNED, timers=SHORT_TIMERS, duration_s=9.0))


@pytest.mark.shows("stale-divergence", made_of=("isolate", "pause", "drop-rpc", "delay-rpc"))
def test_a_late_word_to_truncate_is_not_obeyed(lived: Lived) -> None:
    (follower,) = lived.verified("stale-divergence")["targets"]
    done = [json.loads(line) for line in (lived.run / "nodes" / follower / "relay.jsonl").read_text().splitlines()]
    (held,) = [event for event in done if event["action"] == "hold"]
    (release,) = [event for event in done if event["action"] == "release"]
    released_ns = held["ts_ns"] + release["waited_ms"] * 1e6
    appended = lived.rows("node_events", node=follower, kind="append")
    ends = [row["end_offset"] for row in appended if held["ts_ns"] < row["ts_ns"] < released_ns]
    assert max(ends) > held["diverging_end"] + 5, "it had gone on far beyond where it was told to truncate"
    first_start_ns = min((at for at in lived.starts[follower] if at > released_ns), default=1 << 62)
    truncated = lived.rows("node_events", node=follower, kind="truncate")
    obeyed = [row for row in truncated if released_ns < row["ts_ns"] < first_start_ns]
    assert [row for row in obeyed if row["offset"] <= held["diverging_end"]] == []


@pytest.mark.shows("votes-unheard", made_of=("kill", "drop-rpc"))
def test_no_vote_is_heard_and_nobody_takes_office(lived: Lived) -> None:
    votes = lived.verified("votes-unheard")
    elected = [row["ts_ns"] for row in lived.rows("node_events", kind="state", state="leader")]
    assert not [ts_ns for ts_ns in elected if votes["started_ns"] < ts_ns < votes["ended_ns"]], "nobody took office"
    assert [ts_ns for ts_ns in elected if ts_ns > votes["ended_ns"]], "somebody did as soon as votes were heard"
    granted = [row["ts_ns"] for row in lived.rows("node_events", kind="vote", granted=True)]
    assert [ts_ns for ts_ns in granted if votes["started_ns"] < ts_ns < votes["ended_ns"]], (
        "votes were granted all the time"
    )


@pytest.mark.shows("restart-next", made_of=("restart",))
def test_nodes_are_stopped_one_after_the_other_whoever_leads(lived: Lived) -> None:
    first, second = sorted(lived.rows("faults", fault="restart-next"), key=lambda row: row["fault_id"])
    assert (first["verified"], second["verified"]) == (True, True), (first["detail"], second["detail"])
    assert (first["targets"], second["targets"]) == (["n1"], ["n2"])
    for row, node in ((first, "n1"), (second, "n2")):
        begun = [ts_ns for ts_ns in lived.starts[node] if row["started_ns"] < ts_ns]
        assert any(row["started_ns"] - NS * 10 < ts_ns < begun[0] for ts_ns in lived.life(node, "stop"))


@pytest.mark.shows("wipe-behind-laggards", made_of=("isolate", "kill", "wipe"))
def test_the_wiped_node_and_those_that_lagged_are_together_before_any_other_is_back(lived: Lived) -> None:
    row = lived.verified("wipe-behind-laggards")
    wiped, other = row["targets"]
    (laggard,) = {"n1", "n2", "n3"} - {wiped, other}
    ends = {
        node: max(
            state["log_end"]
            for state in lived.rows("quorum_states", node=node, incarnation=lived.incarnation(node, at))
        )
        for node, at in ((other, row["started_ns"]),)
    }
    number = lived.incarnation(wiped, row["started_ns"])
    assert lived.started(wiped, number)["log_end"] == 0
    assert len({lived.started(wiped, each)["directory_id"] for each in (number - 1, number)}) == 2
    back = min(ts_ns for ts_ns in lived.starts[other] if ts_ns > row["started_ns"])
    assert back > row["ended_ns"], "the other holder stayed down until the end"
    lagged = [each for each in lived.rows("node_events", node=laggard, kind="append") if each["ts_ns"] < back]
    assert max(each["end_offset"] for each in lagged) < ends[other], "it never had what the holders had"
