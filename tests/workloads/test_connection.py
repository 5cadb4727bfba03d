"""What a connection promises: sent once or not at all, and a late answer is never taken for another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i64

from clusters.wire.messages import RequestTable, encode_response
from clusters.wire.reference_messages import ReadRequest, ReadResponse
from tests.workloads.wire_server import HANG_UP, SILENCE, WireServer, serving
from workloads.clients.connection import Connection, Unanswered, Unsent
from workloads.clients.deadlines import Deadlines
from workloads.error_table import Trouble

_T = TypeVar("_T")
LONG_S = 30.0
SHORT_S = 0.05
"""Long ones never pass in a test; short ones pass only where nothing else can happen."""


def read(key: int) -> ReadRequest:
    return ReadRequest(key=i64(key), timeout_ms=i32(1000))


def value(number: int) -> ReadResponse:
    return ReadResponse(error_code=ErrorCode.none, written=True, value=i64(number))


def play(
    handler: Callable[[str, Any], Any], scene: Callable[[Connection, WireServer], Awaitable[_T]], dead: bool = False
) -> _T:
    async def main() -> _T:
        nodes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ("n1",)) if dead else (("n1",), ())
        async with serving(RequestTable([ReadRequest]), handler, *nodes) as server:
            connection = Connection(server.connect, "n1", Deadlines(), "test")
            try:
                return await scene(connection, server)
            finally:
                connection.drop()

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_one_connection_serves_many_requests() -> None:
    async def scene(connection: Connection, server: WireServer) -> None:
        for key in range(20):
            answer = await connection.request(read(key), ReadResponse, LONG_S)
            assert answer.value == key * 2
        assert len(server.connections) == 1

    play(lambda node, request: value(request.key * 2), scene)


def test_a_node_that_refuses_connections_got_nothing() -> None:
    async def scene(connection: Connection, server: WireServer) -> None:
        with pytest.raises(Unsent) as caught:
            await connection.request(read(1), ReadResponse, LONG_S)
        assert caught.value.trouble is Trouble.NOT_CONNECTED

    play(lambda node, request: SILENCE, scene, dead=True)


def test_a_connection_that_cannot_be_made_in_time_sent_nothing() -> None:
    async def never(node: str) -> Any:
        await asyncio.Event().wait()

    async def main() -> None:
        connection = Connection(never, "n1", Deadlines(), "test")
        with pytest.raises(Unsent, match=r"longer than 0\.05 s"):
            await connection.request(read(1), ReadResponse, SHORT_S)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_after_a_timeout_the_connection_is_dropped_and_the_next_request_has_its_own_answer() -> None:
    def handler(node: str, request: Any) -> Any:
        return SILENCE if request.key == 1 else value(request.key)

    async def scene(connection: Connection, server: WireServer) -> None:
        with pytest.raises(Unanswered) as caught:
            await connection.request(read(1), ReadResponse, SHORT_S)
        assert caught.value.trouble is Trouble.TIMED_OUT
        assert not connection.connected
        assert (await connection.request(read(2), ReadResponse, LONG_S)).value == 2
        assert len(server.connections) == 2

    play(handler, scene)


def test_an_operation_is_sent_once_even_if_the_node_hangs_up() -> None:
    async def scene(connection: Connection, server: WireServer) -> None:
        with pytest.raises(Unanswered) as caught:
            await connection.request(read(1), ReadResponse, LONG_S)
        assert caught.value.trouble is Trouble.CONNECTION_LOST
        assert len(server.received) == 1

    play(lambda node, request: HANG_UP, scene)


@pytest.mark.parametrize(
    "answer",
    [encode_response(value(1), 77), b"\xff\xff\xff\xff", b"\0\0\0\1x", b"\0\0\0\6\0\0\0\1\0\0"],
    ids=["of another request", "negative length", "shorter than a header", "cut"],
)
def test_an_answer_that_makes_no_sense_drops_the_connection(answer: bytes) -> None:
    async def scene(connection: Connection, server: WireServer) -> None:
        with pytest.raises(Unanswered) as caught:
            await connection.request(read(1), ReadResponse, LONG_S)
        assert caught.value.trouble is Trouble.GARBLED
        assert not connection.connected

    play(lambda node, request: answer, scene)


def test_an_answer_that_nobody_asked_for_drops_the_connection() -> None:
    async def scene(connection: Connection, server: WireServer) -> None:
        answer = await connection.request(read(1), ReadResponse, LONG_S)
        assert answer.value == 1
        while connection.connected:
            await asyncio.sleep(0.001)

    play(lambda node, request: encode_response(value(1), 1) + encode_response(value(2), 2), scene)


def test_a_cancelled_request_drops_the_connection() -> None:
    async def scene(connection: Connection, server: WireServer) -> None:
        task = asyncio.create_task(connection.request(read(1), ReadResponse, LONG_S))
        while not server.received:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert not connection.connected

    play(lambda node, request: SILENCE, scene)


def test_deadlines_call_back_once_and_only_what_was_not_disarmed() -> None:
    async def main() -> list[str]:
        called: list[str] = []
        late = asyncio.Event()
        deadlines = Deadlines()
        deadlines.arm("a", 0.01, lambda: called.append("a"))
        deadlines.arm("b", 0.01, lambda: called.append("b"))
        deadlines.disarm("b")
        deadlines.arm("c", 0.05, late.set)
        await late.wait()
        deadlines.arm("d", 0.0, lambda: called.append("d"))
        deadlines.arm("e", 0.01, late.clear)
        while late.is_set():
            await asyncio.sleep(0.001)
        return called

    assert asyncio.run(asyncio.wait_for(main(), 60)) == ["a", "d"]
