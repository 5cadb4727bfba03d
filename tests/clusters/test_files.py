"""Evidence is copied faithfully or not at all: no way out of a disk, no limit passed, holes kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusters.backends.files import Limits, check_regular, copy_matching, move_aside
from workloads.problem import Problem


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    (tmp_path / "disk" / "log" / "deep").mkdir(parents=True)
    for name in ("meta", "log/1.log", "log/deep/2.log"):
        (tmp_path / "disk" / name).write_text(name)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "1.log").write_text("not theirs")
    return tmp_path / "disk"


def copied(target: Path) -> set[str]:
    return {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}


def refusal(disk: Path, target: Path, *patterns: str) -> str:
    with pytest.raises(Problem) as caught:
        copy_matching(disk, patterns, target)
    return caught.value.slug


def test_a_star_stands_for_part_of_one_name(disk: Path, tmp_path: Path) -> None:
    copy_matching(disk, ("*eta", "log/*.log", "*/deep/2.log"), tmp_path / "copy")
    assert copied(tmp_path / "copy") == {"meta", "log/1.log", "log/deep/2.log"}
    copy_matching(disk, ("*.log", "absent/x"), tmp_path / "none")
    assert copied(tmp_path / "none") == set()


def test_a_disk_that_is_gone_leaves_nothing_to_copy(tmp_path: Path) -> None:
    copy_matching(tmp_path / "gone", ("meta",), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_links_are_followed_nowhere(disk: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    (disk / "file.log").symlink_to(tmp_path / "secret" / "1.log")
    assert refusal(disk, target, "*.log") == "evidence-foreign"
    (disk / "directory").symlink_to(tmp_path / "secret")
    assert refusal(disk, target, "directory/*.log") == "evidence-foreign"
    (tmp_path / "linked").symlink_to(tmp_path / "secret")
    assert refusal(tmp_path / "linked", target, "*.log") == "evidence-foreign"
    assert copied(target) == set()


def test_what_is_no_file_is_refused_and_not_waited_for(disk: Path, tmp_path: Path) -> None:
    os.mkfifo(disk / "queue")
    assert refusal(disk, tmp_path / "copy", "queue") == "evidence-foreign"
    assert refusal(disk, tmp_path / "copy", "log") == "evidence-foreign"
    with pytest.raises(Problem, match="no regular file"):
        check_regular(disk / "queue")
    check_regular(disk / "meta")
    check_regular(disk / "absent")


def test_holes_stay_holes_and_do_not_count(disk: Path, tmp_path: Path) -> None:
    with (disk / "index").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 29)
        file.write(b"entry")
    copy_matching(disk, ("index",), tmp_path / "copy", Limits(size_bytes=1 << 20))
    copy = tmp_path / "copy" / "index"
    assert copy.stat().st_size == 1 << 30
    assert copy.stat().st_blocks * 512 < 1 << 20
    with copy.open("rb") as file:
        file.seek(1 << 29)
        assert file.read(6) == b"entry\0"


@pytest.mark.parametrize("limits", [Limits(size_bytes=1 << 16), Limits(files=1)])
def test_more_than_the_limit_is_no_evidence(disk: Path, tmp_path: Path, limits: Limits) -> None:
    (disk / "big").write_bytes(bytes(range(256)) * 512)
    with pytest.raises(Problem) as caught:
        copy_matching(disk, ("meta", "big"), tmp_path / "copy", limits)
    assert caught.value.slug == "evidence-too-large"


def test_a_disk_is_moved_aside_once(disk: Path) -> None:
    move_aside(disk.parent, "disk", "disk.wiped-0")
    assert (disk.parent / "disk.wiped-0" / "meta").is_file()
    disk.mkdir()
    with pytest.raises(Problem) as caught:
        move_aside(disk.parent, "disk", "disk.wiped-0")
    assert caught.value.slug == "disk-not-moved"
    assert disk.is_dir()
