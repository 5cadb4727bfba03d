"""A faked wall clock: from what a node wrote back to when it wrote it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clusters.collect.outputs import whole_lines
from clusters.collect.wall_clock import TRUE_CLOCK, Changed, OutputClock, Setting, note_change, read_changes
from workloads.problem import Problem

S = 1_000_000_000
MS = 1_000_000
NOON = 1_800_000_000 * S


def changed(at_byte: int, real_ns: int, setting: Setting, incarnation: int = 1) -> Changed:
    return Changed(incarnation=incarnation, output_bytes=at_byte, at_ns=0, real_ns=real_ns, setting=setting)


def back(real_ns: int, by_s: int) -> Setting:
    return Setting(base_real_ns=real_ns, base_fake_ns=real_ns - by_s * S)


def test_a_clock_that_goes_back_stamps_two_moments_alike_and_the_place_in_the_file_tells_them_apart():
    clock = OutputClock([changed(0, NOON, TRUE_CLOCK), changed(100, NOON + 5 * S, back(NOON + 5 * S, 3))], 1)
    assert clock.real_ns(40, NOON + 4 * S) == NOON + 4 * S
    assert clock.real_ns(120, NOON + 4 * S) == NOON + 7 * S


def test_a_line_that_was_under_way_during_the_change_bears_the_old_clocks_time():
    forward = Setting(base_real_ns=NOON + 5 * S, base_fake_ns=NOON + 65 * S)
    clock = OutputClock([changed(0, NOON, TRUE_CLOCK), changed(100, NOON + 5 * S, forward)], 1)
    assert clock.real_ns(100, NOON + 5 * S - 3 * MS) == NOON + 5 * S - 3 * MS
    assert clock.real_ns(150, NOON + 66 * S) == NOON + 6 * S
    changes = [changed(0, NOON, TRUE_CLOCK), changed(100, NOON + 5 * S, back(NOON + 5 * S, 60))]
    clock = OutputClock([*changes, changed(500, NOON + 9 * S, TRUE_CLOCK)], 1)
    assert clock.real_ns(100, NOON + 5 * S - 3 * MS) == NOON + 5 * S - 3 * MS, (
        "a minute later the clock was right again"
    )


def test_each_process_has_its_own_output_and_begins_with_the_setting_in_force():
    changes = [changed(0, NOON, TRUE_CLOCK), changed(0, NOON + 9 * S, back(NOON + 5 * S, 3), incarnation=2)]
    assert OutputClock(changes, 1).real_ns(10, NOON + 6 * S) == NOON + 6 * S
    assert OutputClock(changes, 2).real_ns(10, NOON + 6 * S) == NOON + 9 * S
    assert OutputClock([], 1).real_ns(10, NOON) == NOON


@pytest.mark.parametrize(
    "setting",
    [
        back(NOON, 20),
        Setting(base_real_ns=NOON, base_fake_ns=NOON + 7 * S),
        Setting(base_real_ns=NOON, base_fake_ns=NOON, rate=1.5),
        Setting(base_real_ns=NOON, base_fake_ns=NOON - S, rate=0.25),
        Setting(base_real_ns=NOON, base_fake_ns=NOON, strobe_ns=2 * S, period_ns=200 * MS),
        Setting(base_real_ns=NOON, base_fake_ns=NOON, strobe_ns=-5 * S, period_ns=70 * MS),
    ],
)
def test_a_setting_is_undone(setting: Setting):
    for passed_ms in (0, 30, 130, 199, 250, 1999, 60_000):
        real_ns = NOON + passed_ms * MS
        assert abs(setting.real_ns(setting.fake_ns(real_ns)) - real_ns) <= 4


def test_changes_are_kept_beside_the_node_in_their_order(tmp_path):
    changes = (changed(0, NOON, TRUE_CLOCK), changed(17, NOON + S, back(NOON + S, 3)))
    for change in changes:
        note_change(tmp_path, change)
    assert read_changes(tmp_path) == changes
    assert read_changes(tmp_path / "nobody") == ()
    (tmp_path / "clock.jsonl").write_bytes(b'{"incarnation": "x"}\n')
    with pytest.raises(Problem, match=r"clock\.jsonl cannot be read"):
        read_changes(tmp_path)


def test_lines_are_placed_by_their_bytes(tmp_path):
    path = tmp_path / "1.log"
    path.write_bytes("früh\nzwei\r\n\nkein Ende".encode())
    assert list(whole_lines(path)) == [(0, "früh"), (6, "zwei\r"), (12, "")]


def test_the_latest_time_that_it_may_have_shown_counts_both_phases_of_a_strobe():
    real_ns = 1_000_000
    strobe = Setting(base_real_ns=0, base_fake_ns=10, strobe_ns=500, period_ns=400_000)
    assert [strobe.latest_ns(real_ns), replace(strobe, strobe_ns=-500).latest_ns(real_ns)] == [
        real_ns + 510,
        real_ns + 10,
    ]
    assert TRUE_CLOCK.latest_ns(real_ns) == real_ns
    assert [TRUE_CLOCK.is_steady, strobe.is_steady, Setting(rate=1.5).is_steady] == [True, False, False]
