"""A disk that forgets what was not synced when the power fails; a killed process loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusters.candidates.reference.core.config import Recovered
from clusters.candidates.reference.core.effects import Persist, QuorumState
from clusters.candidates.reference.core.records import Batch


@dataclass(slots=True)
class SimulatedDisk:
    """One formatted disk: what the operating system shows of it, and what of that is safe."""

    directory_id: str
    quorum_state: QuorumState | None = None
    batches: list[Batch] = field(default_factory=list)
    _safe_quorum_state: QuorumState | None = None
    _safe_batches: list[Batch] = field(default_factory=list)
    _first_unsafe: int = 0
    """index into ``batches`` below which both lists agree"""

    def persist(self, asked: Persist) -> None:
        """Carry out what a node asks for, in the order of the fields."""
        if asked.quorum_state is not None:
            self.quorum_state = asked.quorum_state
            if asked.sync_quorum_state:
                self._safe_quorum_state = asked.quorum_state
        if asked.truncate_to is not None:
            while self.batches and self.batches[-1].end_offset > asked.truncate_to:
                self.batches.pop()
            self._first_unsafe = min(self._first_unsafe, len(self.batches))
        self.batches.extend(asked.append)
        if asked.sync_log and (asked.append or asked.truncate_to is not None):
            del self._safe_batches[self._first_unsafe :]
            self._safe_batches.extend(self.batches[self._first_unsafe :])
            self._first_unsafe = len(self.batches)

    def lose_power(self) -> None:
        """Forget what was not synced."""
        self.quorum_state = self._safe_quorum_state
        self.batches = list(self._safe_batches)
        self._first_unsafe = len(self.batches)

    def recover(self) -> Recovered:
        """What a node finds when it starts."""
        return Recovered(self.quorum_state, tuple(self.batches))
