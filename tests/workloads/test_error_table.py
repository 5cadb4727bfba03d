"""An error is a fail only where it says for certain that nothing happened; all else is info."""

from __future__ import annotations

import pytest

from clusters.wire.errors import error_name
from workloads.error_table import ERRORS, Trouble, completion, is_definite, trouble
from workloads.history.operation import Status


def test_names_are_kafkas_own():
    for row in ERRORS.values():
        assert row.name == error_name(row.code)


def test_an_unknown_code_is_info():
    assert completion(9999, mutating=True).status is Status.INFO
    assert completion(9999, mutating=True).error == "ERROR_9999"


@pytest.mark.parametrize("name", ["NOT_CONTROLLER", "REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR", "NETWORK_EXCEPTION"])
def test_what_may_still_be_committed_is_info(name):
    code = next(row.code for row in ERRORS.values() if row.name == name)
    assert not is_definite(code)
    assert completion(code, mutating=True).status is Status.INFO


@pytest.mark.parametrize("name", ["STALE_BROKER_EPOCH", "NOT_LEADER_OR_FOLLOWER", "INVALID_REQUEST"])
def test_what_is_refused_before_appending_is_a_fail(name):
    code = next(row.code for row in ERRORS.values() if row.name == name)
    assert completion(code, mutating=True).status is Status.FAIL


def test_ok_carries_the_answer_and_an_error_does_not():
    done = completion(0, mutating=True, output=(7,), offset=3, epoch=2, node="n1")
    assert (done.status, done.output, done.offset, done.epoch, done.node) == (Status.OK, (7,), 3, 2, "n1")
    assert completion(41, mutating=True, output=(7,), offset=3).output == ()


def test_a_read_without_an_answer_is_a_fail():
    for what in Trouble:
        assert trouble(what, mutating=False).status is Status.FAIL
    assert completion(41, mutating=False).status is Status.FAIL


def test_a_write_without_an_answer_is_info_once_it_may_have_arrived():
    assert trouble(Trouble.NOT_CONNECTED, mutating=True).status is Status.FAIL
    assert trouble(Trouble.NO_LEADER, mutating=True).status is Status.FAIL
    for what in (Trouble.CONNECTION_LOST, Trouble.TIMED_OUT, Trouble.GARBLED):
        assert trouble(what, mutating=True).status is Status.INFO
