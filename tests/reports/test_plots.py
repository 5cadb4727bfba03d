"""Drawings say what the data say: nothing is left out, and what must stand out does."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
import pytest

from reports.load import FAIL, INFO, NEVER, OK, OperationColumns
from reports.plots import latency, leaders, log_strips, timeline, votes, warped
from reports.plots.frame import Backdrop, Band, TimeAxis, name_rows, nice_step
from reports.plots.raster import density, png
from reports.plots.svg import element
from reports.roles import Roles, Span, overlaps
from tests.reports.stored_runs import DISKS, MS, S
from tests.reports.witnesses import forked_log, lingering_leader, stale_read, two_votes

AXIS = TimeAxis(0, 10 * S)
NODES = ("n1", "n2", "n3")


def some_operations(count: int, seed: int = 3) -> OperationColumns:
    random = np.random.default_rng(seed)
    status = random.choice(np.array([OK, INFO, FAIL], np.int16), count, p=[0.8, 0.1, 0.1])
    invoked_ns = np.sort(random.integers(1 * S, 9 * S, count))
    completed_ns = np.where(status == INFO, NEVER, invoked_ns + random.integers(1 * MS, 80 * MS, count))
    return OperationColumns(
        op_id=np.arange(count, dtype=np.int64),
        process=np.arange(count, dtype=np.int64) % 10,
        node=random.integers(0, 3, count).astype(np.int16),
        nodes=NODES,
        pinned=random.random(count) < 0.5,
        f=np.zeros(count, np.int16),
        functions=("write",),
        status=status,
        invoked_ns=invoked_ns,
        completed_ns=completed_ns,
        phase=np.zeros(count, np.int16),
        phases=("load",),
    )


def test_every_operation_stands_in_exactly_one_lane() -> None:
    operations = some_operations(3000)
    lanes = timeline.lanes(operations, NODES)
    assert [lane.label for lane in lanes] == ["n1", "n2", "n3", "the leader"]
    assert np.all(np.sum([lane.rows for lane in lanes], axis=0) == 1)


def test_up_to_the_limit_each_answered_operation_is_a_mark() -> None:
    operations = some_operations(latency.POINTS)
    svg = latency.draw_latency(AXIS, operations, Backdrop())
    marks = sum(path.count("M") for path in re.findall(r'class="dot-(?:ok|fail)" d="([^"]*)"', svg))
    assert marks == int((operations.completed_ns != NEVER).sum())
    assert "<image" not in svg


def test_beyond_the_limit_the_picture_grows_more_slowly_than_the_run() -> None:
    sizes = [len(latency.draw_latency(AXIS, some_operations(count), Backdrop())) for count in (100_000, 400_000)]
    assert sizes[1] < 2 * sizes[0] < 1_000_000
    assert '<image href="data:image/png;base64,' in latency.draw_latency(AXIS, some_operations(6_000), Backdrop())


def test_an_operation_that_a_finding_names_links_to_it() -> None:
    svg = latency.draw_latency(AXIS, some_operations(50), Backdrop(), {7: "anomaly-2"})
    assert svg.count('class="named"') == 1
    assert 'href="#anomaly-2"' in svg


def test_a_png_holds_the_pixels_it_was_given() -> None:
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    picture = png(pixels)
    assert struct.unpack(">II", picture[16:24]) == (3, 2)
    data = picture[picture.index(b"IDAT") + 4 : picture.index(b"IEND") - 8]
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(2, 1 + 3 * 4)
    assert np.array_equal(rows[:, 1:].reshape(2, 3, 4), pixels)
    assert not rows[:, 0].any()


def test_a_single_point_is_seen_in_a_raster_of_many() -> None:
    x = np.concatenate([np.full(100_000, 0.25), [0.75]])
    y = np.concatenate([np.full(100_000, 0.45), [0.85]])
    kind = np.concatenate([np.zeros(100_000, np.int16), np.ones(1, np.int16)]).astype(np.int16)
    pixels = density(x, y, kind, colours=((0, 0, 255), (255, 0, 0)), columns=4, rows=10)
    assert pixels[5, 1].tolist() == [0, 0, 255, 255]
    assert pixels[1, 3, :3].tolist() == [255, 0, 0]
    assert pixels[1, 3, 3] >= 100
    assert np.count_nonzero(pixels[..., 3]) == 2


@pytest.mark.parametrize(("epochs", "kinds"), [((5, 5), {"together forbidden"}), ((5, 6), {"together"})])
def test_two_leaders_at_once_are_outlined(epochs: tuple[int, int], kinds: set[str]) -> None:
    states = (Span("n1", "leader", epochs[0], 0, 6 * S), Span("n2", "leader", epochs[1], 4 * S, 9 * S))
    roles = Roles(states, (), (), ())
    svg = leaders.draw(AXIS, NODES, frozenset(), roles, together=overlaps(roles), backdrop=Backdrop())
    assert set(re.findall(r'class="(together[^"]*)"', svg)) == kinds


def test_the_chart_of_leaders_tells_epochs_absences_and_new_disks() -> None:
    roles = Roles(
        states=(Span("n1", "leader", 7, 1 * S, 6 * S),),
        claims=(Span("n1", "leader", 7, 1 * S, 5 * S),),
        absences=(Span("n2", "down", None, 2 * S, 5 * S), Span("n3", "paused", None, 2 * S, 5 * S)),
        wipes=(Span("n2", "wiped", None, 4 * S, 4 * S, DISKS["n2"]),),
    )
    svg = leaders.draw(AXIS, NODES, frozenset({"n3"}), roles, together=(), backdrop=Backdrop())
    for words in (
        "leader, epoch 7",
        "no leader 4.0 s",
        'class="role down"',
        'class="role paused"',
        "new disk",
        'class="claim"',
        "observer",
    ):
        assert words in svg


def test_a_fault_is_a_band_with_its_name_and_its_node_is_hatched() -> None:
    backdrop = Backdrop(
        bands=(Band(1, "partition-leader n2", 2 * S, 5 * S, frozenset({"n2"})),), phases=(("load", 1 * S, 9 * S),)
    )
    svg = timeline.draw(AXIS, some_operations(500), NODES, backdrop, (timeline.CutOff("n2", 2 * S, 5 * S, 31, 4),))
    assert ">1 partition-leader n2<" in svg
    assert ">n2 cut off: 31 asked, 4 answered ok<" in svg
    assert svg.count('class="cut-off"') == 1
    assert ">load<" in svg


def test_records_that_differ_get_letters_and_the_witness_is_outlined() -> None:
    one, other = forked_log().witness
    strips = [
        log_strips.Strip("n1", "", 0, {25: {**one, "offset": 25, "checksum": 1}, 26: one}, 26),
        log_strips.Strip("n2", "", 0, {25: {**other, "offset": 25, "checksum": 1}, 26: other}, None),
    ]
    svg = log_strips.draw(strips, (25, 26), (one, other), "logs")
    assert re.findall(r'class="cell((?: [^"]*)?)"', svg) == ["", " differs-A named", "", " differs-B named"]
    assert "first difference drawn: offset 26" in svg
    assert svg.count('class="high-watermark"') == 1


def test_a_missing_record_is_an_empty_cell() -> None:
    one, _ = forked_log().witness
    svg = log_strips.draw(
        [log_strips.Strip("n1", "", 0, {26: one}, None), log_strips.Strip("n2", "", 0, {}, None)], (26,), (one,), "logs"
    )
    assert svg.count('class="cell absent"') == 1
    assert "first difference" not in svg


def test_the_window_holds_every_offset_of_the_witness() -> None:
    assert log_strips.window([{"offset": 3}, {"offset": 900}])[0] >= 0
    assert {3, 900} <= set(log_strips.window([{"offset": 3}, {"offset": 900}]))
    assert log_strips.window([{"offset": 1}]) == (0, 1, 2, 3, 4, 5)


def test_warped_time_gives_each_event_equal_room_and_leaves_unanswered_ones_open() -> None:
    svg = warped.draw(stale_read().witness, (), "witness")
    columns = [float(x) for x in re.findall(r'class="grid" d="M([\d.]+) ', svg)]
    assert len(columns) == 5
    assert len(set(np.round(np.diff(columns)).tolist())) == 1
    shapes = dict(re.findall(r'class="op (\w+)" d="([^"]*)"', svg))
    assert "l9 9l-9 9" in shapes["info"]
    assert "l9 9l-9 9" not in shapes["ok"]
    assert "op 1209: read k3 → 1150" in svg


def test_a_fault_of_the_witness_is_a_band_and_no_lane() -> None:
    svg = warped.draw(
        lingering_leader().witness, (Band(1, "partition-leader n1", 7_400_000_000, 10_600_000_000),), "witness"
    )
    assert re.findall(r'class="lane-name">([^<]*)<', svg) == ["n1"]
    assert svg.count("answers as leader") >= 3
    assert ">1 partition-leader n1<" in svg


def test_two_votes_of_one_epoch_contradict_and_of_two_epochs_do_not() -> None:
    first, second = two_votes().witness
    assert votes.draw((first, second), "votes").count('class="vote contradicts"') == 2
    assert 'class="vote contradicts"' not in votes.draw((first, {**second, "epoch": 6}), "votes")


def test_attributes_and_texts_are_escaped() -> None:
    made = element("text", "<b>&", data_long='"><script>', class_=None)
    assert made == '<text data-long="&#34;&gt;&lt;script&gt;">&lt;b&gt;&amp;</text>'


@pytest.mark.parametrize(("rough", "step"), [(0.7, 1), (1, 1), (1.2, 2), (3, 5), (7, 10), (0.03, 0.05)])
def test_ticks_are_round(rough: float, step: float) -> None:
    assert nice_step(rough) == pytest.approx(step)


def test_the_names_of_faults_that_overlap_stand_below_each_other() -> None:
    bands = [
        Band(i, "f", start * S, end * S) for i, (start, end) in enumerate([(1, 4), (2, 6), (4, 5), (3, 7), (6, 8)])
    ]
    rows = name_rows(bands)
    assert rows == [0, 1, 0, 2, 0]
    for i, one in enumerate(bands):
        for j, other in enumerate(bands[:i]):
            apart = one.end_ns <= other.start_ns or other.end_ns <= one.start_ns
            assert apart or rows[i] != rows[j]
