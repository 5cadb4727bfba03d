"""``relay``: passes what a node sends to its peers and what they answer, frame by frame, and lets rules act on it.

It runs in the namespace of the *connecting* node, whose connections to peers' listeners are turned to it (:mod:`.relay_door`); it
connects on from the node's own address, so that cuts, captures and the peers see what they would see without it. A peer that refuses
refuses the relay; the node, which is connected by then, is reset at once.

Operations (fields each, JSON):

``begin``    ``node``, ``peers`` (name → [address, port] of all *other* nodes): opens the door; → ``port``.
``add``      ``rules`` (see :mod:`.rpc_rules`): puts them in force.
``remove``   ``ids``: takes rules out of force; what they hold passes now, what they delay when it is due.
``release``  ``id``: what the rule holds now passes.
``counts``   → ``rules`` (id → matched, applied, holding), ``frames``, ``unread``, ``connections``, ``failed``, ``around`` (packets to
             peers of no relayed connection, which were reset: of one from before the relay, or stragglers of one that is closed).
``events``   → ``events``: the oldest actions that were not taken yet, ``left``, ``lost``.

An event is an action on one frame: ``at_ns`` (CLOCK_MONOTONIC), ``rule``, ``action``, ``api``, ``part``, ``sender``, ``receiver``,
``version``, ``correlation``, what the frame tells, and what a response's ``request`` had told. What was delayed or held has ``waited_ms``
too, and whether the connecting node's side was ``open`` when it passed: a node that has given up closes it. What is held has two
events, ``hold`` and ``release``.

Standard library only: it also runs on machines of a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from clusters.backends.companions.raft_frames import Request
from clusters.backends.companions.relay_door import Door, marked_socket, original_destination
from clusters.backends.companions.relayed import ESTABLISHED, Relayed, Reset, reset_when_closed, tcp_state
from clusters.backends.companions.requests import Requests
from clusters.backends.companions.rpc_rules import Frame, Rule, Rules, read_rule
from workloads.problem import Problem

_EVENTS_KEPT = 20_000
_EVENTS_A_TIME = 250
_BACKLOG = 256


def serve(requests: Requests) -> None:
    """Serve until the end of the requests."""
    asyncio.run(_serve(requests))


async def _serve(requests: Requests) -> None:
    relay = Relay()
    ended = asyncio.Event()

    def receive() -> None:
        taken = requests.take()
        if taken is None:
            ended.set()
            return
        for request in taken:
            try:
                requests.answer(relay.do(request))
            except Problem as problem:
                requests.refuse(problem)

    loop = asyncio.get_running_loop()
    loop.add_reader(requests.descriptor, receive)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(requests.descriptor)
        await relay.close()


class Relay:
    """The relay of one node."""

    def __init__(self) -> None:
        self._node = ""
        self._peers: dict[tuple[str, int], str] = {}
        self._listener: socket.socket | None = None
        self._door: Door | None = None
        self._rules = Rules()
        self._holding: dict[str, list[asyncio.Event]] = {}
        self._events: deque[dict[str, Any]] = deque()
        self._lost = 0
        self._live: dict[asyncio.Task[None], Relayed] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._frames = self._unread = self._connections = self._failed = 0

    def do(self, request: Mapping[str, Any]) -> Any:
        """Carry out one operation. Raises Problem."""
        fields = dict(request)
        op = fields.pop("op")
        try:
            return getattr(self, "_do_" + op)(**fields)
        except (AttributeError, TypeError, ValueError) as error:
            raise Problem("relay-request-malformed", f"The relay of {self._node} cannot do {op}: {error}.") from error

    async def close(self) -> None:
        """Shut the door, and end every connection."""
        if self._accepting is not None:
            self._accepting.cancel()
        for relayed in self._live.values():
            reset_when_closed(relayed.near)
            reset_when_closed(relayed.far)
        tasks = [*self._live, *filter(None, [self._accepting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._door is not None:
            self._door.close()
        if self._listener is not None:
            self._listener.close()

    def _do_begin(self, node: str, peers: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
        self._node = node
        self._peers = {(address, port): name for name, (address, port) in peers.items()}
        try:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
            self._listener.setblocking(False)
            marked_socket("0.0.0.0").close()
        except OSError as error:
            raise Problem(
                "relay-refused",
                f"The relay of {node} may not open its sockets: {error}.",
                "It needs the capability CAP_NET_ADMIN in the node's network namespace.",
            ) from error
        port = int(self._listener.getsockname()[1])
        self._door = Door(self._peers, port)
        self._accepting = asyncio.create_task(self._accept(self._listener))
        return {"port": port}

    def _do_add(self, rules: list[dict[str, Any]]) -> int:
        for rule in [read_rule(each) for each in rules]:
            self._rules.add(rule)
        return len(rules)

    def _do_remove(self, ids: list[str]) -> bool:
        for each in ids:
            self._rules.remove(each)
            self._do_release(each)
        return True

    def _do_release(self, id: str) -> int:
        held = self._holding.pop(id, [])
        for each in held:
            each.set()
        return len(held)

    def _do_counts(self) -> dict[str, Any]:
        live = self._live.values()
        return {
            "rules": {
                name: {"matched": count.matched, "applied": count.applied, "holding": len(self._holding.get(name, ()))}
                for name, count in self._rules.counts.items()
            },
            "frames": self._frames + sum(each.frames for each in live),
            "unread": self._unread + sum(each.unread for each in live),
            "connections": self._connections,
            "failed": self._failed,
            "around": self._door.packets_around() if self._door is not None else 0,
        }

    def _do_events(self) -> dict[str, Any]:
        taken = [self._events.popleft() for _ in range(min(_EVENTS_A_TIME, len(self._events)))]
        return {"events": taken, "left": len(self._events), "lost": self._lost}

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            near, _ = await loop.sock_accept(listener)
            try:
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                address = original_destination(near)
                far = marked_socket(near.getpeername()[0])
            except OSError:
                self._failed += 1
                reset_when_closed(near)
                near.close()
                continue
            relayed = Relayed(
                self._node, self._peers.get(address, "?"), near, far, self._rules.choose, self._act_on(near)
            )
            task = asyncio.create_task(self._pass(relayed, address))
            self._live[task] = relayed

    async def _pass(self, relayed: Relayed, address: tuple[str, int]) -> None:
        self._connections += 1
        try:
            if not await relayed.run(address):
                self._failed += 1
        finally:
            self._frames += relayed.frames
            self._unread += relayed.unread
            task = asyncio.current_task()
            if task is not None:
                self._live.pop(task, None)

    def _act_on(self, near: socket.socket) -> Any:
        async def act(rule: Rule, frame: Frame, request: Request) -> bool:
            event = self._event(rule, frame, request)
            if rule.action == "hold":
                self._keep(event)
                event = {**event, "action": "release"}
            if rule.action in ("delay", "hold"):
                began = time.monotonic()
                await self._wait(rule)
                event["waited_ms"] = round((time.monotonic() - began) * 1000, 1)
                event["open"] = _is_open(near)
            self._keep(event)
            if rule.action == "close":
                raise Reset
            return rule.action != "drop"

        return act

    async def _wait(self, rule: Rule) -> None:
        if rule.action == "delay":
            await asyncio.sleep(rule.delay_ms / 1000)
            return
        released = asyncio.Event()
        self._holding.setdefault(rule.id, []).append(released)
        try:
            await released.wait()
        finally:
            with contextlib.suppress(KeyError, ValueError):
                self._holding[rule.id].remove(released)

    def _event(self, rule: Rule, frame: Frame, request: Request) -> dict[str, Any]:
        event: dict[str, Any] = {
            "at_ns": time.monotonic_ns(),
            "rule": rule.id,
            "action": rule.action,
            "api": frame.api,
            "part": frame.part,
            "sender": frame.sender,
            "receiver": frame.receiver,
            "version": request.version,
            "correlation": request.correlation,
            **frame.told,
        }
        if frame.part == "response" and request.told:
            event["request"] = request.told
        return event

    def _keep(self, event: dict[str, Any]) -> None:
        if len(self._events) >= _EVENTS_KEPT:
            self._events.popleft()
            self._lost += 1
        self._events.append(event)


def _is_open(near: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        return tcp_state(near) == ESTABLISHED
    return False
