"""Faults of single messages: what they claim of a quorum, and what is told of them. What they do: ``test_fault_effects.py`` and
``test_schedules_of_faults.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from nemesis.faults.registry import fault_of
from nemesis.faults.rpc import RpcFault, told
from nemesis.faults.schedule import NS, PlannedFault

VOTERS = ("n1", "n2", "n3")


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
