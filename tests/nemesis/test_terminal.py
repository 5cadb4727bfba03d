"""Whatever the terminal can show, the command ends as it would have ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAYS = "from nemesis.cli.terminal import open_terminal\nopen_terminal()\nprint('one … many → few')\n"


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LANG": "xx_YY.ISO-8859-1"},
        {"PYTHONIOENCODING": "ascii"},
        {"NEMESIS_TERMINAL": "ISO-8859-1"},
    ],
    ids=lambda variables: "-".join(variables.values()),
)
def test_what_a_terminal_cannot_show_does_not_end_the_command(locale: dict[str, str]) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    ended = subprocess.run(
        [sys.executable, "-c", SAYS],
        env={**kept, "PYTHONPATH": str(ROOT), **locale},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    shown = ended.stdout.decode()
    assert shown in ("one … many → few\n", "one ? many ? few\n")
    assert ("?" in shown) == bool({"PYTHONIOENCODING", "NEMESIS_TERMINAL"} & locale.keys())
