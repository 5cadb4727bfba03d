"""What two nodes said to each other, from the captures of both: messages in order, matched, each with its fate.

A message's fate is told by the receiver's kernel: *delivered* when it acknowledged all of the message, for then its packet filter let
it in and it was there for the process to read; *unacknowledged* when the receiver's capture saw it arrive and no acknowledgement (cut
at the receiver); *lost* when it was sent and never arrived; *torn* when the sender ended inside it; *unknown* where a capture that could
tell lost packets or was not there. An acknowledgement says nothing of the process: a paused or killed one reads nothing, and a relay that
stands in for it (faults of RPCs) may keep what it got.

A connection is known by its addresses, ports and first sequence number, so that a port that is used again is another connection. One
whose beginning was not captured is read from the first segment that looks like the beginning of a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clusters.collect.rpcs.messages import Content, known_request, read_request, read_response, request_head
from clusters.collect.rpcs.packets import ACK, FIN, RST, SYN, Segment
from clusters.collect.rpcs.stream import Frame, Stream


@dataclass(slots=True)
class Message:
    """One request or response. Times are of the clock of the node that ``…_by`` names."""

    connection: str
    src: str
    dst: str
    request: bool
    correlation_id: int | None
    size_bytes: int
    content: Content
    end: int
    missing: int
    unread: bytes | None = None
    """of a response whose request has not been seen yet: a capture that lost it is read before the one that has it"""
    sent_ns: int | None = None
    sent_by: str | None = None
    delivered_ns: int | None = None
    delivered_by: str | None = None
    fate: str = ""


@dataclass(slots=True)
class _Direction:
    src: str
    dst: str
    stream: Stream
    waiting: list[Message] = field(default_factory=list)
    """messages whose fate is open, in order"""


@dataclass(slots=True)
class _Connection:
    name: str
    first: int | None
    """the client's first sequence number, where it was seen"""
    requests: _Direction
    responses: _Direction
    asked: dict[int, list[Content]]
    """requests without an answer yet, by correlation id: more than one where a fault repeats them"""
    early: dict[int, Message] = field(default_factory=dict)
    """answers to what was not asked yet"""
    ended: set[str] = field(default_factory=set)
    """nodes whose captures saw the end"""
    over: bool = False
    """all of them had seen it when it was looked at last"""


