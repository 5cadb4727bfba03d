"""Libraries for preloading: compiled once, refused in words where they cannot be, and put into a launch."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from clusters.backends.shim import compile as compiling
from clusters.backends.shim.clock import ClockShim
from clusters.backends.shim.preload import control_file, with_shims
from clusters.cluster import HERE, Launch, NodeSpec, Site
from workloads.problem import Problem


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own; nothing is on the path and nothing can be installed."""
    monkeypatch.setenv("NEMESIS_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiling, "LOCK", tmp_path / "none.lock")
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda _: None)
    (tmp_path / "bin").mkdir()
    return tmp_path


def test_without_a_compiler_it_is_said_what_to_install(bare: Path) -> None:
    assert compiling.can_compile() == (False, "no C compiler", compiling._REMEDY)
    with pytest.raises(Problem, match="there is no C compiler") as refused:
        compiling.shim_library("clock")
    assert "apt-get install gcc" in refused.value.remedy


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing_behind(bare: Path) -> None:
    program = bare / "bin" / "cc"
    program.write_text("#!/bin/sh\necho 'clock.c:1: error: it is Monday' >&2\nexit 1\n")
    program.chmod(0o755)
    os.environ["PATH"] += ":/usr/bin:/bin"
    with pytest.raises(Problem, match="it is Monday"):
        compiling.shim_library("clock")
    assert not list((bare / "shims").iterdir())


def test_what_was_compiled_is_kept_for_this_source_and_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEMESIS_CACHE", str(tmp_path))
    said: list[str] = []
    first = compiling.shim_library("clock", said.append)
    assert said[-1].startswith("compiled the library clock")
    told = len(said)
    assert compiling.shim_library("clock", said.append) == first
    assert len(said) == told
    assert first.read_bytes().startswith(b"\x7fELF")
    assert b"GLIBC" not in first.read_bytes(), "it binds to no version of a C library"


def test_a_launch_gets_library_and_control_file_in_the_nodes_words(tmp_path: Path) -> None:
    node = NodeSpec("n1", 1, "voter", "10.77.0.1", 9093, tmp_path / "n1")
    shim = ClockShim(Path("/lib/clock.so"), lambda: 0, lambda _: 0)
    site = Site(moved=((tmp_path, PurePosixPath("/there")),), own=False)
    plain = Launch(("node",), {"LD_PRELOAD": "/lib/own.so"}, tmp_path, tmp_path / "1.log")
    assert with_shims(plain, [], node, 1, site) is plain
    launch = with_shims(plain, [shim], node, 1, site)
    assert launch.env == {"LD_PRELOAD": "/lib/clock.so:/lib/own.so", "NEMESIS_CLOCK": "/there/n1/shim/clock"}
    assert launch.needs == launch.writes == (control_file(node, "clock"),)


def test_a_library_whose_path_the_linker_would_take_apart_is_refused(tmp_path: Path) -> None:
    node = NodeSpec("n1", 1, "voter", "10.77.0.1", 9093, tmp_path / "n1")
    shim = ClockShim(Path("/home/a b/clock.so"), lambda: 0, lambda _: 0)
    with pytest.raises(Problem) as refused:
        with_shims(Launch(("node",), {}, tmp_path, tmp_path / "1.log"), [shim], node, 1, HERE)
    assert refused.value.slug == "preload-path"


def test_a_link_in_place_of_the_control_file_is_not_followed(tmp_path: Path) -> None:
    node = NodeSpec("n1", 1, "voter", "10.77.0.1", 9093, tmp_path / "n1")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    control_file(node, "clock").parent.mkdir(parents=True)
    control_file(node, "clock").symlink_to(precious)
    shim = ClockShim(Path("/lib/clock.so"), lambda: 0, lambda _: 0)
    with_shims(Launch(("node",), {}, tmp_path, tmp_path / "1.log"), [shim], node, 1, HERE)
    assert precious.read_text() == "mine"
    assert not control_file(node, "clock").is_symlink()
