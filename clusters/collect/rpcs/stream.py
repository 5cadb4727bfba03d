"""One direction of a TCP connection, put together from what the captures at its two ends saw.

Bytes are the same at both ends, so whoever saw a byte first gives it. Times are not: what the sender's kernel sent, what arrived, and
what the receiver's kernel acknowledged are kept apart. Retransmissions, other orders, duplicates and segments that were cut
differently change nothing. Where a piece is missing for good, the stream goes on behind it at the next thing that looks like a frame.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MAX_FRAME_BYTES = 100 * 1024 * 1024
HELD_BYTES_MAX = 4 << 20
HELD_PIECES_MAX = 1000
"""so much behind a missing piece, and it is taken for missing for good"""

_HALF, _WHOLE = 1 << 31, 1 << 32

Plausible = Callable[[bytes], bool]
"""whether bytes can be the beginning of a frame, length included"""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: its payload without the length, and where its last byte ends in the stream."""

    payload: bytes
    end: int
    missing: int = 0
    """bytes that were announced and never sent: the connection ended inside"""


class Stream:
    """``base`` is the sequence number of its first byte; None: the capture began later, and the first segment tells."""

    def __init__(self, plausible: Plausible, base: int | None) -> None:
        self.base = base
        self._plausible = plausible
        self._aligned = base is not None
        self._buffer = bytearray()
        self._position = 0
        """of the first byte of the buffer"""
        self._end = 0
        self._held: list[tuple[int, bytes]] = []
        self._held_bytes = 0
        # Each in the order in which its capture saw it.
        self._sent: deque[tuple[int, int]] = deque()
        self._arrived: deque[tuple[int, int, int]] = deque()
        self._acknowledged: deque[tuple[int, int]] = deque()
        self._acknowledged_elsewhere = 0
        self.skipped_bytes = 0
        """that belong to no message that could be read"""

    # ------------------------------------------------------------------------------------------------------ what was seen

    def begin(self, initial: int) -> None:
        """The SYN was seen, with the initial sequence number. A second one, and one that comes late, change nothing."""
        if self.base is None:
            self.base = (initial + 1) % _WHOLE
            self._aligned = True

    def sent(self, seq: int, size: int, ts_ns: int) -> None:
        """The sender's kernel sent a segment."""
        end = self._offset(seq) + size
        if size and (not self._sent or end > self._sent[-1][0]):
            self._sent.append((end, ts_ns))

    def arrived(self, seq: int, size: int, ts_ns: int) -> None:
        """A segment arrived at the receiver, in front of its packet filter."""
        begin = self._offset(seq)
        if size:
            self._arrived.append((begin, begin + size, ts_ns))

    def acknowledged(self, ack: int, ts_ns: int, *, by_receiver: bool) -> None:
        """An acknowledgement left the receiver, or came to the sender."""
        if self.base is None:
            return
        end = self._offset(ack)
        if not by_receiver:
            self._acknowledged_elsewhere = max(self._acknowledged_elsewhere, end)
        elif not self._acknowledged or end > self._acknowledged[-1][0]:
            self._acknowledged.append((end, ts_ns))

    def take(self, seq: int, payload: bytes) -> list[Frame]:
        """The bytes of a segment; returns the frames that are whole now."""
        if not payload:
            return []
        begin = self._offset(seq)
        if begin + len(payload) <= self._end:
            return []
        if begin > self._end:
            self._hold(begin, payload)
            if self._held_bytes <= HELD_BYTES_MAX and len(self._held) <= HELD_PIECES_MAX:
                return []
            return self._skip()
        self._extend(begin, payload)
        return self._frames()

    def close(self) -> list[Frame]:
        """Nothing more comes: frames behind pieces that are missing, and at last the torn one."""
        frames: list[Frame] = []
        while self._held:
            frames += self._skip()
        size = self._announced()
        if self._aligned and size is not None:
            torn = bytes(self._buffer[4:])
            frames.append(Frame(torn, self._end, missing=size - len(torn)))
        else:
            self.skipped_bytes += len(self._buffer)
        self._buffer.clear()
        self._position = self._end
        return frames

    # ----------------------------------------------------------------------------------------------- what became of a frame

    def sent_ns(self, end: int) -> int | None:
        """When the byte before ``end`` left the sender for the first time. Ask in the order of the stream."""
        while self._sent and self._sent[0][0] < end:
            self._sent.popleft()
        return self._sent[0][1] if self._sent else None

    def seen_ns(self, end: int) -> int | None:
        """When the byte before ``end`` arrived last, acknowledged or not."""
        times = [ts_ns for begin, until, ts_ns in self._arrived if begin < end <= until]
        return max(times) if times else None

    def delivered_ns(self, end: int) -> int | None:
        """When the byte before ``end`` arrived that the receiver acknowledged next. Ask in the order of the stream."""
        while self._acknowledged and self._acknowledged[0][0] < end:
            self._acknowledged.popleft()
        if not self._acknowledged:
            return None
        said_ns = self._acknowledged[0][1]
        self.forget(end - 1)
        latest_ns = None
        for begin, until, ts_ns in self._arrived:
            if ts_ns > said_ns:
                break
            if begin < end <= until:
                latest_ns = ts_ns
        return said_ns if latest_ns is None else latest_ns

    def acknowledged_at_sender(self, end: int) -> bool:
        """Whether the sender got an acknowledgement of the byte before ``end``."""
        return self._acknowledged_elsewhere >= end

    def forget(self, end: int) -> None:
        """Nobody asks about what lies before ``end`` any more."""
        arrived = self._arrived
        while arrived and arrived[0][1] <= end:
            arrived.popleft()

    # ------------------------------------------------------------------------------------------------------------- inside

    def _offset(self, seq: int) -> int:
        """Where a sequence number is in the stream: the nearest to its end, since numbers begin anew after 4 GiB."""
        if self.base is None:
            self.base = seq
        distance = (seq - self.base - self._end) % _WHOLE
        return self._end + (distance - _WHOLE if distance >= _HALF else distance)

    def _extend(self, begin: int, payload: bytes) -> None:
        self._buffer += payload[self._end - begin :]
        self._end = begin + len(payload)
        while self._held and self._held[0][0] <= self._end:
            start, piece = self._held.pop(0)
            self._held_bytes -= len(piece)
            if start + len(piece) > self._end:
                self._buffer += piece[self._end - start :]
                self._end = start + len(piece)

    def _hold(self, begin: int, payload: bytes) -> None:
        at = bisect_left(self._held, begin, key=lambda piece: piece[0])
        if at < len(self._held) and self._held[at][0] == begin:
            if len(self._held[at][1]) >= len(payload):
                return
            self._held_bytes -= len(self._held.pop(at)[1])
        insort(self._held, (begin, payload), key=lambda piece: piece[0])
        self._held_bytes += len(payload)

    def _skip(self) -> list[Frame]:
        """Give up the missing piece, and the frame that it belongs to."""
        self.skipped_bytes += len(self._buffer)
        self._buffer.clear()
        begin, payload = self._held.pop(0)
        self._held_bytes -= len(payload)
        self._position = self._end = begin
        self._aligned = False
        self._extend(begin, payload)
        return self._frames()

    def _announced(self) -> int | None:
        """The size of the frame at the beginning of the buffer; None where there are not four bytes."""
        return int.from_bytes(self._buffer[:4], "big", signed=True) if len(self._buffer) >= 4 else None

    def _frames(self) -> list[Frame]:
        frames = []
        buffer = self._buffer
        if not self._aligned:
            # Messages are written at once, so segments mostly begin with one.
            if not self._plausible(bytes(buffer[:16])):
                self.skipped_bytes += len(buffer)
                buffer.clear()
                self._position = self._end
                return []
            self._aligned = True
        at = 0
        while len(buffer) - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big", signed=True)
            if not 0 <= size <= MAX_FRAME_BYTES:
                self.skipped_bytes += len(buffer) - at
                self._aligned = False
                at = len(buffer)
                break
            end = at + 4 + size
            if end > len(buffer):
                break
            frames.append(Frame(bytes(buffer[at + 4 : end]), self._position + end))
            at = end
        del buffer[:at]
        self._position += at
        return frames