class Conversations:
    """Everything that the nodes say to each other's listeners. ``captured`` are the nodes with a capture; ``names`` node by address."""

    def __init__(self, port: int, names: Mapping[bytes, str], captured: frozenset[str]) -> None:
        self._port = port
        self._names = names
        self._captured = captured
        self._current: dict[tuple[str, bytes, int, bytes], _Connection] = {}
        """by the capturing node and the ports and addresses of client and server"""
        self._known: dict[tuple[bytes, int, bytes], list[_Connection]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._done: list[Message] = []

    def see(self, node: str, segment: Segment) -> None:
        """One segment of the capture of ``node``; of one capture in the order in which the kernel saw them."""
        source, destination = self._names.get(segment.source), self._names.get(segment.destination)
        if source is None or destination is None or source == destination:
            return
        asks = segment.destination_port == self._port
        connection = self._connection(node, segment, source, destination, asks=asks)
        if connection is None:
            return
        forth, back = (
            (connection.requests, connection.responses) if asks else (connection.responses, connection.requests)
        )
        if segment.flags & SYN:
            forth.stream.begin(segment.seq)
            return
        size = len(segment.payload)
        if node == source:
            forth.stream.sent(segment.seq, size, segment.ts_ns)
        else:
            forth.stream.arrived(segment.seq, size, segment.ts_ns)
        if segment.flags & ACK and not segment.flags & RST:
            back.stream.acknowledged(segment.ack, segment.ts_ns, by_receiver=node == source)
        for frame in forth.stream.take(segment.seq, segment.payload):
            self._message(connection, forth, frame, request=asks)
        if segment.flags & (FIN | RST):
            connection.ended.add(node)

    def settled(self) -> Iterator[Message]:
        """Messages whose fate is known, each once. Asked now and then, it keeps what waits small."""
        for client_and_server, connections in list(self._known.items()):
            for connection in list(connections):
                self._settle(connection.requests)
                self._settle(connection.responses)
                ends = {connection.requests.src, connection.requests.dst} & self._captured
                if connection.over and not connection.requests.waiting and not connection.responses.waiting:
                    self._drop(client_and_server, connection)
                connection.over = ends <= connection.ended
        done, self._done = self._done, []
        yield from done

    def finish(self, lossy: frozenset[str] = frozenset()) -> Iterator[Message]:
        """The captures are over: all that was still open. ``lossy`` are nodes whose captures lost packets."""
        for connections in self._known.values():
            for connection in connections:
                self._close(connection, lossy)
        self._known.clear()
        self._current.clear()
        done, self._done = self._done, []
        yield from done

    # -------------------------------------------------------------------------------------------------------- connections

    def _connection(
        self, node: str, segment: Segment, source: str, destination: str, *, asks: bool
    ) -> _Connection | None:
        client = (segment.source, segment.source_port) if asks else (segment.destination, segment.destination_port)
        server = segment.destination if asks else segment.source
        key = (node, *client, server)
        here = self._current.get(key)
        known = self._known.setdefault((*client, server), [])
        if segment.flags & SYN and asks:
            if here is not None and here.first == segment.seq:
                return here  # sent again
            here = next((each for each in known if each.first == segment.seq), None)
            if here is None:
                here = self._open(source, destination, known, segment.seq)
            self._current[key] = here
            return here
        if here is not None:
            return here
        if segment.flags & SYN:
            first = (segment.ack - 1) % (1 << 32)
            here = next((each for each in known if each.first == first), None)
        elif known:
            here = known[-1]
        if here is None:
            if segment.flags & RST or not segment.payload:
                return None
            names = (source, destination) if asks else (destination, source)
            here = self._open(*names, known, None)
        self._current[key] = here
        return here

    def _open(self, client: str, server: str, known: list[_Connection], first: int | None) -> _Connection:
        number = self._numbers[client, server] = self._numbers.get((client, server), 0) + 1
        asked: dict[int, list[Content]] = {}

        def answers(head: bytes) -> bool:
            return len(head) >= 8 and int.from_bytes(head[4:8], "big", signed=True) in asked

        base = None if first is None else (first + 1) % (1 << 32)
        connection = _Connection(
            f"{client}-{server}#{number}",
            first,
            _Direction(client, server, Stream(known_request, base)),
            _Direction(server, client, Stream(answers, None)),
            asked,
        )
        known.append(connection)
        return connection

    def _drop(self, client_and_server: tuple[bytes, int, bytes], connection: _Connection) -> None:
        """Forget a connection that is over and of which everything is told."""
        connections = self._known[client_and_server]
        connections.remove(connection)
        if not connections:
            del self._known[client_and_server]
        for node in self._captured:
            if self._current.get((node, *client_and_server)) is connection:
                del self._current[node, *client_and_server]

    def _close(self, connection: _Connection, lossy: frozenset[str]) -> None:
        for direction, asks in ((connection.requests, True), (connection.responses, False)):
            for frame in direction.stream.close():
                self._message(connection, direction, frame, request=asks)
            self._settle(direction)
            for message in direction.waiting:
                _give_up(message, direction, self._captured, lossy)
                self._done.append(message)
            direction.waiting.clear()

    # ----------------------------------------------------------------------------------------------------------- messages

    def _message(self, connection: _Connection, direction: _Direction, frame: Frame, *, request: bool) -> None:
        payload, whole = frame.payload, not frame.missing
        head = request_head(payload) if request else None
        correlation: int | None = None
        asked: Content | None = None
        if head is not None:
            correlation = head[2]
        elif not request and len(payload) >= 4:
            correlation = int.from_bytes(payload[:4], "big", signed=True)
            asked = next(iter(connection.asked.get(correlation, ())), None)
        message = Message(
            connection=connection.name,
            src=direction.src,
            dst=direction.dst,
            request=request,
            correlation_id=correlation,
            size_bytes=len(payload) + frame.missing,
            content=read_request(payload, whole=whole) if request else read_response(payload, asked, whole=whole),
            end=frame.end,
            missing=frame.missing,
        )
        direction.waiting.append(message)
        if correlation is None or frame.missing:
            return
        if asked is not None:
            del connection.asked[correlation][0]
            if not connection.asked[correlation]:
                del connection.asked[correlation]
        elif not request:
            message.unread = payload
            connection.early[correlation] = message
        elif (answer := connection.early.pop(correlation, None)) is not None and answer.unread is not None:
            answer.content = read_response(answer.unread, message.content, whole=True)
            answer.unread = None
        else:
            connection.asked.setdefault(correlation, []).append(message.content)

    def _settle(self, direction: _Direction) -> None:
        """Move on those messages at the front whose sending and delivery are known as well as they can be."""
        stream, waiting = direction.stream, direction.waiting
        settled = 0
        for message in waiting:
            if not self._is_delivered(message, direction):
                break
            message.fate = "delivered"
            stream.forget(message.end)
            settled += 1
            self._done.append(message)
        del waiting[:settled]

    def _is_delivered(self, message: Message, direction: _Direction) -> bool:
        stream = direction.stream
        if message.missing or message.unread is not None:
            return False
        _note_sent(message, direction)
        if message.sent_ns is None and direction.src in self._captured:
            return False
        if direction.dst in self._captured:
            message.delivered_ns = stream.delivered_ns(message.end)
            message.delivered_by = direction.dst
            return message.delivered_ns is not None
        return stream.acknowledged_at_sender(message.end)


def _note_sent(message: Message, direction: _Direction) -> None:
    if message.sent_ns is None:
        message.sent_ns = direction.stream.sent_ns(message.end)
        message.sent_by = None if message.sent_ns is None else direction.src


def _give_up(message: Message, direction: _Direction, captured: frozenset[str], lossy: frozenset[str]) -> None:
    """Decide a message that was not delivered, or only seen at one end."""
    stream = direction.stream
    _note_sent(message, direction)
    delivered_ns = stream.delivered_ns(message.end)
    if message.missing:
        message.fate = "torn"
    elif delivered_ns is not None:
        message.fate, message.delivered_ns, message.delivered_by = "delivered", delivered_ns, direction.dst
    elif stream.acknowledged_at_sender(message.end):
        message.fate, message.delivered_by = "delivered", None
    elif direction.dst in captured and direction.dst not in lossy:
        message.fate = "lost" if stream.seen_ns(message.end) is None else "unacknowledged"
        message.delivered_by = None
    else:
        message.fate, message.delivered_by = "unknown", None
    if message.sent_ns is None:
        # Only the receiver saw it: it had left the sender by then.
        message.sent_ns = message.delivered_ns or stream.seen_ns(message.end)
        message.sent_by = None if message.sent_ns is None else direction.dst
