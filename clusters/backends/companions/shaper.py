"""``shaper``: delays, loses, repeats, reorders, narrows and resets what a node sends to others, packet by packet, in its own namespace.

There are two mechanisms. Where the kernel has netem, its queues do what they can do exactly (:mod:`.kernel_shaper`); everything else is
done here, in userspace: while a link is shaped, a routing rule takes the packets for that destination into a TUN device; this program
reads them there, does to them what :mod:`.shape` says, and sends them on through a raw socket whose mark lets them skip the rule. The
packets are whole, with their checksums, since the device offers no offload. What is sent on meets the kernel's queues like any other
packet, so that faults of both mechanisms may shape one link. While nothing is shaped there is no rule and no queue, and nothing is in the
path of any packet.

Operations (fields each, JSON; ``key`` names what one fault does, several may shape one link one after the other):

``begin``   ``address`` (the node's), ``by`` (``userspace`` to leave netem alone): makes the device. The answer is why the kernel's
            queues are not used, empty where they are. Problem ``packets-not-shaped``.
``shape``   ``key``, ``towards`` (addresses), ``shape`` (:class:`.shape.Shape`), ``seed``: begins; instead of what the key did before.
            The answer is why the kernel does not do it, empty where it does.
``counts``  ``key``: address → :class:`.shape.Counts` and ``echo_ms`` (round trips measured meanwhile), ``echoes`` (asked for),
            ``waiting`` (the most packets seen in the kernel's queue), ``by`` (``netem`` or ``userspace``), ``moments`` (intervals in
            which a connection was reset), ``device_dropped`` (that this program was too slow for).
``clear``   ``key``: ends; what is under way leaves at once, from a netem when it is due. The last counts. ``clear_all``: for every key.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import heapq
import os
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from clusters.backends.companions.kernel_shaper import KernelShaper, Trips
from clusters.backends.companions.requests import Requests
from clusters.backends.companions.rtnetlink import MARK, Routes
from clusters.backends.companions.segments import Resetter, destination, echo_of, echo_request, is_ipv4
from clusters.backends.companions.shape import Shape, Stage, new_stage
from clusters.backends.companions.traffic_control import TrafficControl
from workloads.problem import Problem

DEVICE = b"nemesis-shape"
USERSPACE, KERNEL = "userspace", "netem"
"""who shapes a link"""

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x1, 0x1000
_IP_HDRINCL, _SO_MARK, _SO_SNDBUFFORCE = 3, 36, 32
_PR_SET_TIMERSLACK = 29
_BATCH = 64
_PACKET_BYTES = 1 << 16
_QUEUE_PACKETS = 10_000
_SEND_BUFFER_BYTES = 8 << 20
_ECHO_NS = 200_000_000
_ECHOES_KEPT = 200
_REMEDY = (
    "As root there: `modprobe tun`, and /dev/net/tun must be readable and writable; in a container give it that device "
    "and the capabilities NET_ADMIN and NET_RAW."
)


@dataclass
class _Work:
    """What one key does on the link to one address."""

    stage: Stage
    resetter: Resetter | None
    trips: Trips

    def told(self) -> dict[str, Any]:
        """As an answer."""
        return {
            **self.stage.counts.told(),
            **self.trips.told(),
            "moments": self.resetter.moments if self.resetter else 0,
        }


@dataclass(order=True)
class _Held:
    due_ns: int
    order: int
    came_ns: int = field(compare=False)
    number: int = field(compare=False)
    packet: bytes = field(compare=False)
    key: str = field(compare=False)
    work: _Work = field(compare=False)
    counted: bool = field(compare=False)


class Shaper:
    """The device, the raw sockets, the packets under way. One thread."""

    def __init__(self, address: str, by: str = "") -> None:
        self._address = address
        self._links: dict[bytes, dict[str, _Work]] = {}
        self._under_way: list[_Held] = []
        self._order = 0
        self._identity = os.getpid() & 0xFFFF
        self._asked: dict[int, tuple[int, Trips]] = {}
        self._measured: Counter[str] = Counter()
        try:
            self.tun, self._raw, self.echo = _open_device(), _raw_socket(), _echo_socket()
            self._routes = Routes()
            self._routes.sweep()
            self._index = socket.if_nametoindex(DEVICE.decode())
            self._kernel = KernelShaper(self._routes, self._index, self._measured)
        except OSError as error:
            raise Problem("packets-not-shaped", f"Packets cannot be shaped here: {error}.", _REMEDY) from error
        if by == USERSPACE:
            self._kernel.unable = "userspace was asked for"

    @property
    def unable(self) -> str:
        """Why the kernel's queues are not used; empty where they are."""
        return self._kernel.unable

    def shape(self, key: str, towards: list[str], shape: dict[str, Any], seed: str) -> str:
        """Begin; why the kernel does not do it, or empty. Raises Problem ``packets-not-shaped``; nothing is shaped by this key then."""
        self.clear(key)
        now_ns = time.monotonic_ns()
        why = self._kernel.shape(key, towards, Shape(**shape), now_ns)
        if not why:
            return ""
        for address in towards:
            stage = new_stage(shape, f"{seed}>{address}", now_ns)
            every_ns = int(stage.shape.reset_every_ms * 1e6)
            work = _Work(stage, Resetter(every_ns, now_ns) if every_ns else None, Trips(now_ns))
            try:
                self._divert(address)
            except OSError as error:
                self.clear(key)
                raise Problem(
                    "packets-not-shaped",
                    f"Packets to {address} cannot be taken aside: {error}.",
                    "Use a kernel with CONFIG_IP_MULTIPLE_TABLES.",
                ) from error
            self._links.setdefault(socket.inet_aton(address), {})[key] = work
        return why

    def counts(self, key: str) -> dict[str, dict[str, Any]]:
        """What was done by a key so far, by address."""
        mine = {link: works[key] for link, works in self._links.items() if key in works}
        return {**self._told(mine), **_named(self._kernel.counts(key), KERNEL)}

    def clear(self, key: str) -> dict[str, dict[str, Any]]:
        """End what a key does: the rule goes first, then what is under way leaves, in its order. The last counts."""
        by_kernel = self._kernel.clear(key)
        mine = {link: works.pop(key) for link, works in self._links.items() if key in works}
        for link in mine:
            if not self._links[link]:
                del self._links[link]
                self._routes.restore(socket.inet_ntoa(link))
        if not self._links and mine:
            self._routes.sweep()
        freed = [held for held in self._under_way if held.key == key]
        self._under_way = [held for held in self._under_way if held.key != key]
        heapq.heapify(self._under_way)
        for held in sorted(freed):
            self._leave(held, time.monotonic_ns())
        return {**self._told(mine), **_named(by_kernel, KERNEL)}

    def clear_all(self) -> bool:
        """End what any key does."""
        for key in {*self._kernel.keys(), *(key for works in self._links.values() for key in works)}:
            self.clear(key)
        self._routes.sweep()
        return True

    def wait(self) -> float | None:
        """Do what is due; the seconds until something may be due again."""
        now_ns = time.monotonic_ns()
        while self._under_way and self._under_way[0].due_ns <= now_ns:
            self._leave(heapq.heappop(self._under_way), time.monotonic_ns())
        due = [self._under_way[0].due_ns] if self._under_way else []
        if (look_ns := self._kernel.wait(now_ns)) is not None:
            due.append(look_ns)
        here = [(socket.inet_ntoa(link), work.trips) for link, works in self._links.items() for work in works.values()]
        measured = [*here, *self._kernel.trips()]
        asked = [(address, trips) for address, trips in measured if trips.due_ns <= now_ns]
        for address, trips in asked:
            self._send_echo(address, trips, now_ns)
        if asked:
            self._kernel.look()
        due += [trips.due_ns for _, trips in measured]
        return max(0.0, (min(due) - time.monotonic_ns()) / 1e9) if due else None

    def end(self) -> None:
        """Undo everything, whatever is under way."""
        self.clear_all()
        self._kernel.close()

    def read_packets(self) -> None:
        """Take what the node sends."""
        for _ in range(_BATCH):
            try:
                packet = os.read(self.tun, _PACKET_BYTES)
            except BlockingIOError:
                return
            if is_ipv4(packet):
                self._pass(packet, time.monotonic_ns(), "", counted=echo_of(packet, self._identity) is None)

    def read_echoes(self) -> None:
        """Take the answers to our own questions."""
        with suppress(BlockingIOError):
            while True:
                answered = echo_of(self.echo.recv(_PACKET_BYTES), self._identity)
                asked = self._asked.pop(answered[1], None) if answered and answered[0] == 0 else None
                if asked is not None and len(asked[1].took_ms) < _ECHOES_KEPT:
                    asked[1].took_ms.append((time.monotonic_ns() - asked[0]) / 1e6)

    def _pass(self, packet: bytes, now_ns: int, after: str, *, counted: bool) -> None:
        """A packet has passed what ``after`` does (nothing yet: the empty key); on to the next one of its link, or out."""
        for key, work in sorted(self._links.get(destination(packet), {}).items()):
            if key <= after:
                continue
            if work.resetter is not None and (answers := work.resetter.offer(packet, now_ns)) is not None:
                work.stage.counts.seen += 1
                work.stage.counts.reset = work.resetter.count
                with suppress(OSError):
                    os.write(self.tun, answers[0])
                self._send(answers[1])
                return
            for due_ns, number in work.stage.offer(now_ns, len(packet), counted=counted):
                self._order += 1
                held = _Held(due_ns, self._order, now_ns, number, packet, key, work, counted)
                if due_ns <= now_ns:
                    self._leave(held, now_ns)
                else:
                    heapq.heappush(self._under_way, held)
            return
        self._measured[socket.inet_ntoa(destination(packet))] += not counted
        self._send(packet)

    def _leave(self, held: _Held, now_ns: int) -> None:
        held.work.stage.left(now_ns, held.came_ns, held.number, counted=held.counted)
        self._pass(held.packet, now_ns, held.key, counted=held.counted)

    def _send(self, packet: bytes) -> None:
        try:
            self._raw.sendto(packet, (socket.inet_ntoa(destination(packet)), 0))
        except OSError:  # a full buffer, a filter of this machine
            for work in self._links.get(destination(packet), {}).values():
                work.stage.counts.refused += 1

    def _send_echo(self, address: str, trips: Trips, now_ns: int) -> None:
        trips.due_ns = now_ns + _ECHO_NS
        trips.asked += 1
        self._measured[address] += socket.inet_aton(address) not in self._links
        self._order += 1
        number = self._order & 0xFFFF
        self._asked[number] = (now_ns, trips)
        if len(self._asked) > 10 * _ECHOES_KEPT:
            del self._asked[next(iter(self._asked))]
        with suppress(OSError):
            self.echo.sendto(echo_request(self._identity, number, bytes(8)), (address, 0))

    def _told(self, works: dict[bytes, _Work]) -> dict[str, dict[str, Any]]:
        dropped = self._routes.dropped(self._index)
        told = {socket.inet_ntoa(link): {**work.told(), "device_dropped": dropped} for link, work in works.items()}
        return _named(told, USERSPACE)

    def _divert(self, address: str) -> None:
        if socket.inet_aton(address) in self._links:
            return
        way = self._routes.way_to(address)
        self._see_way_back(socket.if_indextoname(way))
        if not self._links:
            self._routes.bring_up(self._index, self._routes.mtu(way), _QUEUE_PACKETS)
            with suppress(FileExistsError):
                self._routes.route_all(self._index, self._address)
            with suppress(FileExistsError):
                self._routes.let_pass()
        self._routes.divert(address)

    def _see_way_back(self, link: str) -> None:
        """A strict reverse-path filter would drop what a shaped destination sends: the way back to it is not the link it came by."""
        strict = max(_filter_mode("all"), _filter_mode(link)) == 1
        if strict and _made_for_us():
            with open(f"/proc/sys/net/ipv4/conf/{link}/rp_filter", "w", encoding="ascii") as mode:
                mode.write("2")
        elif strict:
            raise Problem(
                "packets-not-shaped",
                f"A strict reverse-path filter (rp_filter = 1) guards {link}: it would drop all that a shaped destination sends.",
                f"As root there: sysctl -w net.ipv4.conf.{link}.rp_filter=2",
            )


