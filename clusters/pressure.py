"""What a backend offers that can take CPU and memory away from one node, beside :class:`clusters.cluster.Cluster`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Pressing(Protocol):
    """CPU and memory of one node. Calls block for milliseconds; a node without processes is left alone."""

    def press_cpu(self, node: str, burners: int, limit_s: float) -> int:
        """Let all threads of the node share one CPU with ``burners`` processes that compute and do nothing else.

        The burners end by themselves after ``limit_s``. Returns how many threads were moved.
        """
        ...

    def release_cpu(self, node: str) -> None:
        """End the burners and give the node its CPUs back; may be called twice."""
        ...

    def limit_memory(self, node: str, headroom_bytes: int) -> int:
        """Bound the address space of each of the node's processes to what it has now and ``headroom_bytes``.

        Returns the bound of the largest one as the kernel shows it afterwards, in bytes; 0 for a node without processes.
        """
        ...

    def free_memory(self, node: str) -> None:
        """Lift the bound again; may be called twice."""
        ...
