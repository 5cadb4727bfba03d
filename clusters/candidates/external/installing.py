"""Makes what a description's program consists of, and finds it: the install command, and the artifacts with their checksums."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clusters.cache import cache_directory, make_directory
from clusters.candidates.external.description import Artifact, Description, Install
from clusters.candidates.external.placeholders import found, render
from workloads.problem import Problem

Say = Callable[[str], None]

_TAIL_LINES = 12
_LISTED_FILES = 300
"""of one artifact; of more files there is one checksum over all"""


def built_directory(description: Description) -> Path:
    """Where the result of ``[install] once = true`` is kept: another one for every change of that section."""
    install = description.install
    told = "" if install is None else json.dumps([install.command, dict(install.files)])
    if any(name == "here" for _, name, _ in found(told)):
        told += str(description.home)
    identity = hashlib.sha256(told.encode()).hexdigest()[:12]
    return cache_directory() / "candidates" / f"{description.name}-{description.version}-{identity}"


def controller_values(description: Description, built: Path | None = None) -> dict[str, Callable[[], str]]:
    """What placeholders mean that are used on the controller only."""
    return {
        "here": lambda: str(description.home),
        "built": lambda: str(built or built_directory(description)),
    }


def run_install(description: Description, say: Say) -> None:
    """Run the install command, where there is one and its result is not kept. Raises Problem ``install-failed``."""
    install = description.install
    if install is None:
        return
    if not install.once:
        _install_into(description, install, description.home, None, say)
        return
    kept = built_directory(description)
    if kept.is_dir():
        return
    make_directory(kept.parent)
    with tempfile.TemporaryDirectory(prefix=".install-", dir=kept.parent) as scratch:
        work = Path(scratch) / "built"
        work.mkdir()
        for name, text in install.files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render(text, controller_values(description, work)), encoding="utf-8")
        _install_into(description, install, work, work, say)
        try:
            work.rename(kept)
        except OSError:
            if not kept.is_dir():  # else another process was faster, which is as good
                raise


def _install_into(description: Description, install: Install, directory: Path, built: Path | None, say: Say) -> None:
    values = controller_values(description, built)
    command = [render(word, values) for word in install.command]
    say(f"{description.name} {description.version}: {' '.join(command)}")
    began = time.monotonic()
    run_command(
        command,
        directory,
        install.patience_s,
        slug="install-failed",
        what=f"The [install] command of {description.source}",
    )
    say(f"{description.name} {description.version}: installed in {time.monotonic() - began:.1f} s")


def run_command(command: Sequence[str], directory: Path, patience_s: float, *, slug: str, what: str) -> str:
    """Run a command of a description on the controller and return what it printed. Raises Problem ``slug`` with its last lines."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=patience_s,
            check=False,
        )
    except OSError as error:
        raise Problem(
            slug,
            f"{what} cannot be run: {command[0]}: {error.strerror}.",
            "A name without a slash is looked for in PATH; a path is relative to the file: write {{here}}/… or {{artifact.NAME}}.",
        ) from None
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else (late.stdout or "")
        raise Problem(
            slug, f"{what} did not end within {patience_s:g} s.{last_lines(said)}", "Raise its patience_s."
        ) from None
    if done.returncode != 0:
        raise Problem(
            slug,
            f"{what} ended with status {done.returncode}: {' '.join(command)}{last_lines(done.stdout)}",
            "Run it by hand until it ends well.",
        )
    return done.stdout


def last_lines(said: str, count: int = _TAIL_LINES) -> str:
    """The end of an output, each line on a line of its own; says so when there is none."""
    lines = [line.rstrip()[:300] for line in said.splitlines() if line.strip()][-count:]
    if not lines:
        return "\n           (it printed nothing)"
    return "".join(f"\n           | {line}" for line in lines)


def find_artifacts(description: Description) -> dict[str, Path]:
    """Name → path of what nodes get. Raises Problem ``artifact-missing`` and ``artifact-differs``."""
    values = controller_values(description)
    return {artifact.name: _find(description, artifact, values) for artifact in description.artifacts}


def _find(description: Description, artifact: Artifact, values: Mapping[str, Callable[[], str]]) -> Path:
    path = Path(os.path.abspath(description.home / render(artifact.path, values)))
    if not path.exists():
        near = path.parent if path.parent.is_dir() else next(each for each in path.parents if each.is_dir())
        names = sorted(each.name for each in near.iterdir() if not each.name.startswith("."))
        missing = path.relative_to(near).parts[0]
        alike = difflib.get_close_matches(missing, names, n=1)
        there = f"{alike[0]}: is it that" if alike else ", ".join(names[:8]) or "nothing"
        how = "Does its [install] command make it?" if description.install else "Build it first, or say how: [install]."
        raise Problem(
            "artifact-missing",
            f"{description.source} names the artifact {artifact.name} = {artifact.path!r}, and {path} is not there. "
            f"{near} holds {there}{'?' if alike else '.'}",
            f"Paths begin at the directory of the file. {how}",
        )
    if artifact.sha256 is not None:
        seen = _sha256(path) if path.is_file() else "a directory, which has none"
        if seen != artifact.sha256:
            raise Problem(
                "artifact-differs",
                f"The artifact {artifact.name} ({path}) has the SHA-256 {seen}, and {description.source} says {artifact.sha256}.",
                "Find out which of them is right before anything is run.",
            )
    return path


def checksums(artifacts: Mapping[str, Path]) -> dict[str, str]:
    """What was run: artifact, or file of an artifact, → SHA-256."""
    told: dict[str, str] = {}
    for name, path in artifacts.items():
        if path.is_file():
            told[f"{name}: {path.name}"] = _sha256(path)
            continue
        files = {
            file.relative_to(path).as_posix(): _sha256(file)
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.parent.name != "__pycache__"
        }
        if len(files) > _LISTED_FILES:
            told[f"{name}: {len(files)} files"] = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
        else:
            told |= {f"{name}/{file}": checksum for file, checksum in files.items()}
    return told


def find_program(word: str, artifacts: Mapping[str, Path], source: str) -> None:
    """Raises Problem ``program-not-found`` or ``program-not-executable`` where this machine cannot start what ``word`` names."""
    if shutil.which(word) is not None:
        return
    path = Path(word)
    if path.is_file():
        raise Problem(
            "program-not-executable",
            f"The [start] command of {source} begins with {word}, which may not be executed.",
            f"chmod +x {word}; or begin with the interpreter: {{{{java}}}}, {{{{python}}}}, bash.",
        )
    have = ", ".join(f"{{{{artifact.{name}}}}}" for name in artifacts) or "none"
    what = "is a directory" if path.is_dir() else ("is not there" if "/" in word else "is not in PATH")
    raise Problem(
        "program-not-found",
        f"The [start] command of {source} begins with {word!r}, which {what}.",
        f"Name the program by its artifact ({have}), or by a name in PATH.",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
