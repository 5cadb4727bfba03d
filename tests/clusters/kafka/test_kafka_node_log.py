"""Outputs of a node's processes as rows of node_events."""

from __future__ import annotations

import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from clusters.candidates.kafka.node_log import collect_outputs
from clusters.collect.outputs import began_wall_ns
from clusters.collect.wall_clock import TRUE_CLOCK, Changed, Setting, note_change
from tests.clusters.kafka.manifests import manifest
from workloads.history.manifest import NodeEntry
from workloads.problem import Problem

OUTPUTS = Path(__file__).parent / "outputs"


@pytest.fixture
def run(tmp_path):
    output = tmp_path / "nodes" / "n1" / "output"
    output.mkdir(parents=True)
    shutil.copy(OUTPUTS / "4.1.2.log", output / "1.log")
    return tmp_path


def rows(run, started_at="2026-11-21T15:38:00+00:00"):
    return collect_outputs(run, manifest(started_at=started_at), "n1", {1: "7GY9-yMb_gk8Xz218baD4A"}).to_pylist()


def test_a_process_begins_with_a_start_and_its_first_state(run):
    start, state = rows(run)[:2]
    assert (start["kind"], start["state"], start["epoch"]) == ("start", "unattached", 0)
    assert (state["kind"], state["state"], state["previous_state"]) == ("state", "unattached", None)
    assert start["directory_id"] == "7GY9-yMb_gk8Xz218baD4A"


def test_becoming_a_candidate_is_a_vote_for_itself(run):
    found = rows(run)
    at = next(i for i, row in enumerate(found) if row["kind"] == "state" and row["state"] == "candidate")
    vote = found[at + 1]
    assert (vote["kind"], vote["peer"], vote["granted"], vote["pre_vote"]) == ("vote", "n1", True, False)
    assert vote["epoch"] == found[at]["epoch"]


def test_a_leader_names_itself_and_a_follower_its_leader(run):
    leaders = {row["state"]: row["leader"] for row in rows(run) if row["kind"] == "state"}
    assert leaders["leader"] == "n1"
    assert leaders["follower"] == "n2"


def test_a_leader_that_comes_back_knows_that_it_led(run):
    path = run / "nodes" / "n1" / "output" / "1.log"
    resigned = next(text for text in path.read_text().splitlines() if "Completed transition to ResignedState" in text)
    path.write_text(resigned.partition(" from Leader(")[0] + " from null (org.apache.kafka.raft.QuorumState)\n")
    start, state = rows(run)
    assert (start["kind"], start["state"], start["leader"], start["voted_for"]) == ("start", "resigned", "n1", None)
    assert state["leader"] == "n1"


def test_a_candidate_that_comes_back_still_votes_for_itself(run):
    path = run / "nodes" / "n1" / "output" / "1.log"
    candidate = next(text for text in path.read_text().splitlines() if "Completed transition to CandidateState" in text)
    path.write_text(candidate.partition(" from Prospective")[0] + " from null (org.apache.kafka.raft.QuorumState)\n")
    start, _, vote = rows(run)
    assert (start["kind"], start["state"], start["leader"], start["voted_for"]) == ("start", "candidate", None, "n1")
    assert (vote["kind"], vote["peer"]) == ("vote", "n1")


def test_times_count_from_the_start_of_the_run_and_events_from_their_order(run):
    found = rows(run)
    assert found[0]["ts_ns"] == 20_347 * 1_000_000
    assert [row["seq"] for row in found] == list(range(len(found)))


def test_times_of_another_machine_are_set_back_by_how_far_its_wall_clock_is_ahead(run):
    ahead = NodeEntry(
        name="n1", node_id=1, role="voter", address="10.99.0.1", port=9093, host="far", wall_ahead_ns=2_000_000_000
    )
    there = manifest(started_at="2026-11-21T15:38:00+00:00", nodes=(ahead,))
    shifted = collect_outputs(run, there, "n1", {}).column("ts_ns").to_pylist()
    assert shifted == [row["ts_ns"] - 2_000_000_000 for row in rows(run)]


def test_what_a_kill_left_of_the_last_line_is_dropped(run):
    path = run / "nodes" / "n1" / "output" / "1.log"
    whole = len(rows(run))
    text = path.read_text()
    last = text.rstrip("\n").rsplit("\n", 1)[1]
    path.write_text(text + last[: len(last) // 2])
    assert len(rows(run)) == whole


def test_transitions_in_unknown_words_become_one_problem(run):
    path = run / "nodes" / "n1" / "output" / "1.log"
    strange = "[2026-11-21 15:40:07,826] INFO [RaftManager id=1] Completed transition to Wondering(epoch=3) from null (o.a.k.Q)\n"
    path.write_text(path.read_text() + strange * 3)
    problems = [row for row in rows(run) if row["kind"] == "problem"]
    assert len(problems) == 1
    assert problems[0]["detail"].startswith("3 lines about state transitions are not understood")


def test_a_foreign_file_among_the_outputs_is_a_problem(run):
    (run / "nodes" / "n1" / "output" / "notes.log").write_text("")
    with pytest.raises(Problem) as raised:
        rows(run)
    assert raised.value.slug == "damaged-output"


def test_a_manifest_without_a_time_zone_is_a_problem(run):
    with pytest.raises(Problem) as raised:
        rows(run, started_at="2026-11-21T15:38:00")
    assert raised.value.slug == "damaged-manifest"


def test_times_are_true_where_the_wall_clock_was_set_back(run):
    """From the middle of the file on the node's clock is 20 s behind; its lines are as the node would have written them."""
    path = run / "nodes" / "n1" / "output" / "1.log"
    plain = [(row["kind"], row["ts_ns"]) for row in rows(run)]
    lines = path.read_text().splitlines(keepends=True)
    middle = len(lines) // 2
    began_ns = began_wall_ns(manifest(started_at="2026-11-21T15:38:00+00:00"), "n1")
    jumped_ns = began_ns + next(row["ts_ns"] for row in rows(run) if row["ts_ns"] is not None)
    setting = Setting(base_real_ns=jumped_ns, base_fake_ns=jumped_ns - 20 * 1_000_000_000)
    for at, how in ((0, TRUE_CLOCK), (len("".join(lines[:middle]).encode()), setting)):
        change = Changed(incarnation=1, output_bytes=at, at_ns=0, real_ns=jumped_ns, setting=how)
        note_change(run / "nodes" / "n1", change)
    path.write_text("".join(line if n < middle else _earlier(line, 20) for n, line in enumerate(lines)))
    assert [(row["kind"], row["ts_ns"]) for row in rows(run)] == plain


def _earlier(line: str, seconds: int) -> str:
    stamp = re.match(r"\[([-\d]+ [\d:]+),", line)
    if stamp is None:
        return line
    at = datetime.fromisoformat(stamp[1]) - timedelta(seconds=seconds)
    return f"[{at:%Y-%m-%d %H:%M:%S},{line[stamp.end() :]}"
