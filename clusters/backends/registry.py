"""The backends by name. A new one is a module that has the functions of :class:`.backend.Backend`, and one case here."""

from __future__ import annotations

from clusters.backends.backend import Backend
from workloads.problem import Problem

BACKENDS = {
    "local": "processes in network namespaces of this machine, as root or as an ordinary user",
    "docker": "containers of this machine's docker engine, as root",
    "ssh": "machines that an inventory file lists (--inventory), one node a machine",
}
"""name → what it is; imports nothing, since most commands need no backend at all"""


def find_backend(name: str) -> Backend:
    """The backend of this name. Raises Problem (usage) for another one."""
    if name == "local":
        from clusters.backends.local import backend as local

        return local
    if name == "ssh":
        from clusters.backends.ssh import backend as ssh

        return ssh
    if name == "docker":
        from clusters.backends.docker import backend as docker

        return docker
    raise Problem("cluster-unknown", f"There is no cluster {name!r}.", f"There are {', '.join(BACKENDS)}.", usage=True)