def serve(requests: Requests) -> None:
    """Serve until the end of the requests, then undo everything."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    shaper: Shaper | None = None
    try:
        while True:
            if shaper is None:
                watched, timeout = [requests.descriptor], None
            else:
                watched, timeout = [shaper.tun, shaper.echo.fileno(), requests.descriptor], shaper.wait()
            ready, _, _ = select.select(watched, [], [], timeout)
            if shaper is not None and shaper.tun in ready:
                shaper.read_packets()
            if shaper is not None and shaper.echo.fileno() in ready:
                shaper.read_echoes()
            if requests.descriptor in ready:
                asked = requests.take()
                if asked is None:
                    return
                for request in asked:
                    shaper = _serve(requests, shaper, request)
    finally:
        if shaper is not None:
            shaper.end()


def _serve(requests: Requests, shaper: Shaper | None, request: dict[str, Any]) -> Shaper | None:
    op = request.pop("op")
    try:
        if shaper is None:
            shaper = Shaper(**request)
            value: Any = shaper.unable
        else:
            does: dict[str, Callable[..., Any]] = {
                "shape": shaper.shape,
                "counts": shaper.counts,
                "clear": shaper.clear,
                "clear_all": shaper.clear_all,
            }
            value = does[op](**request)
    except Problem as problem:
        requests.refuse(problem)
    else:
        requests.answer(value)
    return shaper


def sweep() -> int:
    """Remove a killed shaper's rules and queues in this namespace; returns how many. Its device went with it. Raises OSError."""
    routes, queues = Routes(), TrafficControl()
    try:
        return routes.sweep() + queues.sweep()
    finally:
        routes.close()
        queues.close()


def _open_device() -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE, _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        os.close(device)
        raise OSError(error.errno, f"{os.strerror(error.errno or errno.EPERM)}, for a TUN device") from error
    return device


def _raw_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_RAW)
    sock.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)
    sock.setsockopt(socket.IPPROTO_IP, _IP_HDRINCL, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    with suppress(PermissionError):  # an ordinary user has what the machine allows to all
        sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)
    return sock


def _echo_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_ICMP)


def _named(counts: dict[str, dict[str, Any]], by: str) -> dict[str, dict[str, Any]]:
    return {address: {**told, "by": by} for address, told in counts.items()}


def _made_for_us() -> bool:
    """Whether our parent is in another network namespace: then this one is the run's own, and not a machine's."""
    try:
        return os.stat(f"/proc/{os.getppid()}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return False


def _filter_mode(link: str) -> int:
    try:
        with open(f"/proc/sys/net/ipv4/conf/{link}/rp_filter", encoding="ascii") as mode:
            return int(mode.read())
    except OSError:
        return 0
