"""How each fault of the catalogue acts: from its name and parameters to a :class:`nemesis.faults.fault.Fault`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from clusters.backends.companions.shape import Shape
from nemesis.faults.acknowledgement import LateAcknowledgement
from nemesis.faults.amnesia import WipeBehindLaggards
from nemesis.faults.catalogue import CATALOGUE
from nemesis.faults.clock import ClockBackWithoutLeader, ClockDrift, ClockJump, ClockStrobe
from nemesis.faults.damage import DamageFile, RestoreOldDisk
from nemesis.faults.disk import Wipe
from nemesis.faults.divergence import StaleDivergence
from nemesis.faults.fault import Fault
from nemesis.faults.membership import ChangeVoters
from nemesis.faults.packets import ShapeLinks
from nemesis.faults.partition import Flapping, Partition
from nemesis.faults.pressure import CpuPressure, MemoryPressure
from nemesis.faults.process import TOGETHER, CrashLoop, Kill, Pause, Restart, Restarts
from nemesis.faults.releases import RestartUnder
from nemesis.faults.rpc import RpcFault, VotesUnheard
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.shapes import SHAPES
from nemesis.faults.slow_disk import SlowDisk
from nemesis.faults.storage import BreakDisk, CutPower, SwapDisk

_SHAPES: Mapping[str, Mapping[str, str]] = {
    "delay": {},
    "loss": {"percent": "loss_percent", "run": "loss_run"},
    "duplicate": {"percent": "duplicate_percent"},
    "reorder": {"percent": "reorder_percent", "by_ms": "reorder_ms"},
    "bandwidth": {},
    "connection-reset": {"every_ms": "reset_every_ms"},
    "degrade": {},
}
"""fault → parameters that the shape has under other names"""

Make = Callable[[Mapping[str, Any]], Fault]
"""from all parameters, already checked"""


def _restarts(values: Mapping[str, Any]) -> Restarts:
    return Restarts(values["order"], values["stagger_ms"])


def _rpc(action: str, values: Mapping[str, Any]) -> RpcFault:
    return RpcFault(action, **{"part": "request", **values})


def _shape(names: Mapping[str, str]) -> Make:
    """Packets are seen where they are sent: to reset connections, at one end of each."""

    def make(values: Mapping[str, Any]) -> ShapeLinks:
        direction = values.get("direction", "out")
        shape = {names.get(name, name): value for name, value in values.items() if name not in ("targets", "direction")}
        return ShapeLinks(values["targets"], direction, Shape(**shape))

    return make


MAKERS: dict[str, Make] = {
    **{name: lambda _: Partition() for name in SHAPES},
    "isolate": lambda v: Partition(v["targets"], v["direction"]),
    **{name: _shape(names) for name, names in _SHAPES.items()},
    "flapping": lambda v: Flapping(v["targets"], v["cut_ms"], v["open_ms"]),
    **{f"{action}-rpc": partial(_rpc, action) for action in ("drop", "close", "delay", "duplicate")},
    "stale-divergence": lambda v: StaleDivergence(v["lag_ms"]),
    "votes-unheard": lambda _: VotesUnheard(),
    "kill": lambda v: Kill(v["targets"], _restarts(v)),
    "pause": lambda v: Pause(v["targets"]),
    "restart": lambda v: Restart(v["targets"], _restarts(v)),
    "restart-next": lambda _: Restart(),
    "restart-under": lambda v: RestartUnder(v["targets"], v["release"], _restarts(v)),
    "upgrade-next": lambda v: RestartUnder(None, "other", TOGETHER, v["downgrade"]),
    "crash-loop": lambda v: CrashLoop(v["targets"], v["up_ms"], v["down_ms"]),
    "cpu-pressure": lambda v: CpuPressure(v["targets"], v["burners"]),
    "memory-pressure": lambda v: MemoryPressure(v["targets"], v["headroom_mib"]),
    "restore-old-disk": lambda v: RestoreOldDisk(v["targets"]),
    "truncate-file": lambda v: DamageFile(v["targets"], v["file"], truncate_bytes=v["bytes"]),
    "flip-bits": lambda v: DamageFile(v["targets"], v["file"], flip_bits=v["bits"]),
    "power-cut": lambda v: CutPower(v["targets"], v["torn"], _restarts(v)),
    "disk-full": lambda v: BreakDisk(v["targets"], "full"),
    "disk-read-only": lambda v: BreakDisk(v["targets"], "read-only"),
    "disk-eio": lambda v: BreakDisk(v["targets"], "failing"),
    "disk-slow": lambda v: SlowDisk(v["targets"], v["delay_ms"]),
    "swap-disk": lambda v: SwapDisk(v["targets"]),
    "wipe": lambda v: Wipe(v["targets"], _restarts(v), v["procedure"]),
    "wipe-behind-laggards": lambda v: WipeBehindLaggards(v["lag_ms"]),
    "clock-jump": lambda v: ClockJump(v["targets"], v["offset_ms"]),
    "clock-drift": lambda v: ClockDrift(v["targets"], v["rate"]),
    "clock-strobe": lambda v: ClockStrobe(v["targets"], v["offset_ms"], v["period_ms"]),
    "clock-back-without-leader": lambda v: ClockBackWithoutLeader(v["offset_ms"]),
    "add-voter": lambda v: ChangeVoters("add", v["targets"]),
    "remove-voter": lambda v: ChangeVoters("remove", v["targets"]),
    "late-acknowledgement": lambda _: LateAcknowledgement(),
    "concurrent-changes": lambda v: ChangeVoters("both", v["targets"]),
}


def fault_of(planned: PlannedFault) -> Fault:
    """The fault that a plan means."""
    kind = CATALOGUE[planned.fault]
    return MAKERS[kind.acts_as](kind.values(dict(planned.parameters)))
