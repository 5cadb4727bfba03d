"""``nemesis suite``: a group of scenarios on one or several candidates, one summary."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer


def suite(  # noqa: PLR0917 - the options of a command line are its parameters
    name: Annotated[
        str | None,
        typer.Argument(
            help="A group (network, process, disk, …), all, a scenario, or a TOML file with scenarios = [...], candidates = [...]."
        ),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME[:VERSION[:QUORUM]] or FILE.toml, e.g. reference, kafka:4.1.2, kafka:3.9.2:static. Repeatable."
        ),
    ] = None,
    to_version: Annotated[
        str | None,
        typer.Option(help="Release that scenarios such as rolling-upgrade start nodes under, e.g. 4.3.1."),
    ] = None,
    cluster: Annotated[str, typer.Option(help="Where nodes run: local, docker or ssh.")] = "local",
    image: Annotated[str | None, typer.Option(help="docker: an image to use as it is.")] = None,
    inventory: Annotated[Path | None, typer.Option(help="ssh: the TOML file that lists the machines.")] = None,
    duration: Annotated[float, typer.Option(help="Seconds of load of each run.")] = 20.0,
    observers: Annotated[
        int | None, typer.Option(help="Nodes that replicate and do not vote; what each scenario prefers by default.")
    ] = None,
    workload: Annotated[str | None, typer.Option(help="What clients do: register, log or counter.")] = None,
    seed: Annotated[int | None, typer.Option(help="Repeats the draws of an earlier suite.")] = None,
    timers: Annotated[str, typer.Option(help="usual, or short (reference only).")] = "usual",
    master: Annotated[str | None, typer.Option(help="Spark master; local[*] by default.")] = None,
    store: Annotated[Path, typer.Option(help="Folder that suites are stored in, under suites/.")] = Path("runs"),
    junit: Annotated[Path | None, typer.Option(help="Write the JUnit XML here too.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with a stored suite: what has a verdict is kept.", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Run a group of scenarios, one after the other, and write one summary as HTML and JUnit XML.

    The exit code is that of the worst run. A run whose verdict is the one that its scenario expects is good, and one that is
    invalid under a hazard that its scenario declares weighs nothing. Ctrl-C ends the run that goes on, keeps what is done, and says
    how to resume.
    """
    from clusters.backends.backend import Place
    from nemesis.cli.suite_session import begin_suite, go_on, resume_suite
    from nemesis.life.plan import RunOptions, named_timers
    from nemesis.scenario import Scenario
    from nemesis.seeds import SEED_LIMIT, fresh_seed
    from nemesis.suite.plan import find_suite
    from workloads.problem import Problem

    if (name is None) == (resume is None):
        raise Problem(
            "suite-name", "Name a suite, or one to resume, and not both.", "nemesis suite network", usage=True
        )
    if seed is not None and not 0 <= seed < SEED_LIMIT:
        raise Problem("seed-out-of-range", f"A seed is 0 to {SEED_LIMIT - 1}, not {seed}.", "Mend --seed.", usage=True)
    if resume is not None:
        return go_on(resume_suite(resume), junit=junit, as_json=as_json)
    base = RunOptions(
        scenario=Scenario("suite", "", ""),
        argv=tuple(sys.argv[1:]),
        seed=fresh_seed() if seed is None else seed,
        store=store,
        to_version=to_version,
        workload=workload,
        duration_s=duration,
        master=master,
        timers=named_timers(timers),
        cluster=cluster,
        place=Place(image=image, inventory=inventory),
    )
    if observers is not None:
        base = replace(base, observers=observers)
    found = find_suite(name or "")
    chosen = tuple(candidate or found.candidates or ("reference",))
    return go_on(begin_suite(found, chosen, base, timers), junit=junit, as_json=as_json)
