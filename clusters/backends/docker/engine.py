"""Reaching the docker engine of this machine, and saying what is wrong when it cannot be used."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import docker
import requests
from docker.errors import APIError, DockerException, InvalidVersion

from workloads.problem import Problem

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
OLDEST = (20, 10)
"""the engine of Debian 11 and 12; older ones are not tried"""

_CALL_TIMEOUT_S = 60
_CONNECTIONS = 64
"""each running node keeps one open, for its output"""
_START_REMEDY = (
    "Start it: `systemctl start docker`, or `dockerd` as root. On Debian it comes with `apt-get install docker.io`."
)


def engine_address() -> str:
    """``DOCKER_HOST``, by default the socket of the system's engine. Raises Problem ``engine-not-local``."""
    address = os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS
    if urlsplit(address).scheme != "unix":
        raise Problem(
            "engine-not-local",
            f"DOCKER_HOST names the engine {address}, which is not a socket of this machine.",
            "Links are cut in the network namespaces of containers, so the engine must be here: unset DOCKER_HOST.",
        )
    return address


def connect(address: str | None = None) -> Any:
    """A client of the engine (``docker.DockerClient``), whose version and kind have been checked.

    Raises Problem ``engine-absent``, ``engine-not-permitted``, ``engine-not-running``, ``engine-too-old``, ``engine-not-local``.
    """
    address = address or engine_address()
    _check_socket(address)
    try:
        client = docker.DockerClient(
            base_url=address, version="auto", timeout=_CALL_TIMEOUT_S, max_pool_size=_CONNECTIONS
        )
        version, about = client.version(), client.info()
    except InvalidVersion as error:
        raise _too_old(_short(error)) from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise Problem(
            "engine-not-running", f"The docker engine at {address} does not answer: {_short(error)}.", _START_REMEDY
        ) from error
    _check_version(str(version.get("Version", "")))
    if about.get("OSType") != "linux" or "name=rootless" in (about.get("SecurityOptions") or []):
        client.close()
        raise Problem(
            "engine-not-local",
            "Links cannot be cut in containers of a rootless engine or of one in a virtual machine.",
            "Use the system's own engine (DOCKER_HOST=unix:///var/run/docker.sock), or --cluster local.",
        )
    return client


def check_privileges() -> None:
    """Raises Problem ``docker-needs-root``: only root may enter the network namespaces of containers."""
    if os.geteuid() != 0:
        raise Problem(
            "docker-needs-root",
            "Links of containers are cut in their network namespaces, which only root may enter.",
            "Run this command as root (`sudo bin/nemesis …`), or use --cluster local, which needs no root.",
        )


@contextlib.contextmanager
def engine_calls(what: str) -> Iterator[None]:
    """Turn errors of engine calls made inside into a Problem ``engine-refused`` that says what was tried."""
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        raise Problem(
            "engine-refused",
            f"The docker engine refused to {what}: {_short(error)}.",
            "See the engine's own log (`journalctl -u docker`); `nemesis doctor` tries it step by step.",
        ) from error


def reason(error: APIError) -> str:
    """What the engine said, in one line."""
    return _short(error)


def _check_socket(address: str) -> None:
    path = urlsplit(address).path
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise Problem("engine-absent", f"There is no docker engine at {path}.", _START_REMEDY) from None
    except PermissionError:
        mode = stat.S_IFSOCK
    if not stat.S_ISSOCK(mode):
        raise Problem("engine-absent", f"{path} is no socket of a docker engine.", _START_REMEDY)
    if not os.access(path, os.R_OK | os.W_OK):
        raise Problem(
            "engine-not-permitted",
            f"This user may not use the docker engine at {path}.",
            "Run as root, or join the group that owns the socket (`usermod -aG docker $USER`) and log in again.",
        )


def _check_version(version: str) -> None:
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or (int(match.group(1)), int(match.group(2))) < OLDEST:
        raise _too_old(f"it is version {version or 'unknown'}")


def _too_old(why: str) -> Problem:
    return Problem(
        "engine-too-old",
        f"The docker engine is too old: {why}.",
        f"Install {OLDEST[0]}.{OLDEST[1]} or newer; Debian 12 has it: `apt-get install docker.io`.",
    )


def _short(error: Exception) -> str:
    text = str(getattr(error, "explanation", None) or error)
    return " ".join(text.split())[:400]
