"""The one ``main()``: runs a command and turns whatever comes of it into an exit code.

A wrong option must not look like *unknown* (2) and a crash not like *invalid* (1), which is what a command-line library does
by default; so nothing but this function exits.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress

import typer
from typer.exceptions import TyperException

from nemesis.cli.check import check
from nemesis.cli.clean import clean
from nemesis.cli.doctor import doctor
from nemesis.cli.image import image_app
from nemesis.cli.init import init
from nemesis.cli.lists import list_all
from nemesis.cli.report import report
from nemesis.cli.rpcs import rpcs
from nemesis.cli.run import run
from nemesis.cli.suite import suite
from nemesis.cli.terminal import open_terminal
from nemesis.exit_codes import ExitCode
from workloads.problem import Problem

_HELP = """
Tests implementations of KRaft (Kafka's Raft): deploys one, drives it, breaks it, records everything, and judges whether
clients saw a linearizable object and whether the replicated log stayed safe.

    nemesis run partition-leader                                the embedded reference implementation

    nemesis run partition-leader --candidate kafka --version 4.1.2

    nemesis run partition-leader --defect no-check-quorum       see a red report

    nemesis run my-scenario.toml                                a scenario of your own: nemesis init scenario my-scenario.toml

    nemesis run partition-leader --candidate my-kraft.toml      a program of your own: nemesis init candidate my-kraft.toml

    nemesis suite network --candidate kafka:4.1.2               a group of scenarios, one summary

    nemesis list                                                scenarios, workloads, candidates, defects; faults: nemesis list faults

Exit codes: 0 valid, 1 invalid, 2 unknown, 130 stopped by Ctrl-C, 254 wrong arguments, 255 the framework failed.
"""

app = typer.Typer(
    name="nemesis",
    help=_HELP,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run)
app.command("suite")(suite)
app.command("check")(check)
app.command("report")(report)
app.command("rpcs")(rpcs)
app.command("list")(list_all)
app.command("init")(init)
app.command("doctor")(doctor)
app.command("clean")(clean)
app.add_typer(image_app)


def main() -> None:
    """Run the command line and leave with its exit code."""
    open_terminal()
    code = outcome(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Spark's and numba's threads have nothing left to do, and waiting for them could change the exit code.
    if (spark := sys.modules.get("checker.session")) is not None:
        with suppress(Exception):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # PySpark's threads would complain that Java has gone
            spark.abandon()
    os._exit(code)


def outcome(arguments: list[str]) -> int:
    """The exit code of one command line."""
    try:
        result = app(args=arguments, prog_name="nemesis", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except (typer.Abort, KeyboardInterrupt):
        print("nemesis: stopped", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except TyperException as error:
        show = getattr(error, "show", None)
        if show is not None:
            show()
        else:
            print(f"nemesis: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except Problem as problem:
        return _problem(problem, as_json="--json" in arguments)
    except Exception:
        traceback.print_exc()
        print("nemesis: the framework itself failed; this says nothing about the candidate.", file=sys.stderr)
        return ExitCode.FRAMEWORK
    return int(result) if isinstance(result, int) else ExitCode.VALID


def _problem(problem: Problem, *, as_json: bool) -> ExitCode:
    print(f"nemesis: {problem.what}", file=sys.stderr)
    if problem.remedy:
        print(f"         {problem.remedy}", file=sys.stderr)
    if as_json:
        error = {"slug": problem.slug, "what": problem.what, "remedy": problem.remedy}
        print(json.dumps({"schema_version": 1, "verdict": None, "error": error}))
    return ExitCode.USAGE if problem.usage else ExitCode.FRAMEWORK
