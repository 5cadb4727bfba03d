"""Scripts show a defect's outcome with any seed, and nothing without it; the same seed gives the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.candidates.reference.core.defects import DEFECTS
from clusters.candidates.reference.script.play import Play, ScriptError, Stage
from clusters.candidates.reference.script.run import run_script
from clusters.candidates.reference.script.scripts import SCRIPTS, ScriptEntry, script
from clusters.evidence.schema import TABLES
from tests.clusters.reference.core import invariants
from workloads.history.manifest import decode_manifest
from workloads.history.operation import Invocation, Operation, Status
from workloads.history.schema import FAULTS, OPERATIONS
from workloads.problem import Problem

SEEDS = (1, 2)


def broken(entry: ScriptEntry, seed: int, defects: tuple[str, ...]) -> list[str]:
    """What the plainest judges say of the play so far, told by nodes' traces."""
    play = Play(entry.stage, seed, defects)
    entry.play(play)
    play.heal()
    play.run_ms(3000)
    events = play.engine.recorder.events()
    return [
        *invariants.election_safety(events),
        *invariants.one_vote(events),
        *invariants.epochs_monotone(events),
        *invariants.log_safety(events),
        *stale_reads([asked.row() for asked in play.asked]),
    ]


def stale_reads(operations: list[Operation]) -> list[str]:
    """Reads that answer less than what a write had been acknowledged with before they were asked; values only grow here."""
    found = []
    for read in (each for each in operations if each.f == "read" and each.status is Status.OK):
        written = [
            write.input[0]
            for write in operations
            if write.f == "write" and write.status is Status.OK and (write.completed_ns or 0) < read.invoked_ns
        ]
        if written and read.output < (max(written),):
            found.append(f"{read.client_node} answered {read.output} after {max(written)} was acknowledged")
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entry", SCRIPTS, ids=lambda entry: entry.name)
def test_a_script_is_safe_without_its_defect(entry: ScriptEntry, seed: int) -> None:
    assert broken(entry, seed, ()) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entry", SCRIPTS, ids=lambda entry: entry.name)
def test_a_script_shows_its_defect(entry: ScriptEntry, seed: int) -> None:
    assert broken(entry, seed, entry.defects) != []


@pytest.mark.parametrize("name", ["vote-forgotten-at-restart", "vote-lost-with-power", "second-vote-granted"])
def test_a_forgotten_vote_ends_with_two_leaders_of_one_epoch(name: str) -> None:
    entry = script(name)
    found = broken(entry, 1, entry.defects)
    assert any("is led by" in each for each in found)
    assert any("voted for" in each for each in found)


@pytest.mark.parametrize(
    "name", ["power-cut-after-acknowledgement", "wiped-voter-votes", "shorter-log-elected", "lagging-high-watermark"]
)
def test_an_acknowledged_write_is_lost(name: str) -> None:
    entry = script(name)
    for defects, value in (((), 2), (entry.defects, 1)):
        recorded = run_script(name, entry.play, seed=1, defects=defects, stage=entry.stage)
        acknowledged = [each for each in recorded.operations if each.f == "write" and each.status is Status.OK]
        reads = [each for each in recorded.operations if each.f == "read" and each.status is Status.OK]
        assert acknowledged[-1].input == (2,)
        assert {each.output for each in reads} == {(value,)}


def test_the_same_seed_gives_the_same_rows(tmp_path: Path) -> None:
    entry = script("figure-eight")
    one, again, other = (
        run_script("f", entry.play, seed=seed, stage=entry.stage, run=tmp_path / f"{number}")
        for number, seed in enumerate([3, 3, 4])
    )
    assert one == again
    assert one.tables["node_events"] != other.tables["node_events"]


def test_a_script_leaves_a_whole_stored_run(tmp_path: Path) -> None:
    entry = script("wiped-voter-votes")
    recorded = run_script(entry.name, entry.play, seed=1, defects=["M-9"], run=tmp_path)
    assert decode_manifest((tmp_path / "run.json").read_bytes()) == recorded.manifest
    assert recorded.manifest.candidate.defects == ("wiped-node-keeps-identity",)
    schemas = TABLES | {"operations": OPERATIONS, "faults": FAULTS}
    assert {name: table.schema for name, table in recorded.tables.items()} == {
        name: schemas[name] for name in recorded.tables
    }
    assert all(recorded.tables[name].num_rows for name in recorded.manifest.candidate.evidence)
    assert {path.stem for path in (tmp_path / "tables").glob("*.parquet")} == set(recorded.tables)
    events = recorded.tables["node_events"].to_pylist()
    own = [row for row in events if row["kind"] == "vote" and row["peer"] == row["node"]]
    assert own
    assert {row["kind"] for row in events} >= {
        "start", "state", "vote", "append", "truncate", "high_watermark", "fetch", "apply", "acknowledge", "read"
    }  # fmt: skip


def test_operations_of_a_log_and_of_a_register() -> None:
    play = Play(Stage(observers=1), 5)
    leader = play.run_until_led()
    asked = [
        Invocation("append", None, (7,)),
        Invocation("write", 3, (1,)),
        Invocation("cas", 3, (1, 2)),
        Invocation("cas", 3, (1, 9)),
        Invocation("read", 3),
    ]
    done = [play.run_until_done(play.invoke(leader, each)) for each in asked]
    assert [each.status for each in done] == [Status.OK, Status.OK, Status.OK, Status.FAIL, Status.OK]
    assert done[-1].value == 2
    polled = play.run_until_done(play.invoke("n4", Invocation("poll", None, (0,))))
    assert polled.completion is not None
    assert polled.completion.output == (done[0].completion.offset, 7)


def test_a_partition_keeps_frames_until_it_is_healed_and_a_kill_refuses_clients() -> None:
    play = Play(Stage(), 5)
    leader = play.run_until_led()
    play.split([leader])
    write = play.write(leader, 1, 1)
    play.run_ms(100)
    assert write.status is None
    play.heal()
    assert play.run_until_done(write).status is Status.OK
    play.kill(leader)
    assert play.write(leader, 1, 2).status is Status.FAIL


def test_a_paused_node_answers_when_it_is_resumed() -> None:
    play = Play(Stage(), 5)
    leader = play.run_until_led()
    follower = next(name for name in play.nodes if name != leader)
    play.pause(follower)
    read = play.read(follower, 1)
    play.run_ms(300)
    assert read.status is None
    play.resume(follower)
    assert play.run_until_done(read).status is Status.OK
    assert [fault.fault for fault in play.faults.rows] == ["pause"]
    assert play.faults.rows[0].ended_ns is not None


def test_a_script_that_waits_in_vain_says_for_what() -> None:
    play = Play(Stage(), 5)
    with pytest.raises(ScriptError, match="a leader n9"):
        play.run_until_led("n9", within_ms=500)
    with pytest.raises(ScriptError, match="n1-n2"):
        play.cut("n1-n2")
    with pytest.raises(Problem, match="figure-nine"):
        script("figure-nine")


def test_every_script_names_known_defects() -> None:
    assert {name for entry in SCRIPTS for name in entry.defects} <= {known.name for known in DEFECTS}
