"""How a node is started with shims: the library by ``LD_PRELOAD``, the control file by a variable of the shim's own.

Only launches of runs whose scenario needs a shim are changed. The control file lies in ``<node>/shim/<name>``: beside the node's disk, so
that a wipe leaves it, and in a directory that the node may write, since the shim tells there what it did. It is written anew
before each start and, while the node runs, through the cluster (:class:`clusters.shared.Sharing`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from clusters.cluster import Launch, NodeSpec, Site
from workloads.problem import Problem

_PRELOAD = "LD_PRELOAD"


class Shim(Protocol):
    """One library, ready to be preloaded into the nodes of one run."""

    @property
    def name(self) -> str:
        """As its source is called."""
        ...

    @property
    def library(self) -> Path:
        """The compiled library on the controller: an artifact of the run (:meth:`clusters.cluster.Cluster.install`)."""
        ...

    def variables(self, node: NodeSpec, site: Site) -> Mapping[str, str]:
        """What the library reads from its environment, in the node's words."""
        ...

    def content(self, node: NodeSpec, incarnation: int) -> bytes:
        """The control file with which this process of the node starts."""
        ...


def control_file(node: NodeSpec, name: str) -> Path:
    """Where a shim's control file lies, on the controller."""
    return node.directory / "shim" / name


def with_shims(launch: Launch, shims: Sequence[Shim], node: NodeSpec, incarnation: int, site: Site) -> Launch:
    """The launch with all shims preloaded; writes their control files. Without shims it is returned as it is.

    Raises Problem ``preload-path``: the dynamic linker takes blanks and colons in the list for separators.
    """
    if not shims:
        return launch
    libraries = [site.inside(shim.library) for shim in shims]
    for library in libraries:
        if any(sign in library for sign in " :;\t"):
            raise Problem(
                "preload-path",
                f"{library} cannot be preloaded: its path has a blank or a colon in it.",
                "Set NEMESIS_CACHE to a directory without, and on machines the data directory of the inventory.",
                usage=True,
            )
    before = launch.env.get(_PRELOAD) or (os.environ.get(_PRELOAD) if site.own else None)
    env = {**launch.env, _PRELOAD: ":".join([*libraries, *filter(None, [before])])}
    files = []
    for shim in shims:
        env |= shim.variables(node, site)
        path = control_file(node, shim.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # the node may have put anything in its place, a link among them
        with path.open("xb") as file:
            file.write(shim.content(node, incarnation))
        files.append(path)
    return replace(launch, env=env, needs=(*launch.needs, *files), writes=(*launch.writes, *files))
