"""What `nemesis list faults` says of a backend comes from what the backend was seen to do."""

from __future__ import annotations

import json
from typing import cast

import pytest

from nemesis.cli.fault_table import ability, document
from nemesis.faults.capabilities import EVERYWHERE, OF_BACKEND, probe_backend, refuse_unable
from nemesis.faults.catalogue import CATALOGUE
from nemesis.faults.kinds.kind import Ability, Capability
from nemesis.scenario import load
from workloads.problem import Problem


@pytest.fixture
def ssh_without_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that cannot do everything, whatever it will learn."""
    monkeypatch.setitem(cast(dict[str, frozenset[Capability]], OF_BACKEND), "ssh", EVERYWHERE)


def test_a_fault_is_as_possible_as_the_least_thing_that_it_needs() -> None:
    can = dict.fromkeys(Capability, Ability(True))
    assert ability(CATALOGUE["wipe"], can) == Ability(True)
    assert ability(CATALOGUE["wipe"], {**can, Capability.DISKS: Ability(None, "far away")}).ok is None
    no = Ability(False, "no disk")
    assert ability(CATALOGUE["wipe"], {**can, Capability.PROCESSES: Ability(None), Capability.DISKS: no}) == no
    assert ability(CATALOGUE["isolate"], {**can, Capability.DISKS: no}) == Ability(True)


@pytest.mark.usefixtures("ssh_without_pressure")
def test_what_a_backend_cannot_do_is_refused_with_the_reason_and_the_way_out() -> None:
    with pytest.raises(Problem) as caught:
        refuse_unable(load("cpu-pressure-leader"), "ssh")
    assert caught.value.usage
    assert "cpu-pressure: taking CPU away from one node" in caught.value.what
    assert "local" in caught.value.remedy
    for backend in OF_BACKEND:
        refuse_unable(load("chaos-overlapping"), backend)


@pytest.mark.namespaces
def test_the_table_is_probed_on_this_machine() -> None:
    told = document({"local": probe_backend("local"), "ssh": dict.fromkeys(Capability, Ability(None))})
    faults = {each["name"]: each for each in json.loads(json.dumps(told))["faults"]}
    assert set(faults) == set(CATALOGUE)
    assert faults["isolate-leader"]["backends"]["local"] == {"ok": True, "reason": ""}
    assert faults["kill-leader"]["short_for"] == {"fault": "kill", "targets": "leader"}
    assert faults["isolate-leader"]["backends"]["ssh"]["ok"] is None
    assert {"name", "type", "default", "unit", "must_be", "text"} == faults["flapping"]["parameters"][0].keys()
