"""The clock shim's control file (the layout of ``clock.c``), and the settings of all nodes of a run.

A node's setting holds for its next processes too: a machine whose clock is wrong has a wrong clock after a restart.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clusters.backends.shim.preload import control_file
from clusters.cluster import NodeSpec, Site
from clusters.collect.wall_clock import TRUE_CLOCK, Changed, Setting, note_change
from clusters.shared import Sharing

NAME = "clock"
VARIABLE = "NEMESIS_CLOCK"

_GENERATION = struct.Struct("<QQ")
_SETTING = struct.Struct("<qqdqqq")
_SEEN = struct.Struct("<QQQQqq")
_SEEN_AT = _GENERATION.size + 2 * _SETTING.size


@dataclass(frozen=True, slots=True)
class Answers:
    """What the shim tells of the clock that it gave to the node's process."""

    loaded: bool
    """a process has the library, and the file"""
    generation: int
    """of the setting by which the last answer was given"""
    count: int
    """how often the process has asked since it was started"""
    apart: int
    """how many of them were ahead by the strobe"""
    offset_ns: int
    """fake minus real time, of the last answer"""
    fake_ns: int
    """the last answer, nanoseconds since 1970"""


class ClockShim:
    """:class:`.preload.Shim` for the clocks of a run. Any thread may call."""

    def __init__(self, library: Path, now_ns: Callable[[], int], wall_ns: Callable[[str], int]) -> None:
        """``now_ns``: time of the run; ``wall_ns``: a node's own true wall clock, since 1970."""
        self._library = library
        self._now_ns = now_ns
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._settings: dict[str, tuple[int, Setting]] = {}

    @property
    def name(self) -> str:
        """``clock``."""
        return NAME

    @property
    def library(self) -> Path:
        """The compiled library."""
        return self._library

    def variables(self, node: NodeSpec, site: Site) -> Mapping[str, str]:
        """Where the control file is."""
        return {VARIABLE: site.inside(control_file(node, NAME))}

    def content(self, node: NodeSpec, incarnation: int) -> bytes:
        """The setting in force; nothing answered yet."""
        generation, setting = self.setting(node.name)
        self._note(node, incarnation, 0, setting)
        slots = [_packed(setting)] * 2
        return _GENERATION.pack(generation, 0) + b"".join(slots) + bytes(_SEEN.size)

    def setting(self, node: str) -> tuple[int, Setting]:
        """The node's setting and its generation."""
        with self._lock:
            return self._settings.get(node, (0, TRUE_CLOCK))

    def wall_ns(self, node: str) -> int:
        """The node's own true wall clock now."""
        return self._wall_ns(node)

    def change(self, cluster: Sharing, node: NodeSpec, incarnation: int, setting: Setting) -> int:
        """Let the node's clock go by ``setting`` from now on; returns its generation. Raises Problem ``shared-file``.

        ``incarnation``: of its process, for what that has printed so far; a node that is down starts with the setting.
        """
        with self._lock:
            printed = cluster.file_size(node.name, node.directory / "output" / f"{incarnation}.log")
            self._note(node, incarnation, printed, setting)
            generation = self._settings.get(node.name, (0, TRUE_CLOCK))[0] + 1
            self._settings[node.name] = (generation, setting)
            path = control_file(node, NAME)
            cluster.write_shared(node.name, path, _slot(generation), _packed(setting))
            cluster.write_shared(node.name, path, 0, generation.to_bytes(8, "little"))
        return generation

    def _note(self, node: NodeSpec, incarnation: int, output_bytes: int, setting: Setting) -> None:
        note_change(
            node.directory,
            Changed(
                incarnation=incarnation,
                output_bytes=output_bytes,
                at_ns=self._now_ns(),
                real_ns=self._wall_ns(node.name),
                setting=setting,
            ),
        )

    def answers(self, cluster: Sharing, node: NodeSpec) -> Answers:
        """What the node's process has been told so far. Raises Problem ``shared-file``."""
        data = cluster.read_shared(node.name, control_file(node, NAME))
        loaded, generation, count, apart, offset_ns, fake_ns = _SEEN.unpack_from(data, _SEEN_AT)
        return Answers(bool(loaded), generation, count, apart, offset_ns, fake_ns)


def _slot(generation: int) -> int:
    return _GENERATION.size + (generation & 1) * _SETTING.size


def _packed(setting: Setting) -> bytes:
    return _SETTING.pack(
        setting.base_real_ns, setting.base_fake_ns, setting.rate, setting.strobe_ns, setting.period_ns, 0
    )
