"""An engine that cannot be used is told with what mends it, before anything is made; leftovers are found by label alone."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from clusters.backends import leftovers
from clusters.backends.backend import Place
from clusters.backends.docker import backend, image
from clusters.backends.docker.doctor import doctor
from clusters.backends.docker.engine import connect, engine_address
from tests.clusters.conformance.grounds import docker
from tests.clusters.conformance.lab import Lab
from workloads.problem import Problem

PROJECT = Path(__file__).resolve().parents[3]
NOBODY = 65534


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Engines that answer what a test says: version, API version, what they tell of themselves."""
    servers: list[socketserver.UnixStreamServer] = []

    def make(version: str, api: str = "1.41", **about: Any) -> str:
        path = tmp_path / f"engine{len(servers)}.sock"

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                told = {"Version": version, "ApiVersion": api} if self.path.endswith("/version") else about
                body = json.dumps(told).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self) -> str:
                return "test"

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"unix://{path}"

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def refusal(address: str) -> Problem:
    with pytest.raises(Problem) as caught:
        connect(address)
    assert caught.value.remedy
    return caught.value


def test_an_engine_that_is_old_enough_to_be_unknown_is_refused(engine: Callable[..., str]) -> None:
    assert refusal(engine("19.03.15", "1.40", OSType="linux")).slug == "engine-too-old"
    assert refusal(engine("1.13.1", "1.12", OSType="linux")).slug == "engine-too-old"
    assert refusal(engine("library-import", OSType="linux")).slug == "engine-too-old"
    connect(engine("20.10.24+dfsg1", OSType="linux", SecurityOptions=["name=seccomp"])).close()


def test_engines_whose_containers_cannot_be_entered_are_refused(engine: Callable[..., str]) -> None:
    assert refusal(engine("24.0.7", "1.43", OSType="windows")).slug == "engine-not-local"
    assert (
        refusal(engine("24.0.7", "1.43", OSType="linux", SecurityOptions=["name=rootless"])).slug == "engine-not-local"
    )


def test_no_engine_none_that_answers_and_no_engine_at_all(tmp_path: Path, engine: Callable[..., str]) -> None:
    problem = refusal(f"unix://{tmp_path}/none.sock")
    assert (problem.slug, "apt-get install docker.io" in problem.remedy) == ("engine-absent", True)
    (tmp_path / "file").write_text("")
    assert refusal(f"unix://{tmp_path}/file").slug == "engine-absent"
    with socketserver.UnixStreamServer(str(tmp_path / "left.sock"), BaseHTTPRequestHandler):
        pass
    assert refusal(f"unix://{tmp_path}/left.sock").slug == "engine-not-running"


def test_an_engine_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(Problem) as caught:
        engine_address()
    assert caught.value.slug == "engine-not-local"
    monkeypatch.delenv("DOCKER_HOST")
    assert engine_address() == "unix:///var/run/docker.sock"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_users_are_told_that_they_lack_the_group_and_that_links_need_root(tmp_path: Path) -> None:
    program = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from workloads.problem import Problem
from clusters.backends.docker.engine import _check_socket, check_privileges
for check in (lambda: _check_socket("unix://" + sys.argv[1]), check_privileges):
    try:
        check()
    except Problem as problem:
        print(problem.slug, bool(problem.remedy))
"""
    path = Path(f"/tmp/nemesis-{uuid.uuid4().hex}.sock")
    with socketserver.UnixStreamServer(str(path), BaseHTTPRequestHandler):
        path.chmod(0o660)
        ran = subprocess.run(
            [
                sys.executable,
                "-c",
                "import docker, requests, workloads.problem, clusters.backends.docker.engine\n" + program,
                str(path),
            ],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    path.unlink()
    assert ran.stdout.splitlines() == ["engine-not-permitted True", "docker-needs-root True"], ran.stderr


def test_the_recipe_names_the_image_and_holds_what_the_reference_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = image.base_tag()
    assert tag == image.base_tag()
    assert tag.startswith("nemesis/base:")
    pins = image._requirements()
    assert [line.partition("==")[0] for line in pins.splitlines() if "==" in line] == list(image._LIBRARIES)
    assert pins.count("--hash=sha256:") >= len(image._LIBRARIES)
    monkeypatch.setattr(image, "_PACKAGES", ("openjdk-17-jre-headless", "python3", "hello"))
    assert image.base_tag() != tag


@pytest.fixture
def ready(tmp_path: Path) -> Iterator[None]:
    with docker(tmp_path):
        yield


@pytest.mark.docker
@pytest.mark.usefixtures("ready")
def test_an_image_that_the_engine_lacks_is_a_usage_error_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        backend.plan(tmp_path, 3, 0, Place(image="nobody/has:this"))
    assert (caught.value.slug, caught.value.usage) == ("image-unknown", True)


@pytest.mark.docker
@pytest.mark.usefixtures("ready")
def test_the_doctor_finds_everything_and_leaves_nothing(tmp_path: Path) -> None:
    findings = doctor(tmp_path / "ledger")
    assert [(finding.name, finding.ok) for finding in findings] == [
        (name, True)
        for name in (
            "docker engine",
            "containers",
            "one-way cuts of containers",
            "node in a container",
            "removal of containers",
            "image",
        )
    ]
    assert list((tmp_path / "ledger").iterdir()) == []


@pytest.mark.docker
def test_the_doctor_tells_the_first_obstacle_and_does_not_try_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    first, *others = doctor()
    assert not first.ok
    assert first.remedy
    assert {(finding.ok, finding.detail) for finding in others} == {(False, "Not tried.")}


@pytest.mark.docker
@pytest.mark.sweeps
def test_what_a_dead_controller_left_is_found_without_its_ledger_and_a_living_ones_is_not(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from clusters.backends.backend import Place
from clusters.backends.docker import backend
run = Path(sys.argv[1])
nodes = backend.plan(run, 1, 0, Place()).nodes
nodes[0].directory.mkdir(parents=True)
cluster = backend.make(nodes, Place(), run / "ledger")
cluster.up()
print(cluster.lab, flush=True)
import os
os.kill(os.getpid(), 9)
"""
    with docker(tmp_path) as ground:
        ran = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "dead")],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        dead = ran.stdout.strip()
        assert dead, ran.stderr
        living = Lab(ground, tmp_path / "run", 1, tmp_path / "ledger")
        try:
            living.cluster.up(print)
            strays = backend.strays()
            assert strays[dead] == str(tmp_path / "dead")
            assert str(living.run) not in strays.values()
            left = {each.lab: each for each in leftovers.sweep(tmp_path / "lost", thorough=True)}
            assert left[dead].problem is None
            assert any("network" in what for what in left[dead].remains)
            assert dead not in backend.strays()
            assert living.cluster.probe([]) == {}
            assert not living.cluster.alive("n1")
        finally:
            living.cluster.down()
