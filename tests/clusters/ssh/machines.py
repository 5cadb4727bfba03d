"""Machines for tests: real sshd processes in network namespaces of the test's own, with an inventory that names them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
SSHD = shutil.which("sshd", path=PATH) or "/usr/sbin/sshd"
NFT, IPTABLES = shutil.which("nft", path=PATH), shutil.which("iptables", path=PATH)
KEEPER = Path(__file__).with_name("keeper.py")
PATIENCE_S = 20.0
DATA = "/run/nemesis"
UID = 4321
"""of a user of machines who is not root"""
AHEAD_S = 1000
"""how far each further machine's monotonic clock is ahead, where the kernel has time namespaces"""

_NEWNET = 0x4000_0000
_CONFIG = """\
Port {port}
ListenAddress {host}
HostKey {key}
PidFile none
AuthorizedKeysFile /run/authorized
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin prohibit-password
LogLevel QUIET
"""
_libc = ctypes.CDLL(None, use_errno=True)


def within(patience_s: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@dataclass
class Machines:
    """Running machines. Their network is reached from inside of :meth:`inside` only, by this thread and what it starts."""

    folder: Path
    count: int
    inventory: Path
    process: subprocess.Popen[bytes]
    networks: list[int]
    """descriptors of the network namespaces: the controller's, then the machines'"""
    plan: dict[str, Any]

    @contextlib.contextmanager
    def inside(self, number: int = 0) -> Iterator[None]:
        """Be in the network of the controller, or of a machine (from 1): sockets, threads and processes made here are too."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        assert _libc.setns(self.networks[number], _NEWNET) == 0
        try:
            yield
        finally:
            assert _libc.setns(home, _NEWNET) == 0
            os.close(home)

    def disk(self, number: int) -> Path:
        """What machine ``number`` (from 1) has at the inventory's ``data``."""
        return self.folder / f"disk{number}"

    def run(self, number: int, command: str) -> str:
        """Run a command in the network of a machine; its output."""
        with self.inside(number):
            done = subprocess.run(
                ["sh", "-c", f"PATH={PATH}; {command}"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def control_cable(self, number: int, state: str) -> None:
        """Take the control cable of a machine ``up`` or ``down``."""
        with self.inside():
            ip = shutil.which("ip", path=PATH)
            subprocess.run([ip or "ip", "link", "set", f"c{number}", state], check=True, timeout=PATIENCE_S)

    def close(self) -> None:
        """End the machines and all that runs on them."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for network in self.networks:
            os.close(network)


def missing_tools() -> list[str]:
    """What machines need and is not here."""
    missing = [tool for tool in (SSHD, "ssh-keygen", "nft", "ip") if shutil.which(tool, path=PATH) is None]
    return missing if os.geteuid() == 0 else [*missing, "root"]


def start_machines(
    folder: Path,
    count: int = 3,
    *,
    lease_s: float = 30.0,
    own_clocks: bool = True,
    hidden: Sequence[str] = (),
    login: str = "root",
    sudoers: str = "",
) -> Machines:
    """Make keys and configurations, start the machines, write the inventory.

    ``hidden`` programs cannot be run there. A ``login`` other than root is an ordinary user of the machines, who may do what
    ``sudoers`` says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _key(folder / "key")
    machines = []
    for number in range(1, count + 1):
        machine = {
            "number": number,
            "host": f"10.88.{number}.2",
            "gateway": f"10.88.{number}.1",
            "address": f"10.99.0.{number}",
            "port": 2200 + number,
            "disk": str(folder / f"disk{number}"),
            "config": str(folder / f"sshd{number}.conf"),
            "ahead_s": AHEAD_S * number,
        }
        Path(machine["disk"]).mkdir()
        _key(folder / f"host{number}")
        Path(machine["config"]).write_text(_CONFIG.format(**machine, key=folder / f"host{number}"))
        machines.append(machine)
    (folder / "known_hosts").write_text("".join(_known(folder, each) for each in machines))
    inventory = folder / "inventory.toml"
    inventory.write_text(_inventory(folder, machines, lease_s, login))
    bound = [("/dev/null", os.path.realpath(each)) for each in hidden]
    plan = {
        "sshd": SSHD,
        "data": DATA,
        "authorized": (folder / "key.pub").read_text(),
        "machines": machines,
        "own_clocks": own_clocks,
        "bound": bound if login == "root" else bound + _accounts(folder, login, sudoers),
    }
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, str(KEEPER), json.dumps(plan), str(theirs.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
            )
        told, networks, _, _ = socket.recv_fds(ours, 100, count + 1, socket.MSG_CMSG_CLOEXEC)
    assert told == b"ready", "the machines did not start"
    return Machines(folder, count, inventory, process, list(networks), plan)


def _key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=PATIENCE_S)


def _known(folder: Path, machine: dict[str, Any]) -> str:
    kind, key, *_ = (folder / f"host{machine['number']}.pub").read_text().split()
    return f"[{machine['host']}]:{machine['port']} {kind} {key}\n"


def _accounts(folder: Path, login: str, sudoers: str) -> list[tuple[str, str]]:
    """Files that make ``login`` an account, and the places that they take on the machines."""
    added = {
        "passwd": f"{login}:x:{UID}:{UID}::/run:/bin/sh\n",
        "shadow": f"{login}:*:19000:0:99999:7:::\n",
        "sudoers": sudoers,
    }
    for name, text in added.items():
        before = "" if name == "sudoers" else Path("/etc", name).read_text()
        (folder / name).write_text(before + text)
        (folder / name).chmod(0o644 if name == "passwd" else 0o440)
    return [(str(folder / name), f"/etc/{name}") for name in added]


def _inventory(folder: Path, machines: list[dict[str, Any]], lease_s: float, login: str) -> str:
    text = f"""\
data = "{DATA}"

[defaults]
user = "{login}"
sudo = {str(login != "root").lower()}
key = "{folder / "key"}"
known_hosts = "{folder / "known_hosts"}"
python = "{os.path.realpath(sys.executable)}"
lease_s = {lease_s}
"""
    for machine in machines:
        text += f"""
[[machine]]
host = "{machine["host"]}"
port = {machine["port"]}
address = "{machine["address"]}"
"""
    return text
