"""Whether a check may judge: what was promised, what is there, and what a candidate's description says that there never is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from checker.checks.acknowledged import ACKNOWLEDGED_LOST
from checker.checks.elections import ONE_LEADER_PER_EPOCH
from checker.checks.linearizable import LINEARIZABLE
from checker.checks.registry import CHECKS
from checker.checks.transitions import LEGAL_TRANSITIONS
from checker.gate import Gate, gate
from checker.sentence import run_sentence
from checker.tables import StoredRun
from checker.verdict import CheckResult, Verdict
from tests.checker.tables import manifest


def stored(withheld: tuple[str, ...], evidence: tuple[str, ...] = (), **rows: int) -> StoredRun:
    described = manifest()
    candidate = msgspec.structs.replace(described.candidate, withheld=withheld, evidence=evidence)
    always = {"operations": 9, "faults": 0, "lifecycle": 3, "quorum_samples": 9}
    return StoredRun(Path(), msgspec.structs.replace(described, candidate=candidate), {**always, **rows})


def test_evidence_that_is_missing_makes_a_check_unknown_unless_the_description_says_that_there_is_none() -> None:
    assert gate(ACKNOWLEDGED_LOST, stored(())) == Gate(True, missing="there is no evidence: log_entries")
    withheld = gate(ACKNOWLEDGED_LOST, stored(("log_entries",)))
    assert not withheld.applies
    assert "offers no evidence of it: log_entries" in withheld.reason


def test_a_check_that_can_do_with_other_evidence_is_made() -> None:
    assert gate(ONE_LEADER_PER_EPOCH, stored(("log_entries", "node_events", "quorum_states"))) == Gate(True)
    promised = gate(ONE_LEADER_PER_EPOCH, stored(("log_entries",), evidence=("node_events",)))
    assert promised.missing == "promised evidence is missing: node_events"


def test_rows_that_are_there_count_all_the_same() -> None:
    assert gate(ACKNOWLEDGED_LOST, stored(("log_entries",), log_entries=5)) == Gate(True)


def test_transitions_are_not_judged_where_not_every_one_is_told() -> None:
    told = stored(("state-changes",), evidence=("node_events",), node_events=5)
    assert not gate(LEGAL_TRANSITIONS, told).applies
    assert gate(LEGAL_TRANSITIONS, stored((), node_events=5)).applies


def test_a_valid_verdict_names_what_was_not_checked_for_want_of_evidence() -> None:
    run = stored(("log_entries", "node_events", "quorum_states", "snapshots", "state_digests", "state-changes"))
    gates = {check.name: gate(check, run) for check in CHECKS}
    assert gates[LINEARIZABLE.name].applies
    results = [
        CheckResult(
            check=check.name,
            kind=check.kind,
            requirement="",
            title="",
            verdict=Verdict.VALID if gates[check.name].applies else None,
            reason=gates[check.name].reason,
        )
        for check in CHECKS
    ]
    said = run_sentence(run.manifest, Verdict.VALID, results, {"ok": 9})
    _, _, unmade = said.partition(" Not checked, since it leaves no evidence for it: ")
    assert {"acknowledged-lost", "log-matching", "leader-completeness", "legal-transitions"} <= set(
        unmade.rstrip(".").split(", ")
    )
    assert "linearizable" not in unmade
