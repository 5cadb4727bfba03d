"""kill -9 of `nemesis run` at random moments: what outlives it, what the next command removes, and what is made of the record.

    PYTHONPATH=. .venv/bin/python benchmarks/controller_kills.py --moments 10 [--seed 1] [--scenario chaos] [-- --candidate kafka]
    PYTHONPATH=. .venv/bin/python benchmarks/controller_kills.py --moments 10 --cleaned-first -- --cluster docker

Each moment is drawn between the start of the command and the end of its check, or, with --during-load, between the first operation and the
last. Prints a line a moment (when, in which phase, how long
the last process of the run lived on, what `nemesis clean` removed and what it left) and then what `nemesis check` says of all that was
recorded. Exits 1 when a process survived 10 s (counted from the end of the next command with --cleaned-first, for nodes that do not
end with their controller), something was left after the next command, or the check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.phases import last_phase

ROOT = Path(__file__).parents[1]
SURVIVAL_LIMIT_S = 10.0
CHECK_LIMIT_S = 600.0
LOAD_LIMIT_S = 180.0


@dataclass(frozen=True, slots=True)
class Killed:
    """One run whose controller was killed."""

    at_s: float
    phase: str
    folder: Path | None
    outlived_ms: float | None
    """how long the last process lived on; None: it still did after the limit"""
    cleaned: str
    left: str


def main() -> int:
    options = parse()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="nemesis-kills-") as state:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": state}
        killed = []
        for number in range(options.moments):
            at_s = draw.uniform(0.2, options.duration + (0.0 if options.during_load else options.around))
            killed.append(kill_at(at_s, options, number, environment))
            print(line(number, killed[-1]), flush=True)
        folders = [each.folder for each in killed if each.folder is not None]
        checked = check(folders, environment)
    wrong = [each for each in killed if each.outlived_ms is None or each.left != "nothing is left behind"]
    return int(bool(wrong) or not checked)


def kill_at(at_s: float, options: argparse.Namespace, number: int, environment: dict[str, str]) -> Killed:
    """Start a run, kill its controller, and see what is left."""
    store = options.store / f"{number}"
    command = [sys.executable, "-m", "nemesis", "run", options.scenario, "--store", str(store)]
    command += ["--duration", str(options.duration), "--seed", str(options.seed + number), *options.more]
    with tempfile.NamedTemporaryFile("w+") as output:
        started = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=output, start_new_session=True
        )
        if options.during_load:
            wait_for_load(Path(output.name), started)
        time.sleep(at_s)
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        cleaned = clean(environment) if options.cleaned_first else ""
        killed_at = time.monotonic()
        outlived_ms = wait_until_gone(store, started.pid, killed_at)
        output.seek(0)
        phase = last_phase(output.read()) or "before the first"
    cleaned = cleaned or clean(environment)
    left = clean(environment)
    folders = [manifest.parent for manifest in store.glob("*/*/run.json")]
    return Killed(at_s, phase, folders[0] if folders else None, outlived_ms, cleaned, left)


def wait_for_load(output: Path, run: subprocess.Popen[bytes]) -> None:
    """Return when the run tells of its load, when it ends, or when the time is over."""
    deadline = time.monotonic() + LOAD_LIMIT_S
    while last_phase(output.read_text()) != "load" and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


def wait_until_gone(store: Path, session: int, killed_at: float) -> float | None:
    """Milliseconds until no process names the store, works in it, or belongs to the controller's session or to Spark."""
    while time.monotonic() - killed_at < SURVIVAL_LIMIT_S:
        if not any(belongs(entry, store, session) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            return (time.monotonic() - killed_at) * 1000
        time.sleep(0.01)
    return None


def belongs(process: Path, store: Path, session: int) -> bool:
    try:
        if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        return str(store).encode() in told or os.getsid(int(process.name)) == session
    except OSError:
        return False


def clean(environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "nemesis", "clean"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.strip().replace("\n", "; ") or done.stderr.strip()[-200:]


def check(folders: list[Path], environment: dict[str, str]) -> bool:
    """Check all that was recorded in one pass; prints what each is."""
    command = [sys.executable, "-m", "nemesis", "check", *map(str, folders), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=CHECK_LIMIT_S, check=False)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        print(f"the check failed with status {done.returncode}: {done.stderr[-500:]}")
        return False
    for run in told.get("runs", [told]):
        print(f"{run['verdict']:8} {run['operations']} {run['run']}")
    return True


def line(number: int, killed: Killed) -> str:
    lived = "STILL ALIVE" if killed.outlived_ms is None else f"gone after {killed.outlived_ms:.0f} ms"
    return f"{number:3} killed at {killed.at_s:5.1f} s in {killed.phase}: {lived}; cleaned: {killed.cleaned}; then: {killed.left}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", default="chaos")
    parser.add_argument("--duration", type=float, default=8.0)
    parser.add_argument("--around", type=float, default=12.0, help="seconds of a run before and after its load")
    parser.add_argument("--during-load", action="store_true", help="draw moments of the load only")
    parser.add_argument(
        "--cleaned-first", action="store_true", help="nodes end with the next command, not by themselves"
    )
    parser.add_argument("--store", type=Path, default=Path("runs/controller-kills"))
    parser.add_argument("more", nargs="*", help="more options of `nemesis run`, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
