"""``python keeper.py PLAN SOCKET``: machines of a test, each a network namespace with an sshd of its own. All of it ends with this process.

It becomes the network between them: the controller's namespace, joined to every machine by a control cable and by a data cable over
which it routes between the machines. Descriptors of the namespaces on the socket say that all sshd listen; the end of standard input
ends it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from pyroute2 import IPRoute

NEWNS, NEWTIME, NEWPID, NEWNET = 0x0002_0000, 0x80, 0x2000_0000, 0x4000_0000
ROUTER = "10.99.255.254"
_PATIENCE_S = 15.0
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    plan = json.loads(sys.argv[1])
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    _check(_libc.unshare(NEWNS | NEWPID | NEWNET))
    keeper = os.fork()
    if keeper:
        os.close(int(sys.argv[2]))
        os.waitpid(keeper, 0)
        return
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _mount("none", "/", None, 0x4000 | 0x4_0000)
    _mount("proc", "/proc", "proc", 0)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for name in ("all", "default"):
        Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")
    with IPRoute() as net:
        net.link("set", index=net.link_lookup(ifname="lo")[0], state="up")
        net.addr("add", index=net.link_lookup(ifname="lo")[0], address=ROUTER, prefixlen=32)
        for machine in plan["machines"]:
            _join(net, machine, _start(plan, machine))
    _await_all(plan["machines"])
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    with socket.socket(fileno=int(sys.argv[2])) as ready:
        socket.send_fds(ready, [b"ready"], [here, *(machine["network"] for machine in plan["machines"])])
    os.set_blocking(0, False)
    wake, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    while True:
        _reap()
        select.select([0, wake], [], [])
        try:
            if os.read(0, 100) == b"":
                return
        except BlockingIOError:
            os.read(wake, 100)


def _reap() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _start(plan: dict[str, Any], machine: dict[str, Any]) -> int:
    """Fork the machine: it waits for its cables, then becomes its sshd. Returns a descriptor of its network namespace."""
    told, tell = os.pipe()
    go_on, go = os.pipe()
    child = os.fork()
    if child == 0:
        _become(plan, machine, tell, go_on)
    os.close(tell)
    os.close(go_on)
    assert os.read(told, 1) == b"x", "a machine did not start"
    os.close(told)
    machine["go"] = go
    return os.open(f"/proc/{child}/ns/net", os.O_RDONLY)


def _become(plan: dict[str, Any], machine: dict[str, Any], tell: int, go_on: int) -> NoReturn:
    try:
        _libc.prctl(1, signal.SIGKILL, 0, 0, 0)
        _check(_libc.unshare(NEWNS | NEWNET))
        _mount("none", "/", None, 0x4000 | 0x4_0000)
        disk = os.open(machine["disk"], os.O_RDONLY)
        _mount("none", "/run", "tmpfs", 0)
        os.mkdir("/run/sshd")
        Path("/run/authorized").write_text(plan["authorized"])
        os.mkdir(plan["data"])
        _mount(f"/proc/self/fd/{disk}", plan["data"], None, 0x1000)
        for source, target in plan["bound"]:
            _mount(source, target, None, 0x1000)
        if plan["own_clocks"] and _libc.unshare(NEWTIME) == 0:
            Path("/proc/self/timens_offsets").write_text(f"monotonic {machine['ahead_s']} 0\n")
        os.write(tell, b"x")
        os.read(go_on, 1)
        # A time namespace is for children only.
        os.execv("/bin/sh", ["sh", "-c", '"$@" & wait', "sh", plan["sshd"], "-D", "-e", "-f", machine["config"]])
    finally:
        os._exit(1)


def _join(net: Any, machine: dict[str, Any], namespace: int) -> None:
    number = machine["number"]
    for cable, inner in ((f"c{number}", "ctl0"), (f"d{number}", "data0")):
        net.link("add", ifname=cable, kind="veth", peer={"ifname": inner, "net_ns_fd": namespace})
        net.link("set", index=net.link_lookup(ifname=cable)[0], state="up")
    net.addr("add", index=net.link_lookup(ifname=f"c{number}")[0], address=machine["gateway"], prefixlen=30)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    _check(_libc.setns(namespace, NEWNET))
    try:
        with IPRoute() as inside:
            for name, address, length in (("ctl0", machine["host"], 30), ("data0", machine["address"], 32)):
                index = inside.link_lookup(ifname=name)[0]
                inside.addr("add", index=index, address=address, prefixlen=length)
                inside.link("set", index=index, state="up")
            inside.link("set", index=inside.link_lookup(ifname="lo")[0], state="up")
            data = inside.link_lookup(ifname="data0")[0]
            inside.route("add", dst=f"{ROUTER}/32", oif=data, scope="link")
            inside.route("add", dst="10.99.0.0/16", gateway=ROUTER, oif=data)
    finally:
        _check(_libc.setns(here, NEWNET))
        os.close(here)
    machine["network"] = namespace
    outer = net.link_lookup(ifname=f"d{number}")[0]
    net.route("add", dst=f"{machine['address']}/32", oif=outer, scope="link", prefsrc=ROUTER)
    os.write(machine["go"], b"x")


def _await_all(machines: list[dict[str, Any]]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    for machine in machines:
        while True:
            try:
                socket.create_connection((machine["host"], machine["port"]), 2.0).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    _check(_libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
