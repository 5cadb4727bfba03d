"""A network of byte streams that can be cut, held and released, one direction at a time.

Frames of one direction of one connection arrive in their order. A cut does not lose them: they wait, as TCP sends them again,
until the links are healed or the connection is given up. Messages are held back by kind; what follows them on the same
connection waits behind them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from clusters.candidates.reference.core.messages import PeerRequest, Request, Response
from clusters.candidates.reference.script.clock import VirtualTime
from clusters.candidates.reference.server.environment import Handler
from clusters.candidates.reference.server.peer_messages import Local, answer_class, read_answer
from clusters.candidates.reference.server.services import TABLE, service
from clusters.wire.framing import FrameSplitter, frame
from clusters.wire.messages import correlation_id, decode_response

OUTSIDE = "outside"
"""where clients are: no link to it is ever cut"""
CLUSTER_ID = "virtual-time-cluster-A"
_LOCAL = Local(CLUSTER_ID, 0, "", 0, 0)


@dataclass(slots=True, eq=False)
class Message:
    """One frame on its way, read when a script asks for it."""

    src: str
    dst: str
    payload: bytes
    due_ms: int
    asked: Message | None
    """the request, when this is an answer"""
    held_by: Hold | None = None

    @property
    def request(self) -> Request:
        """What was asked."""
        if self.asked is not None:
            return self.asked.request
        _, message = TABLE.decode(self.payload)
        known = service(message)
        if known is None:
            raise ValueError("ApiVersions is no request to the protocol")
        return known.read(message, _LOCAL)

    @property
    def response(self) -> Response | None:
        """The answer, None for a request."""
        if self.asked is None:
            return None
        request = self.asked.request
        assert isinstance(request, PeerRequest)
        return read_answer(decode_response(answer_class(request), self.payload)[1])

    @property
    def kind(self) -> str:
        """``Vote``, ``VoteResponse``, ``Fetch``, ``FetchResponse``, …"""
        name = type(self.request).__name__.removesuffix("Request")
        return name if self.asked is None else f"{name}Response"


@dataclass(slots=True, eq=False)
class Hold:
    """Messages of one kind on one ordered pair are kept back until they are released."""

    kind: str
    src: str
    dst: str
    when: Callable[[Message], bool] | None = None
    messages: list[Message] = field(default_factory=list)

    def takes(self, message: Message) -> bool:
        """Whether it keeps the message back."""
        if (message.src, message.dst) != (self.src, self.dst) or message.kind != self.kind:
            return False
        return self.when is None or self.when(message)


@dataclass(slots=True, eq=False)
class Side:
    """One side of a connection: :class:`..server.environment.Connection`. ``run`` calls back as the process that owns it."""

    stream: Stream
    """to the other side"""
    run: Callable[[Callable[[], None]], None]
    handler: Handler | None = None
    is_open: bool = True
    splitter: FrameSplitter = field(default_factory=FrameSplitter)

    def send(self, data: bytes) -> None:
        """Send whole frames."""
        if self.is_open:
            for payload in self.splitter.feed(data):
                self.stream.push(payload)

    def close(self) -> None:
        """Drop the connection: what a cut kept from leaving is lost, the other side learns it after everything else."""
        if self.is_open:
            self.is_open = False
            self.stream.abandon_unsent()
            self.stream.push(None)

    def end(self) -> None:
        """The process that owns it is gone; its kernel goes on sending what was sent."""
        if self.is_open:
            self.is_open = False
            self.stream.push(None)

    def take(self, payload: bytes | None) -> None:
        """What the other side sent arrives; None when it has closed."""
        self.run(lambda: self._take(payload))

    def _take(self, payload: bytes | None) -> None:
        if not self.is_open or self.handler is None:
            return
        if payload is None:
            self.is_open = False
            self.handler.closed()
        else:
            self.handler.received(frame(payload))


@dataclass(slots=True, eq=False)
class Stream:
    """One direction of a connection."""

    network: SimulatedNetwork
    src: str
    dst: str
    carries_requests: bool
    asked: dict[int, Message]
    """requests of this connection by correlation id"""
    target: Side | None = None
    """None until the other side has accepted"""
    accept: Callable[[], Side | None] | None = None
    """asked once, when the first frame arrives; None refuses"""
    queue: deque[Message | int] = field(default_factory=deque)
    """frames, and at last the moment at which it is closed"""
    last_due_ms: int = 0

    def push(self, payload: bytes | None) -> None:
        """Put a frame on its way, or the end of the stream."""
        time = self.network.time
        self.last_due_ms = max(self.last_due_ms, time.now_ms + self.network.latency_ms())
        if payload is None:
            self.queue.append(self.last_due_ms)
        else:
            asked = None
            if not self.carries_requests:
                asked = self.asked.pop(correlation_id(payload), None)
            message = Message(self.src, self.dst, payload, self.last_due_ms, asked)
            if self.carries_requests:
                self.asked[int.from_bytes(payload[4:8], "big", signed=True)] = message
            self.queue.append(message)
        self.network.busy[self] = None
        time.at(self.last_due_ms, self.pump)

    def abandon_unsent(self) -> None:
        """Forget what waits for a cut link."""
        if (self.src, self.dst) in self.network.cut:
            self.queue.clear()

    def pump(self) -> None:
        """Deliver what is due and neither cut nor held."""
        while self.queue and (self.src, self.dst) not in self.network.cut:
            head = self.queue[0]
            due_ms = head if isinstance(head, int) else head.due_ms
            if due_ms > self.network.time.now_ms:
                return
            if isinstance(head, Message) and self.network.holds_back(head):
                return
            self.queue.popleft()
            accept, self.accept = self.accept, None
            if accept is not None:
                self.target = accept()
            if self.target is not None:
                self.target.take(None if isinstance(head, int) else head.payload)
        if not self.queue:
            self.network.busy.pop(self, None)


@dataclass(slots=True)
class SimulatedNetwork:
    """All connections, which ordered pairs are cut, and what is held."""

    time: VirtualTime
    latency_ms: Callable[[], int]
    """draws how long the next frame takes"""
    cut: set[tuple[str, str]] = field(default_factory=set)
    holds: list[Hold] = field(default_factory=list)
    busy: dict[Stream, None] = field(default_factory=dict)
    """streams on which something is under way, in the order in which it was sent"""

    def connect(
        self,
        src: str,
        dst: str,
        run: Callable[[Callable[[], None]], None],
        handler: Handler,
        accept: Callable[[Side], bool],
    ) -> Side:
        """Begin to connect. ``accept`` is asked when the first frame arrives; what it refuses is closed."""
        asked: dict[int, Message] = {}
        there = Stream(self, src, dst, carries_requests=True, asked=asked)
        back = Stream(self, dst, src, carries_requests=False, asked=asked)
        near = back.target = Side(there, run, handler)

        def accepted() -> Side | None:
            far = Side(back, run)
            if accept(far):
                return far
            back.push(None)
            return None

        there.accept = accepted
        return near

    def holds_back(self, message: Message) -> bool:
        """Whether a message may not arrive yet."""
        if message.held_by is None and OUTSIDE not in (message.src, message.dst):
            for hold in self.holds:
                if hold.takes(message):
                    message.held_by = hold
                    hold.messages.append(message)
                    break
        return message.held_by is not None

    def pump(self) -> None:
        """Deliver everything that may arrive now: links were healed, or a hold was released."""
        for stream in list(self.busy):
            stream.pump()

    def release(self, hold: Hold) -> None:
        """Let what was held arrive, in its order."""
        self._forget(hold)
        self.pump()

    def drop(self, hold: Hold) -> None:
        """Lose what was held; what followed it on its connection arrives."""
        for stream in self.busy:
            kept = [each for each in stream.queue if not (isinstance(each, Message) and each.held_by is hold)]
            stream.queue = deque(kept)
        self._forget(hold)
        self.pump()

    def _forget(self, hold: Hold) -> None:
        self.holds.remove(hold)
        for message in hold.messages:
            message.held_by = None
