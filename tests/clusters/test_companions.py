"""The controller's end of companions: whatever one of them does, whoever asked gets an answer or a Problem, in time."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from typing import Any

import pytest

from clusters.backends.companions import company
from clusters.backends.companions.company import ANSWER_BYTES_MAX, Companion, Company
from workloads.problem import Problem

PROGRAM = r"""
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    op = request.pop("op")
    if op == "hang":
        time.sleep(600)
    elif op == "die":
        sys.exit("it had enough")
    elif op == "refuse":
        print(json.dumps({"problem": ["too-much", "No.", "Ask for less."]}), flush=True)
    elif op == "babble":
        print("hm", flush=True)
    elif op == "shout":
        print(json.dumps({"value": "x" * request["size"]}), flush=True)
    else:
        print(json.dumps({"value": [op, request]}), flush=True)
if os.environ.get("STUBBORN"):
    time.sleep(600)
"""


@pytest.fixture
def companion(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(company, "_PROGRAM", PROGRAM)
    made = Companion("n1", "test", lambda: None)
    yield made
    made.dismiss().result(30)


def problem(answer: Future[Any]) -> Problem:
    with pytest.raises(Problem) as caught:
        answer.result(30)
    return caught.value


def test_answers_come_in_the_order_of_the_questions(companion: Companion) -> None:
    answers = [companion.ask("count", {"number": number}) for number in range(50)]
    assert [each.result(30) for each in answers] == [["count", {"number": number}] for number in range(50)]


def test_its_own_problem_is_passed_on_and_it_lives(companion: Companion) -> None:
    refusal = problem(companion.ask("refuse", {}))
    assert (refusal.slug, refusal.what, refusal.remedy) == ("too-much", "No.", "Ask for less.")
    assert companion.ask("again", {}).result(30) == ["again", {}]


def test_one_that_hangs_is_killed_when_its_time_is_over_and_all_who_asked_are_told(companion: Companion) -> None:
    hung, behind = companion.ask("hang", {}, 0.2), companion.ask("count", {}, 60.0)
    assert (problem(hung).slug, problem(behind).slug) == ("companion-silent", "companion-silent")
    assert problem(companion.ask("count", {})).slug == "companion-silent"
    with pytest.raises(ProcessLookupError):
        os.kill(companion.pid, 0)


def test_one_that_ends_is_told_with_what_it_said(companion: Companion) -> None:
    ended = problem(companion.ask("die", {}))
    assert ended.slug == "companion-ended"
    assert "it had enough" in ended.what


def test_one_that_takes_no_requests_holds_up_nobody(companion: Companion) -> None:
    companion.ask("hang", {}, 60.0)
    began = time.monotonic()
    answers = [companion.ask("count", {"much": "x" * 5000}, 60.0) for _ in range(200)]
    assert time.monotonic() - began < 20
    assert problem(answers[-1]).slug == "companion-silent"


def test_an_answer_that_no_message_holds_is_a_problem(companion: Companion) -> None:
    assert problem(companion.ask("shout", {"size": ANSWER_BYTES_MAX})).slug == "companion-answers-too-much"
    assert len(companion.ask("shout", {"size": ANSWER_BYTES_MAX - 100}).result(30)) == ANSWER_BYTES_MAX - 100


def test_what_is_no_answer_is_a_problem(companion: Companion) -> None:
    assert problem(companion.ask("babble", {})).slug == "companion-babbles"
    assert companion.ask("again", {}).result(30) == ["again", {}]


def test_one_that_does_not_end_when_dismissed_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "_PROGRAM", PROGRAM)
    monkeypatch.setattr(company, "_END_PATIENCE_S", 0.2)
    monkeypatch.setenv("STUBBORN", "1")
    companies = Company(lambda _: None)
    assert companies.accompany("n1", "test", {"a": 1}).result(30) == ["begin", {"a": 1}]
    (pid,) = companies.processes()
    companies.dismiss("n1", "test").result(30)
    assert companies.processes() == frozenset()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
