"""``nemesis doctor``: what this machine can do, one line a check, each with its remedy; with an inventory, what its machines can."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nemesis.exit_codes import ExitCode

if TYPE_CHECKING:
    from clusters.backends.backend import Place
    from nemesis.machine import Finding


def doctor(
    inventory: Annotated[
        Path | None, typer.Option(help="Try the machines that this TOML file lists instead (--cluster ssh).")
    ] = None,
    candidate: Annotated[
        Path | None,
        typer.Option(help="Try the program that this TOML file describes on one node instead.", metavar="FILE.toml"),
    ] = None,
    cluster: Annotated[str, typer.Option(help="Where --candidate is tried: local, docker or ssh.")] = "local",
    image: Annotated[str | None, typer.Option(help="docker: an image to use as it is.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Try what a run needs on this machine and say what is missing and how to mend it."""
    from nemesis.machine import examine, examine_inventory

    if candidate is not None:
        from clusters.backends.backend import Place

        return _try(candidate, cluster, Place(image=image, inventory=inventory), as_json=as_json)
    findings = examine() if inventory is None else examine_inventory(inventory)
    return _tell(findings, as_json=as_json)


def _try(file: Path, cluster: str, place: Place, *, as_json: bool) -> int:
    """Try a described program, telling each step as it ends."""
    from nemesis import scenario
    from nemesis.life.plan import RunOptions
    from nemesis.trial import try_candidate
    from workloads.problem import Problem

    if not str(file).endswith(".toml"):
        raise Problem(
            "candidate-not-described",
            f"{file} is no description: its name does not end in .toml.",
            "reference and kafka need no trial; `nemesis init candidate FILE.toml` begins a description.",
            usage=True,
        )
    seen: list[Finding] = []

    def say(finding: Finding) -> None:
        seen.append(finding)
        if not as_json:
            _print(finding, missing="failed ")
            sys.stdout.flush()

    options = RunOptions(
        scenario=scenario.load("none"),
        argv=(),
        seed=1,
        store=Path(),
        candidate=str(file),
        cluster=cluster,
        place=place,
    )
    well = try_candidate(options, say)
    if as_json:
        _print_json(seen)
    elif well:
        print(f"all steps went well; now: bin/nemesis run partition-leader --candidate {file}")
    return ExitCode.VALID if well else ExitCode.FRAMEWORK


def _tell(findings: list[Finding], *, as_json: bool) -> int:
    if as_json:
        _print_json(findings)
    else:
        for finding in findings:
            _print(finding)
    missing = [finding for finding in findings if finding.needed and not finding.ok]
    return ExitCode.FRAMEWORK if missing else ExitCode.VALID


def _print(finding: Finding, missing: str = "missing") -> None:
    mark = "ok     " if finding.ok else (missing if finding.needed else "absent ")
    print(f"{mark}  {finding.check}: {finding.detail}")
    if not finding.ok and finding.remedy:
        print(f"         {finding.remedy}")


def _print_json(findings: list[Finding]) -> None:
    rows = [{"check": f.check, "ok": f.ok, "detail": f.detail, "remedy": f.remedy} for f in findings]
    print(json.dumps({"schema_version": 1, "checks": rows}, indent=2))
