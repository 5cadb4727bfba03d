"""A node's faked wall clock: how it went, and back from what the node wrote to the true time.

``nodes/<node>/clock.jsonl`` tells each setting of the clock, in order: written by the controller at each change, before it, and at each
start of a process. What the process had printed by then (``output_bytes`` of ``output/<incarnation>.log``) was printed by the
setting before; so a line's place in the file, not its time stamp, says which setting it was stamped by. A clock that was set
back stamps two moments alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from workloads.problem import Problem

NAME = "clock.jsonl"
_SLACK_NS = 1_000_000_000


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """fake = base_fake + (real − base_real) × rate, and ``strobe_ns`` more in every other period since ``base_real_ns``."""

    base_real_ns: int = 0
    """of the node's own true wall clock, since 1970"""
    base_fake_ns: int = 0
    rate: float = 1.0
    strobe_ns: int = 0
    period_ns: int = 0

    def fake_ns(self, real_ns: int) -> int:
        """What the clock shows at a true time."""
        passed = real_ns - self.base_real_ns
        gone = passed if self.rate == 1 else round(passed * self.rate)
        return self.base_fake_ns + gone + (self.strobe_ns if self._apart(passed) else 0)

    @property
    def is_steady(self) -> bool:
        """Whether it goes as fast as time does, without jumps."""
        return self.rate == 1 and not self.strobe_ns

    def latest_ns(self, real_ns: int) -> int:
        """The latest that the clock may have shown by a true time, in either phase of a strobe."""
        return replace(self, strobe_ns=0).fake_ns(real_ns) + max(0, self.strobe_ns)

    def real_ns(self, fake_ns: int) -> int:
        """When the clock showed ``fake_ns``; of two moments (a strobe), the one whose phase agrees."""
        for strobe_ns in (0, self.strobe_ns) if self.strobe_ns else ():
            passed = self._passed(fake_ns - strobe_ns)
            if passed >= 0 and self._apart(passed) == (strobe_ns != 0):
                return self.base_real_ns + passed
        return self.base_real_ns + self._passed(fake_ns)

    def _passed(self, steady_ns: int) -> int:
        gone = steady_ns - self.base_fake_ns
        return gone if self.rate == 1 else round(gone / self.rate)

    def _apart(self, passed_ns: int) -> bool:
        return self.strobe_ns != 0 and self.period_ns > 0 <= passed_ns and passed_ns // self.period_ns % 2 == 1


TRUE_CLOCK = Setting()


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """From here on a node's clock goes by a setting."""

    incarnation: int
    output_bytes: int
    """of the incarnation's output before the change"""
    at_ns: int
    """nanoseconds since the start of the run"""
    real_ns: int
    """the node's true wall clock then"""
    setting: Setting


def note_change(folder: Path, change: Changed) -> None:
    """Append to the ``clock.jsonl`` of a node's folder."""
    with (folder / NAME).open("ab") as file:
        file.write(msgspec.json.encode(change) + b"\n")


def read_changes(folder: Path) -> tuple[Changed, ...]:
    """All changes of a node's clock; empty where nobody touched it. Raises Problem ``damaged-clock-record``."""
    try:
        lines = (folder / NAME).read_bytes().split(b"\n")[:-1]
        return tuple(msgspec.json.decode(line, type=Changed) for line in lines)
    except FileNotFoundError:
        return ()
    except msgspec.MsgspecError as error:
        raise Problem("damaged-clock-record", f"{folder / NAME} cannot be read: {error}.") from error


class OutputClock:
    """The true times of the lines of one incarnation's output, asked in the order of the file."""

    def __init__(self, changes: Sequence[Changed], incarnation: int) -> None:
        self._changes = [change for change in changes if change.incarnation == incarnation]

    def real_ns(self, at_byte: int, stamped_ns: int) -> int:
        """The node's true wall clock when it printed the line that begins at a byte and bears this time stamp.

        A line that was under way while the clock was changed comes after the change and bears the old clock's time.
        """
        known = [change for change in self._changes if change.output_bytes <= at_byte]
        if not known:
            return stamped_ns
        real_ns = known[-1].setting.real_ns(stamped_ns)
        later = self._changes[len(known) :]
        too_early = real_ns < known[-1].real_ns - _SLACK_NS
        too_late = bool(later) and real_ns > later[0].real_ns + _SLACK_NS
        if len(known) > 1 and (too_early or too_late):
            return known[-2].setting.real_ns(stamped_ns)
        return real_ns
