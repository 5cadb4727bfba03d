"""What records mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clusters.candidates.reference.core.records import DATA, LEADER_CHANGE, Batch, LeaderChange
from clusters.candidates.reference.core.state_machine import StateMachine
from clusters.wire.reference_records import Command

commands = st.lists(
    st.one_of(
        st.builds(Command, st.just("write"), st.integers(0, 5), st.integers(0, 2)),
        st.builds(Command, st.just("cas"), st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)),
        st.builds(Command, st.just("append"), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=20,
)


@given(commands)
def test_state_is_that_of_a_dictionary_and_a_list(plan: list[Command]) -> None:
    machine, registers, appended, refused = StateMachine(), {}, [], []
    for offset, command in enumerate(plan):
        if command.f == "append":
            appended.append((offset, command.value))
        elif command.f == "cas" and registers.get(command.key) != command.expected:
            refused.append(offset)
        else:
            registers[command.key] = command.value
    assert machine.apply(Batch(0, 1, DATA, tuple(plan))) == refused
    assert {key: machine.value(key) for key in range(3)} == {key: registers.get(key) for key in range(3)}
    assert machine.appended(0, 100) == (tuple(appended), len(plan))
    assert machine.applied_end == len(plan)


@given(commands, st.integers(1, 5))
def test_state_does_not_depend_on_how_records_were_batched(plan: list[Command], size: int) -> None:
    whole, parts = StateMachine(), StateMachine()
    whole.apply(Batch(0, 1, DATA, tuple(plan)))
    for first in range(0, len(plan), size):
        parts.apply(Batch(first, 1, DATA, tuple(plan[first : first + size])))
        parts.apply(Batch(first, 1, DATA, tuple(plan[first : first + size])))
    assert whole.digest == parts.digest
    assert 0 <= whole.digest < 1 << 63


def test_digest_tells_states_apart_and_does_not_tell_of_history() -> None:
    def after(*plan: Command) -> int:
        machine = StateMachine()
        machine.apply(Batch(0, 1, DATA, plan))
        return machine.digest

    one, two = Command("write", 1, 1), Command("write", 2, 2)
    assert after(one, two) == after(two, one)
    assert after(two, one) == after(Command("write", 9, 1), two, one)
    assert len({after(one), after(two), after(Command("write", 2, 1)), after(Command("append", 1))}) == 4


def test_a_log_read_that_is_cut_says_where_to_go_on() -> None:
    machine = StateMachine()
    machine.apply(Batch(0, 1, LEADER_CHANGE, (LeaderChange(1, ("n1/a",)),)))
    machine.apply(Batch(1, 1, DATA, tuple(Command("append", value) for value in range(5))))
    assert machine.appended(0, 2) == (((1, 0), (2, 1)), 3)
    assert machine.appended(3, 2) == (((3, 2), (4, 3)), 5)
    assert machine.appended(5, 2) == (((5, 4),), 6)
    assert machine.appended(6, 2) == ((), 6)
