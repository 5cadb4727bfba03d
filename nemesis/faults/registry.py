"""Every fault by its name: what scenarios may draw."""

from __future__ import annotations

from nemesis.faults.disk import Wipe
from nemesis.faults.fault import Fault
from nemesis.faults.partition import Partition
from nemesis.faults.process import Kill, Pause, Restart
from nemesis.faults.shapes import SHAPES

PARTITIONS = SHAPES
"""faults that change links only: they can replace each other without healing in between"""

FAULTS: dict[str, Fault] = {
    **{name: Partition() for name in sorted(SHAPES)},
    "kill-leader": Kill("leader"),
    "kill-follower": Kill("follower"),
    "pause-leader": Pause("leader"),
    "pause-follower": Pause("follower"),
    "restart-next": Restart(),
    "wipe-follower": Wipe("follower"),
    "wipe-leader": Wipe("leader"),
}
