"""Each fault is shown by what it did to real nodes, as their own traces, disks and answers tell it; not by what the fault says.

One run a backend (:mod:`tests.nemesis.effects`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from clusters.collect.wall_clock import read_changes
from nemesis.faults.schedule import NS
from nemesis.life.plan import SHORT_TIMERS
from tests.clusters.conformance.grounds import GROUNDS
from tests.nemesis.effects import OTHER_RELEASE, Lived, OtherReference, claimed, schedule, written
from tests.runs import perform

pytestmark = [pytest.mark.timeout(600)]

SERVED = (None, "NOT_LEADER_OR_FOLLOWER")
"""errors in a sample that a node answered"""
ERRORS = {
    "disk-full": ("ENOSPC", "No space left"),
    "disk-read-only": ("EROFS", "Read-only"),
    "disk-eio": ("EIO", "Input/output error"),
}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=mark) for name, (_, mark) in GROUNDS.items()])
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp(f"effects-{request.param}")
    path, lanes = folder / "effects.toml", claimed(request.param)
    path.write_text(written(lanes))
    make, _ = GROUNDS[request.param]
    with pytest.MonkeyPatch.context() as patch, make(folder / "ground") as ground, ground.inside():
        patch.setattr("nemesis.life.plan.other_release", lambda *_: OtherReference(folder))
        run = perform(
            folder / "store",
            str(path),
            1,
            schedule=schedule(path, lanes),
            cluster=ground.backend,
            place=ground.place,
            observers=2,
            timers=SHORT_TIMERS,
            duration_s=5.0,
            to_version=OTHER_RELEASE,
        )
        yield Lived(run)


def skip_unclaimed(lived: Lived, fault: str) -> None:
    if not lived.planned(fault):
        pytest.skip(f"{fault} cannot be had there")


@pytest.mark.shows("kill")
def test_all_nodes_end_at_once_and_start_in_the_drawn_order(lived: Lived) -> None:
    row = lived.verified("kill")
    assert set(row["targets"]) == {"n1", "n2", "n3", "n4", "n5"}
    kills = {node: lived.life(node, "kill")[0] for node in row["targets"]}
    starts = {node: lived.starts[node][1] for node in row["targets"]}
    assert max(kills.values()) < min(starts.values()), "one was back before the last had ended"
    order = sorted(starts, key=lambda node: starts[node])
    assert f"started in the order {', '.join(order)}" in row["detail"]
    assert lived.ok_between(row["started_ns"], min(starts.values())) == 0
    assert lived.ok_between(max(starts.values()), 1 << 62) > 0


@pytest.mark.shows("pause")
def test_a_paused_node_answers_nobody_and_the_others_do(lived: Lived) -> None:
    row = lived.verified("pause")
    answers = [
        each
        for each in lived.rows("quorum_samples")
        if each["error"] in SERVED and row["started_ns"] + NS // 2 < each["ts_ns"] < row["ended_ns"]
    ]
    assert {each["node"] for each in answers} >= {"n2", "n3"}
    assert "n1" not in {each["node"] for each in answers}
    later = [each for each in lived.rows("quorum_samples", node="n1") if each["ts_ns"] > row["ended_ns"]]
    assert any(each["error"] in SERVED for each in later)


@pytest.mark.shows("restart")
def test_a_stopped_node_ended_by_itself_and_is_back_on_its_disk(lived: Lived) -> None:
    row = lived.verified("restart")
    assert "it stopped" in row["detail"]
    start, _ = lived.after(row)
    assert start["log_end"] >= lived.log_end_before(row) > 0


@pytest.mark.shows("crash-loop")
def test_a_crash_loop_and_cpu_pressure_overlap(lived: Lived) -> None:
    crashes, pressure = lived.verified("crash-loop"), lived.verified("cpu-pressure")
    assert crashes["started_ns"] < pressure["ended_ns"]
    assert pressure["started_ns"] < crashes["ended_ns"]
    killed_ns = lived.verified("kill")["ended_ns"]
    kills = [kill for kill in lived.life("n4", "kill") if killed_ns < kill <= crashes["ended_ns"]]
    assert len(kills) >= 3
    last = lived.incarnation("n4", crashes["ended_ns"])
    for number in range(2, last + 1):
        states = lived.rows("quorum_states", node="n4", incarnation=number)
        assert states[0]["problem"] is None, "each incarnation read what the ones before had written"
    assert not [kill for kill in lived.life("n5", "kill") if pressure["started_ns"] <= kill <= pressure["ended_ns"]]


@pytest.mark.shows("flapping")
def test_flapping_and_memory_pressure_are_lifted(lived: Lived) -> None:
    for name, told in (("flapping", "cuts of"), ("memory-pressure", "MiB of address space")):
        row = lived.verified(name)
        assert told in row["detail"]
        assert "not healed" not in row["detail"]
        assert row["isolated"] == []
    assert lived.ok_between(max(row["ended_ns"] for row in lived.rows("faults")), 1 << 62) > 0


@pytest.mark.shows("flip-bits")
@pytest.mark.parametrize(("node", "file"), [("n4", "segment"), ("n5", "quorum-state")])
def test_bits_flip_and_the_node_refuses_to_serve_them(lived: Lived, node: str, file: str) -> None:
    row = lived.verified("flip-bits", node)
    assert f"file = {file}" in row["detail"]
    assert f"{node} ended by itself with status 1" in row["detail"]
    outputs = sorted((lived.run / "nodes" / node / "output").glob("*.log"), key=lambda path: int(path.stem))
    assert "damaged-disk" in outputs[-1].read_text()
    problems = {state["collection"] for state in lived.rows("quorum_states", node=node) if state["problem"]}
    assert problems, "the damaged copies are told"
    if file == "segment":
        assert not problems & {entry["collection"] for entry in lived.rows("log_entries", node=node)}


@pytest.mark.shows("truncate-file")
def test_a_log_that_was_cut_short_is_shorter_when_the_node_starts(lived: Lived) -> None:
    row = lived.verified("truncate-file")
    start, last = lived.after(row)
    before = lived.log_end_before(row)
    assert 0 < start["log_end"] < before
    assert last["log_end"] > before, "what was missing has been fetched again"


@pytest.mark.shows("restore-old-disk")
def test_an_old_disk_comes_back_under_the_old_identity(lived: Lived) -> None:
    row = lived.verified("restore-old-disk")
    start, _ = lived.after(row)
    newest = lived.incarnation("n2", row["ended_ns"])
    (old,) = {state["log_end"] for state in lived.rows("quorum_states", node="n2", incarnation=newest - 1)}
    (newer,) = {state["log_end"] for state in lived.rows("quorum_states", node="n2", incarnation=newest)}
    assert start["log_end"] == old < newer
    identities = {each["directory_id"] for each in lived.rows("node_events", node="n2", kind="start")}
    assert len(identities) == 1


@pytest.mark.shows("wipe")
def test_a_wiped_node_comes_back_empty_under_another_identity(lived: Lived) -> None:
    row = lived.verified("wipe")
    start, last = lived.after(row)
    assert start["log_end"] == 0
    assert last["log_end"] > 0
    assert len({each["directory_id"] for each in lived.rows("lifecycle", node="n3", kind="start")}) == 2


@pytest.mark.shows("degrade")
def test_packets_of_every_link_are_late_and_connections_are_reset_while_other_faults_go_on(lived: Lived) -> None:
    degraded, reset = lived.verified("degrade"), lived.verified("connection-reset")
    assert "20 links shaped" in degraded["detail"]
    assert re.search(r"[1-9][0-9]* late", degraded["detail"])
    assert re.search(r"[1-9][0-9]* connections reset", reset["detail"])
    for row in (degraded, reset):
        assert "not healed" not in row["detail"]
        assert (row["links"], row["isolated"]) == ([], [])


@pytest.mark.shows("isolate")
def test_nothing_passes_between_an_isolated_node_and_any_other(lived: Lived) -> None:
    row = lived.verified("isolate")
    assert not [each for each in lived.said(row) if "n3" in (each["src"], each["dst"])]
    assert lived.said(row, edge_ns=0, src="n1", dst="n2"), "the others speak with each other"


@pytest.mark.shows("drop-rpc")
def test_a_node_whose_answers_are_lost_appends_nothing_although_they_were_sent(lived: Lived) -> None:
    row = lived.verified("drop-rpc")
    assert lived.said(row, edge_ns=0, dst="n5", api="Fetch", kind="response")
    assert lived.appended("n5", row) == []


def apart(times: list[int]) -> list[int]:
    """The times between moments at which a node wrote: what it writes at once is one moment."""
    return [later - earlier for earlier, later in pairwise(times) if later - earlier > NS // 50]


@pytest.mark.shows("delay-rpc")
def test_a_node_whose_answers_are_late_appends_no_more_often_than_they_come(lived: Lived) -> None:
    row = lived.verified("delay-rpc")
    answers = (row["ended_ns"] - row["started_ns"]) // (NS // 5) + 1
    assert len(apart(lived.appended("n5", row))) <= 2 * answers, (
        "it may wait for one leader's answer, and for the next one's"
    )


@pytest.mark.shows("close-rpc")
def test_a_node_whose_answers_reset_its_connection_goes_from_one_to_the_next(lived: Lived) -> None:
    row = lived.verified("close-rpc")
    assert lived.appended("n5", row) == []
    answered = [each["connection"] for each in lived.said(row, dst="n5", api="Fetch", kind="response")]
    assert len(answered) <= 2 * len(set(answered)), "it has two requests on its way at most"


@pytest.mark.shows("duplicate-rpc")
def test_a_request_that_is_delivered_twice_is_on_the_wire_twice(lived: Lived) -> None:
    row = lived.verified("duplicate-rpc")
    requests = lived.said(row, edge_ns=0, src="n5", api="Fetch", kind="request")
    asked = Counter((each["connection"], each["correlation_id"]) for each in requests)
    assert 2 in asked.values()
    assert set(asked.values()) <= {1, 2}, "one may have been on its way when it began or ended"


@pytest.mark.shows("disk-slow")
def test_a_node_with_a_slow_disk_appends_slowly(lived: Lived) -> None:
    times = lived.appended("n5", lived.verified("disk-slow"))
    assert not [each for each in apart(times) if each < NS // 10], "each of its writes takes a tenth of a second"


@pytest.mark.shows("restart-under")
def test_a_node_that_is_started_under_the_other_release_runs_that_ones_program(lived: Lived) -> None:
    row = lived.verified("restart-under")
    number = lived.incarnation("n5", row["started_ns"])
    outputs = lived.run / "nodes" / "n5" / "output"
    told = [f"this is {OTHER_RELEASE}" in (outputs / f"{each}.log").read_text() for each in (number, number + 1)]
    assert told == [False, True]
    start, _ = lived.after(row)
    assert start["log_end"] >= lived.log_end_before(row) > 0


@pytest.mark.shows("swap-disk")
def test_a_node_runs_on_an_empty_disk_and_then_on_the_old_one_again(lived: Lived) -> None:
    row = lived.verified("swap-disk")
    number = lived.incarnation("n5", row["started_ns"])
    before, empty, back = (lived.started("n5", each) for each in (number - 1, number, number + 1))
    assert before["directory_id"] == back["directory_id"] != empty["directory_id"]
    assert empty["log_end"] == 0
    answers = [each for each in lived.rows("quorum_samples", node="n5") if each["error"] in SERVED]
    begin_ns = lived.starts["n5"][number - 1]
    assert any(begin_ns < each["ts_ns"] < row["ended_ns"] for each in answers), "it served on the empty one"
    (kept,) = {each["log_end"] for each in lived.rows("quorum_states", node="n5", incarnation=number - 1)}
    assert back["log_end"] == kept > 0


@pytest.mark.parametrize("fault", sorted(ERRORS))
def test_a_disk_that_fails_is_met_by_the_node_that_writes_to_it(lived: Lived, fault: str) -> None:
    """How a program meets it is shown in ``tests/clusters/conformance/test_disks.py``; one that does not write meets nothing."""
    skip_unclaimed(lived, fault)
    row, (name, words) = lived.verified(fault), ERRORS[fault]
    assert f"n4 met {name}" in row["detail"]
    assert "not healed" not in row["detail"]
    number = lived.incarnation("n4", row["started_ns"])
    assert (
        words in (lived.run / "nodes" / "n4" / "output" / f"{number}.log").read_text() or "n4 went on" in row["detail"]
    )


def test_a_node_that_lost_power_starts_on_what_it_had_synced(lived: Lived) -> None:
    skip_unclaimed(lived, "power-cut")
    row = lived.verified("power-cut")
    assert re.search("power cut on .*; n4: [0-9]+ bytes of the node were lost", row["detail"])
    start, _ = lived.after(row)
    assert start["log_end"] > 0


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("clock-jump", "n2 was told a time -3.000 s off"),
        ("clock-drift", "n3's clock went 1.5"),
        ("clock-strobe", r"\+2.000 s off"),
    ],
)
def test_clocks_go_wrong_and_are_right_again(lived: Lived, fault: str, told: str) -> None:
    """What a program reads of such clocks is shown in ``tests/clusters/conformance/test_preload.py``."""
    row = lived.verified(fault)
    assert re.search(told, row["detail"])
    assert "the clock is right again" in row["detail"]
    (node,) = row["targets"]
    assert read_changes(lived.run / "nodes" / node)[-1].setting.fake_ns(NS) == NS
