"""What containers run in: an image made here from Debian's packages, or the user's own; and the tiny one of the holders.

No registry is asked. ``mmdebstrap`` makes a file system of Debian's packages with a Java runtime and Python, pip adds what the
reference imports, and the engine imports it. An image's tag is the digest of its recipe: the same recipe is built once.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from clusters.backends.docker.engine import engine_calls
from workloads.problem import Problem

Say = Callable[[str], None]

REPOSITORY = "nemesis/base"
_HOLDER_REPOSITORY = "nemesis/holder"
_RECIPE = 2
"""raise it when the way of building changes and the packages do not"""

_SUITE = "bookworm"
_PACKAGES = ("openjdk-17-jre-headless", "python3")
_PYTHON = "3.11"
_LIBRARIES = ("crc32c", "kio", "msgspec", "typing-extensions")
"""what the reference's server imports, from this project's lock file"""
_LIBRARY_PLACE = f"usr/local/lib/python{_PYTHON}/dist-packages"
_PROJECT = Path(__file__).resolve().parents[3]
_BUILD_TIMEOUT_S = 1200.0
_IMPORT_TIMEOUT_S = 600
_TOOL_TIMEOUT_S = 600.0
_EXPECTED = "about 70 MB to download, a minute or two"

_ELF_MACHINES = {
    "x86_64": (62, bytes.fromhex("b8220000000f05ebf7")),  # again: mov eax, 34 (pause); syscall; jmp again
    "aarch64": (
        183,  # again: mov x0..x4, 0; mov x8, 73 (ppoll); svc 0; b again
        bytes.fromhex("000080d2010080d2020080d2030080d2040080d2280980d2010000d4f9ffff17"),
    ),
}


def base_tag() -> str:
    """The name of this release's image, whether or not it has been built."""
    recipe = "\n".join((str(_RECIPE), _SUITE, *_PACKAGES, _PYTHON, platform.machine(), _requirements()))
    return f"{REPOSITORY}:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def image_id(client: Any, name: str) -> str | None:
    """The content id of an image that the engine has, None when it has none of that name."""
    with engine_calls(f"look for the image {name}"):
        try:
            return str(client.api.inspect_image(name)["Id"])
        except ImageNotFound:
            return None


def ensure_base(client: Any, say: Say) -> str:
    """Build this release's image unless the engine has it; returns its name. Raises Problem ``image-…``."""
    tag = base_tag()
    if image_id(client, tag) is None:
        build_base(client, say)
    return tag


def build_base(client: Any, say: Say) -> str:
    """Build this release's image from Debian's packages and import it; returns its name."""
    if os.geteuid() != 0:
        raise Problem(
            "image-needs-root",
            "An image of Debian's packages can be made by root only.",
            "Run `nemesis image build` as root, or name an image of your own with --image.",
        )
    tag, started = base_tag(), time.monotonic()
    mmdebstrap = _find_mmdebstrap(say)
    say(f"image {tag}: building from Debian {_SUITE}'s packages ({_EXPECTED})")
    with tempfile.TemporaryDirectory(prefix="nemesis-image-") as scratch:
        work = Path(scratch)
        _fetch_libraries(work / "libraries")
        archive = work / "image.tar"
        _debootstrap(mmdebstrap, work / "libraries", archive, say)
        size_mb = archive.stat().st_size / 1e6
        say(f"image {tag}: {size_mb:.0f} MB after {time.monotonic() - started:.0f} s, handing it to the engine")
        with engine_calls("import the image"), archive.open("rb") as data:
            client.api.import_image_from_data(data, repository=REPOSITORY, tag=tag.partition(":")[2])
    if image_id(client, tag) is None:
        raise Problem("image-not-imported", f"The engine took the image {tag} and does not have it.")
    say(f"image {tag}: ready, {size_mb:.0f} MB, {time.monotonic() - started:.0f} s in all")
    return tag


def ensure_holder(client: Any) -> str:
    """The image of the holders: one static program of a hundred bytes that waits for ever. Returns its name."""
    machine, code = _elf_machine()
    program = _static_program(machine, code)
    tag = hashlib.sha256(program).hexdigest()[:12]
    name = f"{_HOLDER_REPOSITORY}:{tag}"
    if image_id(client, name) is not None:
        return name
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("hold")
        entry.size, entry.mode = len(program), 0o755
        archive.addfile(entry, io.BytesIO(program))
    with engine_calls("import the image of the holders"):
        client.api.import_image_from_data(packed.getvalue(), repository=_HOLDER_REPOSITORY, tag=tag)
    return name


def _elf_machine() -> tuple[int, bytes]:
    found = _ELF_MACHINES.get(platform.machine())
    if found is None:
        raise Problem(
            "machine-unknown",
            f"Holders of network namespaces are made for {', '.join(_ELF_MACHINES)}, not for {platform.machine()}.",
            "Use --cluster local.",
        )
    return found


