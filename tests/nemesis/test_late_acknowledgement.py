"""A voter's acknowledgement that comes when it has no vote any more, on the quorum that this was found in."""

from __future__ import annotations

import json

import pytest

from nemesis.faults.schedule import NS, PlannedFault
from tests.nemesis.effects import Lived
from tests.runs import perform

pytestmark = [pytest.mark.namespaces, pytest.mark.kafka]

PLANNED = (PlannedFault(0, "late-acknowledgement", NS, NS // 2, False, 0.3),)


@pytest.mark.shows("late-acknowledgement", made_of=("drop-rpc", "delay-rpc"))
def test_the_leader_is_told_by_somebody_whom_it_does_not_count(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Apache Kafka 4.3.1 ends of it (IllegalArgumentException in its raft thread), which *no-crash* tells by the row of lifecycle."""
    store = tmp_path_factory.mktemp("acknowledgement")
    lived = Lived(
        perform(store, "late-acknowledgement", 3, schedule=PLANNED, candidate="kafka", version="4.3.1", duration_s=2.0)
    )
    row = lived.verified("late-acknowledgement")
    (follower,), leader = row["targets"], row["leader"]
    done = [json.loads(line) for line in (lived.run / "nodes" / leader / "relay.jsonl").read_text().splitlines()]
    (held,) = [event for event in done if event["action"] == "hold"]
    (release,) = [event for event in done if event["action"] == "release"]
    assert (held["api"], held["sender"], held["receiver"]) == ("BeginQuorumEpoch", follower, leader)
    assert release["open"]
    released_ns = held["ts_ns"] + release["waited_ms"] * 1e6
    told = [each for each in lived.rows("quorum_samples", node=leader) if held["ts_ns"] < each["ts_ns"] < released_ns]
    voters = {voter.partition("/")[0] for voter in told[-1]["voters"]}
    assert voters == {"n1", "n2", "n3"} - {follower}, "the leader knew that it has no vote"
    (crash,) = lived.rows("lifecycle", node=leader, kind="crash")
    assert 0 < crash["ts_ns"] - released_ns < NS
    assert f"Unexpected acknowledgement from non-voter {follower[1:]}" in crash["detail"]
    assert lived.life(leader, "start")[-1] > crash["ts_ns"], "the fault's end starts it again"
