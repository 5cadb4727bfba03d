"""High watermarks that leaders told, against what the voters had fetched by then: one pass over the messages of one run.

A voter that fetches at an offset has the leader's log up to there, and a leader knows of it by that request alone. So whatever high
watermark a leader tells in an answer, a majority of the voters, itself among them, must have sent requests in its epoch at
that offset or beyond before the answer left; or it was told in an older epoch already.

All doubt is in the leader's favour: a request counts from its sending (``slack_ns`` earlier, where clocks differ), whether it arrived or
not, and the leader itself holds everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_NOTHING = -1


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A high watermark that too few held: the answer that told it, and how far each voter had fetched."""

    answer: Mapping[str, Any]
    fetched: Mapping[str, int]
    holders: int


@dataclass(frozen=True, slots=True)
class Judged:
    """``told``: high watermarks that were looked at; only the first telling of each in an epoch is."""

    told: int
    found: tuple[Unsupported, ...]


def judge(fetches: pa.Table, *, voters: frozenset[str], blind: frozenset[str], slack_ns: int) -> Judged:
    """Judge the Fetch messages of one run (rows of ``rpcs``). Leaders in ``blind`` are not judged: their captures have holes."""
    requests = pc.and_(pc.equal(fetches["kind"], "request"), pc.is_in(fetches["src"], pa.array(sorted(voters))))
    answers = pc.and_(pc.equal(fetches["kind"], "response"), pc.equal(fetches["leader"], fetches["src"]))
    asked = _numbers(pc.if_else(requests, fetches["offset"], None))
    told = _numbers(pc.if_else(answers, fetches["high_watermark"], None))
    epoch, ts_ns = _numbers(fetches["epoch"]), _numbers(fetches["ts_ns"])
    useful = (epoch != _NOTHING) & (ts_ns != _NOTHING) & ((asked != _NOTHING) | (told != _NOTHING))
    is_asked = asked != _NOTHING
    seen_late = np.asarray(pc.is_in(fetches["src"], pa.array(sorted(blind), pa.string())).to_numpy(), np.bool_)
    since_ns = np.where(is_asked, np.where(seen_late, np.iinfo(np.int64).min, ts_ns - slack_ns), ts_ns)
    order = np.lexsort((~is_asked, since_ns))
    order = order[useful[order]]
    source, destination = fetches["src"].to_pylist(), fetches["dst"].to_pylist()
    before = _highest_before(epoch[told != _NOTHING], told[told != _NOTHING])
    reached: dict[tuple[str, int], dict[str, int]] = {}
    highest: dict[tuple[str, int], int] = {}
    looked_at = 0
    found = []
    for at in order.tolist():
        key = (destination[at] if is_asked[at] else source[at], int(epoch[at]))
        fetched = reached.setdefault(key, {})
        if is_asked[at]:
            fetched[source[at]] = max(int(asked[at]), fetched.get(source[at], _NOTHING))
            continue
        mark = int(told[at])
        if key[0] in blind or mark <= highest.get(key, _NOTHING):
            continue
        highest[key] = mark
        looked_at += 1
        holders = sum(voter == key[0] or fetched.get(voter, _NOTHING) >= mark for voter in voters)
        if 2 * holders <= len(voters) and mark > before.get(key[1], _NOTHING):
            found.append(Unsupported(fetches.slice(at, 1).to_pylist()[0], dict(fetched), holders))
    return Judged(looked_at, tuple(found))


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A column of numbers that are not negative, where null is -1; a time of before the run's start is its start."""
    filled = pc.fill_null(
        pc.max_element_wise(column.cast(pa.int64()), pa.scalar(0, pa.int64()), skip_nulls=False), _NOTHING
    )
    return np.asarray(filled.to_numpy(), np.int64)


def _highest_before(epoch: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[int, int]:
    """Epoch → the highest high watermark that was told in an older one."""
    before: dict[int, int] = {}
    highest = _NOTHING
    for each in np.unique(epoch).tolist():
        before[each] = highest
        highest = max(highest, int(mark[epoch == each].max()))
    return before
