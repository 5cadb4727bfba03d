"""One ssh connection to a machine, by paramiko: strict host keys, keep-alive, every wait bounded."""

from __future__ import annotations

import base64
import hashlib
import shlex
import socket

import paramiko

from clusters.backends.ssh.inventory import Machine
from workloads.problem import Problem

CONNECT_TIMEOUT_S = 10.0
_KEEPALIVE_S = 5
_NOT_DSA = "Make a key that is still in use: ssh-keygen -t ed25519."


def connect(machine: Machine) -> paramiko.SSHClient:
    """Log in. Raises Problem ``machine-unreachable``, ``host-key-unknown``, ``host-key-changed``, ``login-refused``, ``key-unreadable``,
    ``known-hosts-unreadable``."""
    client = paramiko.SSHClient()
    _load_known_hosts(client, machine)
    client.set_missing_host_key_policy(_Refuse(machine))
    key = _private_key(machine)
    try:
        client.connect(
            machine.host,
            port=machine.port,
            username=machine.user,
            pkey=key,
            allow_agent=key is None,
            look_for_keys=False,
            timeout=CONNECT_TIMEOUT_S,
            banner_timeout=CONNECT_TIMEOUT_S,
            auth_timeout=CONNECT_TIMEOUT_S,
            channel_timeout=CONNECT_TIMEOUT_S,
        )
    except paramiko.BadHostKeyException as error:
        client.close()
        raise Problem(
            "host-key-changed",
            f"{machine} shows the key {_fingerprint(error.key)}, and {machine.known_hosts} has "
            f"{_fingerprint(error.expected_key)} for it: another machine answers there, or it was set up anew.",
            f"If you know why: ssh-keygen -f {machine.known_hosts} -R '{_name(machine)}', then add the new key.",
        ) from error
    except paramiko.AuthenticationException as error:
        client.close()
        raise Problem(
            "login-refused",
            f"{machine} does not let {machine.user} in with {machine.key or 'what ssh-agent offers'}: {error}.",
            f"Try: ssh {f'-i {machine.key} ' if machine.key else ''}-p {machine.port} {machine.user}@{machine.host} true",
        ) from error
    except (OSError, EOFError, paramiko.SSHException) as error:
        client.close()
        raise Problem(
            "machine-unreachable",
            f"{machine} cannot be reached through ssh: {error or type(error).__name__}.",
            f"Is sshd running there? Try: ssh -p {machine.port} {machine.user}@{machine.host} true",
        ) from error
    except Problem:
        client.close()
        raise
    transport = client.get_transport()
    assert transport is not None
    transport.set_keepalive(_KEEPALIVE_S)
    return client


def agent_command(machine: Machine, program: str) -> str:
    """The command line that runs a Python program on the machine, as root where the inventory says so."""
    command = f"exec {shlex.quote(machine.python)} -I -c {shlex.quote(program)}"
    if machine.sudo:
        command = command.replace("exec ", "exec sudo -n -- ", 1)
    return command


def own_address(client: paramiko.SSHClient) -> str:
    """The address of the controller that the connection comes from."""
    transport = client.get_transport()
    assert transport is not None
    sock: socket.socket = transport.sock
    return str(sock.getsockname()[0])


class _Refuse(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        del client, hostname
        machine = self._machine
        raise Problem(
            "host-key-unknown",
            f"{machine} is not in {machine.known_hosts}; it shows the key {_fingerprint(key)}.",
            f"If that is its key: ssh-keyscan -p {machine.port} {machine.host} >> {machine.known_hosts}",
        )


def _load_known_hosts(client: paramiko.SSHClient, machine: Machine) -> None:
    try:
        client.load_system_host_keys(str(machine.known_hosts))
    except OSError as error:
        raise Problem(
            "known-hosts-unreadable",
            f"The file of host keys {machine.known_hosts} cannot be read: {error.strerror}.",
            "Name another one in the inventory (known_hosts = …), "
            f"or make it: ssh-keyscan -p {machine.port} {machine.host} >> {machine.known_hosts}",
        ) from error


def _private_key(machine: Machine) -> paramiko.PKey | None:
    if machine.key is None:
        return None
    try:
        return paramiko.PKey.from_path(machine.key)
    except (paramiko.PasswordRequiredException, TypeError) as error:  # the latter from `cryptography` itself
        raise Problem(
            "key-unreadable",
            f"The key {machine.key} has a passphrase.",
            "Give it to ssh-agent (ssh-add), and leave `key` out of the inventory.",
        ) from error
    except (OSError, ValueError, paramiko.SSHException, paramiko.UnknownKeyType) as error:
        raise Problem(
            "key-unreadable", f"The key {machine.key} of {machine} cannot be read: {error}.", _NOT_DSA
        ) from error


def _fingerprint(key: paramiko.PKey) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def _name(machine: Machine) -> str:
    return machine.host if machine.port == 22 else f"[{machine.host}]:{machine.port}"
