"""The launchers' set-up, driven by commands that only pretend: what is installed is said first, and what cannot be is an error."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = (
    "sh",
    "cmp",
    "mkdir",
    "basename",
    "dirname",
    "readlink",
    "grep",
    "sed",
    "tail",
    "rm",
    "cp",
    "du",
    "cut",
    "date",
    "mktemp",
    "id",
)
APT = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in *--assume-no*)
    echo 'Need to get 52.9 MB of archives.'
    echo 'After this operation, 216 MB of additional disk space will be used.'
esac
"""
NO_ROOT = "#!/bin/sh\necho 1000\n"
JAVA = """#!/bin/sh
echo '    java.specification.version = {version}' >&2
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A clone, and a path with nothing on it but what every Debian has."""
    clone, commands = tmp_path / "a clone", tmp_path / "commands"
    clone.mkdir()
    commands.mkdir()
    shutil.copytree(ROOT / "bin", clone / "bin")
    for name in ("requirements.lock", "requirements-java.lock"):
        shutil.copy(ROOT / name, clone)
    for name in TOOLS:
        (commands / name).symlink_to(str(shutil.which(name)))
    return tmp_path


def pretend(machine: Path, name: str, text: str) -> None:
    path = machine / "commands" / name
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def sh(machine: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script after ``setup.sh`` was read."""
    environment = {"PATH": str(machine / "commands"), "CALLS": str(machine / "calls"), **variables}
    return subprocess.run(
        ["/bin/sh", "-uc", f'root=$1; . "$root/bin/setup.sh"; {script}', "sh", str(machine / "a clone")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_debians_packages_are_said_with_their_sizes_before_and_their_time_after(machine: Path) -> None:
    pretend(machine, "apt-get", APT)
    pretend(machine, "id", "#!/bin/sh\necho 0\n")
    pretend(machine, "env", f'#!/bin/sh\nexec {shutil.which("env")} "$@"\n')
    done = sh(machine, "debian_install openjdk-17-jre-headless && debian_install chromium")
    assert done.returncode == 0, done.stderr
    first, second = done.stderr.splitlines()[:2]
    assert (
        first
        == "nemesis: installing from Debian's packages: openjdk-17-jre-headless (52.9 MB to fetch, 216 MB on disk)"
    )
    assert second.startswith("nemesis: installed openjdk-17-jre-headless in ")
    calls = (machine / "calls").read_text().splitlines()
    assert calls.count("update") == 1
    assert sum("install -y" in call for call in calls) == 2


def test_an_ordinary_user_without_python_is_told_what_to_install(machine: Path) -> None:
    pretend(machine, "id", NO_ROOT)
    done = sh(machine, 'ensure_venv "$root/requirements.lock"')
    assert done.returncode == 255
    assert "apt-get install python3 python3-venv" in done.stderr


def test_a_java_that_is_too_old_is_passed_over_and_a_named_one_refused(machine: Path) -> None:
    for name, version in (("old", "11"), ("new", "21")):
        home = machine / name / "bin"
        home.mkdir(parents=True)
        (home / "java").write_text(JAVA.format(version=version))
        (home / "java").chmod(0o755)
    old, new = str(machine / "old"), str(machine / "new")
    (machine / "a clone" / ".venv").mkdir()
    (machine / "commands" / "java").symlink_to(machine / "old" / "bin" / "java")

    found = sh(machine, 'ensure_java; echo "$NEMESIS_JAVA_HOME"', JAVA_HOME=new)
    assert found.stdout == f"{new}\n", found.stderr
    again = sh(machine, 'ensure_java; echo "$NEMESIS_JAVA_HOME"')
    assert (again.stdout, again.stderr) == (f"{new}\n", "")
    refused = sh(machine, "ensure_java", NEMESIS_JAVA_HOME=old)
    assert refused.returncode == 255
    assert "has no Java 17 or newer" in refused.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_clone_that_is_not_ours_says_where_else_packages_can_go(machine: Path) -> None:
    (machine / "a clone").chmod(0o555)
    done = sh(machine, 'ensure_venv "$root/requirements.lock"')
    assert done.returncode == 255
    assert "NEMESIS_VENV" in done.stderr


def test_nothing_is_said_or_done_when_all_is_there(machine: Path) -> None:
    venv = machine / "a clone" / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    (venv / "bin" / "python").chmod(0o755)
    shutil.copy(ROOT / "requirements.lock", venv)
    done = sh(machine, 'ensure_venv "$root/requirements.lock"')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("charset", "handed_on"), [("ISO-8859-1", "ISO-8859-1"), ("ANSI_X3.4-1968", "none"), ("UTF-8", "none")]
)
def test_files_are_utf_8_whatever_the_terminal_is(machine: Path, charset: str, handed_on: str) -> None:
    pretend(machine, "locale", f"#!/bin/sh\necho {charset}\n")
    done = sh(machine, 'echo "$PYTHONUTF8 ${LC_ALL:-as it was} ${NEMESIS_TERMINAL:-none}"')
    locale = "as it was" if charset == "UTF-8" else "C.UTF-8"
    assert done.stdout == f"1 {locale} {handed_on}\n"