def _static_program(machine: int, code: bytes) -> bytes:
    """An ELF file (System V ABI, 64 bits, little-endian) that is one loadable segment with ``code`` as its entry."""
    base, headers = 0x40_0000, 64 + 56
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, machine, 1, base + headers, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = headers + len(code)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return header + segment + code


def _requirements() -> str:
    """The lines of the lock file for :data:`_LIBRARIES`, with their checksums."""
    lock = (_PROJECT / "requirements.lock").read_text()
    blocks = re.findall(r"(?m)^[A-Za-z0-9_.-]+==\S+(?: *\\\n +--hash=\S+)+", lock)
    wanted = {block.partition("==")[0].lower().replace("_", "-"): block for block in blocks}
    missing = [name for name in _LIBRARIES if name not in wanted]
    if missing:
        raise Problem("lock-incomplete", f"requirements.lock does not name {', '.join(missing)}.")
    return "\n".join(wanted[name] for name in _LIBRARIES) + "\n"


def _fetch_libraries(target: Path) -> None:
    """Unpack the libraries for the image's Python, whatever Python runs this."""
    pins = target.with_name("pins.txt")
    pins.write_text(_requirements())
    machine = platform.machine()
    platforms = [f"--platform={kind}_{machine}" for kind in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--implementation=cp", f"--python-version={_PYTHON}"]
    command += [*platforms, "--no-compile", f"--target={target}", "-r", str(pins)]
    _run(command, "fetching the reference's libraries for the image")


def _debootstrap(mmdebstrap: str, libraries: Path, archive: Path, say: Say) -> None:
    command = [mmdebstrap, "--mode=root", "--variant=essential", f"--include={','.join(_PACKAGES)}"]
    # Nobody needs what a power cut would leave of a half-built image.
    command += ["--dpkgopt=force-unsafe-io", '--aptopt=Apt::Install-Recommends "false"']
    command += [f"--dpkgopt=path-exclude=/usr/share/{kind}/*" for kind in ("doc", "locale", "man")]
    # The Java packages register manual pages with update-alternatives, which fails without the directory.
    command += ['--setup-hook=mkdir -p "$1/usr/share/man/man1"']
    command += [f'--customize-hook=mkdir -p "$1/{_LIBRARY_PLACE}" && cp -r "{libraries}/." "$1/{_LIBRARY_PLACE}/"']
    command += [f'--customize-hook=chroot "$1" python3 -m compileall -q "/{_LIBRARY_PLACE}"']
    mirror = _mirror()
    command += [_SUITE, str(archive), *([mirror] if mirror else [])]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        timer = threading.Timer(_BUILD_TIMEOUT_S, process.kill)
        timer.start()
        try:
            lines = _follow(process, say)
        finally:
            timer.cancel()
    if process.returncode != 0:
        raise Problem(
            "image-not-built",
            f"mmdebstrap ended with {process.returncode}: {' '.join(lines[-4:])[:600]}",
            f"Check that {mirror or 'an archive of Debian packages'} can be reached and {tempfile.gettempdir()} has 2 GB left.",
        )


def _follow(process: subprocess.Popen[str], say: Say) -> list[str]:
    """Tell the steps of mmdebstrap as it takes them; returns its last lines."""
    assert process.stderr is not None
    started = time.monotonic()
    lines: list[str] = []
    for line in process.stderr:
        text = line.strip()
        lines = [*lines[-20:], text]
        if text.startswith("I: ") and text.endswith("..."):
            say(f"image: {text.removeprefix('I: ').rstrip('.')} ({time.monotonic() - started:.0f} s)")
    return lines


def _mirror() -> str | None:
    """The archive that this machine's own apt takes the suite from; None, mmdebstrap's choice, where it is no such Debian."""
    ask = [
        "apt-get",
        "indextargets",
        "--format",
        "$(CODENAME) $(COMPONENT) $(LABEL) $(REPO_URI)",
        "Created-By: Packages",
    ]
    try:
        told = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = [line.split() for line in told.splitlines()]
    return next((words[3] for words in found if words[:3] == [_SUITE, "main", "Debian"]), None)


def _find_mmdebstrap(say: Say) -> str:
    found = shutil.which("mmdebstrap")
    if found:
        return found
    if shutil.which("apt-get"):
        say("mmdebstrap is missing: installing Debian's package (about 20 MB)")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "mmdebstrap", "debian-archive-keyring"]
        for command in (["apt-get", "update", "-q"], install):
            try:
                subprocess.run(command, env=environment, capture_output=True, timeout=_TOOL_TIMEOUT_S, check=False)
            except (OSError, subprocess.TimeoutExpired):
                break
        found = shutil.which("mmdebstrap")
        if found:
            return found
    raise Problem(
        "mmdebstrap-missing",
        "The image is made with mmdebstrap, which is not installed.",
        "Install it (apt-get install mmdebstrap debian-archive-keyring), or name an image of your own with --image.",
    )


def _run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Problem("image-not-built", f"{what} failed: {error}.") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Problem("image-not-built", f"{what} failed: {' '.join(lines[-3:])[:600]}")
