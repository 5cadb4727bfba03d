"""``python -m clusters.candidates.reference.server --config FILE``: one node of the reference candidate as a process.

Exit status: 0 after SIGTERM or SIGINT, 1 when the configuration or the disk is not usable, 70 when anything unexpected happens: then
nothing more is sent, as after a crash.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusters.wire.lean_kio import import_kio

UNEXPECTED = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal asks to stop."""
    parser = argparse.ArgumentParser(prog="python -m clusters.candidates.reference.server")
    parser.add_argument("--config", required=True, type=Path, help="JSON file, see configuration.py")
    options = parser.parse_args(arguments)
    import_kio()
    from workloads.problem import Problem

    try:
        return _run(options.config)
    except Problem as problem:
        print(f"{problem.slug}: {problem}", file=sys.stderr, flush=True)
        return 1


def _run(config_path: Path) -> int:
    import asyncio
    import random
    import signal

    import msgspec

    from clusters.candidates.reference.server.configuration import ServerConfig
    from clusters.candidates.reference.server.real_clock import LoopClock
    from clusters.candidates.reference.server.real_disk import OsDisk
    from clusters.candidates.reference.server.real_network import TcpNetwork
    from clusters.candidates.reference.server.server import Server, World
    from workloads.problem import Problem

    try:
        config = msgspec.json.decode(config_path.read_bytes(), type=ServerConfig)
    except (OSError, msgspec.DecodeError) as error:
        raise Problem("bad-configuration", f"{config_path}: {error}.", usage=True) from error
    chance = random.Random(f"{config.seed}/{config.node_id}/{config.incarnation}")
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(_crash)
    trace = os.open(config.trace_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    world = World(
        clock=LoopClock(loop),
        network=TcpNetwork(loop),
        disk=OsDisk(Path(config.data_directory)),
        draw=lambda most: chance.randint(0, most),
        write_trace=lambda data: _write_all(trace, data),
    )
    try:
        server = Server(config, world)
    except OSError as error:
        raise Problem("cannot-start", f"Node {config.node_id} cannot start: {error}.") from error

    def stop_soon() -> None:
        # A resigning leader's last requests get a moment to leave; nobody waits for their answers.
        loop.call_later(0.1, loop.stop)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.shut_down, stop_soon)
    print(f"node {config.node_id} incarnation {config.incarnation} runs", flush=True)
    loop.run_forever()
    server.close()
    return 0


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _crash(loop: Any, context: dict[str, Any]) -> None:
    """After an exception in a callback memory and disk may disagree: end as a crash does, before anything else is sent."""
    del loop
    import traceback

    error = context.get("exception")
    print(f"unexpected: {context.get('message')}", file=sys.stderr)
    if error is not None:
        traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()
    os._exit(UNEXPECTED)


if __name__ == "__main__":
    sys.exit(main())
