"""A disk that forgets what was not synced when the power fails; a killed process loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class _Content:
    """A file: what the operating system shows of it, and what of that is safe."""

    data: bytearray = field(default_factory=bytearray)
    safe: bytearray = field(default_factory=bytearray)
    first_unsafe: int = 0
    """position below which both agree"""

    def sync(self) -> None:
        del self.safe[self.first_unsafe :]
        self.safe += self.data[self.first_unsafe :]
        self.first_unsafe = len(self.data)


@dataclass(slots=True)
class SimulatedFile:
    """An open file: :class:`..server.environment.File`."""

    _content: _Content

    def append(self, data: bytes) -> None:
        """Write at the end."""
        self._content.data += data

    def sync(self) -> None:
        """Make safe what was written."""
        self._content.sync()

    def truncate(self, size: int) -> None:
        """Cut to a size."""
        del self._content.data[size:]
        self._content.first_unsafe = min(self._content.first_unsafe, size)

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(slots=True)
class SimulatedDisk:
    """A node's data directory: :class:`..server.environment.Disk`."""

    _files: dict[str, _Content] = field(default_factory=dict)
    _safe_names: dict[str, bytes | _Content] = field(default_factory=dict)
    """what each name will lead to after a power cut: a file, or bytes that were replaced without syncing since"""

    def lose_power(self) -> None:
        """Forget what was not synced."""
        survivors: dict[str, _Content] = {}
        for path, kept in self._safe_names.items():
            data = bytearray(kept.safe if isinstance(kept, _Content) else kept)
            survivors[path] = _Content(data, bytearray(data), len(data))
        self._files = survivors
        self._safe_names = dict(survivors)

    def files(self) -> dict[str, bytes]:
        """Everything that the operating system shows."""
        return {path: bytes(content.data) for path, content in self._files.items()}

    def read(self, path: str) -> bytes | None:
        """The content of a file, None when there is none."""
        content = self._files.get(path)
        return None if content is None else bytes(content.data)

    def names(self, directory: str) -> list[str]:
        """Names of the files in a directory, sorted."""
        prefix = f"{directory}/"
        return sorted(path.removeprefix(prefix) for path in self._files if path.startswith(prefix))

    def make_directory(self, directory: str) -> None:
        """Directories need nothing here."""

    def open(self, path: str) -> SimulatedFile:
        """Open for appending; the name of a new file is safe at once."""
        if path not in self._files:
            self._files[path] = self._safe_names[path] = _Content()
        return SimulatedFile(self._files[path])

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Put a file in the place of another; unless synced, a power cut brings the other back, or none."""
        content = _Content(bytearray(data))
        before = self._safe_names.get(path)
        self._files[path] = content
        if sync:
            content.sync()
            self._safe_names[path] = content
        elif isinstance(before, _Content):
            self._safe_names[path] = bytes(before.safe)

    def remove(self, path: str) -> None:
        """Remove a file, durably."""
        del self._files[path]
        self._safe_names.pop(path, None)
