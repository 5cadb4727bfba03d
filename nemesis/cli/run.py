"""``nemesis run``: one run from the first packet to the report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def run(  # noqa: PLR0917 - the options of a command line are its parameters
    scenario: Annotated[str, typer.Argument(help="What is broken: a name that `nemesis list` shows.")],
    candidate: Annotated[
        str, typer.Option(help="What is tested: reference, kafka, or a file that describes it.")
    ] = "reference",
    cluster: Annotated[str, typer.Option(help="Where nodes run: local, docker or ssh.")] = "local",
    image: Annotated[
        str | None, typer.Option(help="docker: an image to use as it is, instead of the project's own.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option(help="ssh: the TOML file that lists the machines.")] = None,
    filesystem: Annotated[
        str | None,
        typer.Option(
            help="ext4, xfs or shim: what nodes' disks are where faults let them fail; as root ext4, else shim."
        ),
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Release of Apache Kafka, e.g. 3.9.2; the newest by default.")
    ] = None,
    to_version: Annotated[
        str | None, typer.Option(help="Release that faults such as upgrade-next start nodes under, e.g. 4.3.1.")
    ] = None,
    kafka_home: Annotated[Path | None, typer.Option(help="A local build of Apache Kafka instead of a release.")] = None,
    quorum: Annotated[
        str | None, typer.Option(help="static or dynamic; dynamic where the release has it (Kafka 3.9).")
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Voters; what the scenario prefers by default.")] = None,
    observers: Annotated[
        int | None, typer.Option(help="Nodes that replicate and do not vote; what the scenario prefers by default.")
    ] = None,
    workload: Annotated[str | None, typer.Option(help="What clients do: register, log or counter.")] = None,
    duration: Annotated[float, typer.Option(help="Seconds of load.")] = 20.0,
    rate: Annotated[float | None, typer.Option(help="Operations a second that become due.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Client processes; half of them are pinned to nodes.")] = None,
    seed: Annotated[int | None, typer.Option(help="Repeats the draws of an earlier run.")] = None,
    defect: Annotated[
        list[str] | None, typer.Option(help="Switch on a defect of the reference: its name or number. Repeatable.")
    ] = None,
    timers: Annotated[str, typer.Option(help="usual, or short (reference only).")] = "usual",
    master: Annotated[
        str | None, typer.Option(help="Spark master, e.g. spark://host:7077; local[*] by default.")
    ] = None,
    store: Annotated[Path, typer.Option(help="Folder that runs are stored in.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Deploy a candidate, drive it, break it, and judge what happened.

    Progress goes to stderr, the result to stdout. The first Ctrl-C heals, stops and checks what was recorded; the second
    leaves at once, and the next command cleans up.
    """
    from clusters.backends.backend import Place
    from nemesis import scenario as scenarios
    from nemesis.cli.session import run_and_judge
    from nemesis.life.plan import RunOptions, named_timers
    from nemesis.seeds import SEED_LIMIT, fresh_seed
    from workloads.problem import Problem

    for option, value, owner in (("--image", image, "docker"), ("--inventory", inventory, "ssh")):
        if value is not None and cluster != owner:
            raise Problem(
                "option-of-cluster",
                f"{option} is for --cluster {owner}, not for {cluster}.",
                f"Add --cluster {owner}, or leave it out.",
                usage=True,
            )
    if seed is not None and not 0 <= seed < SEED_LIMIT:
        raise Problem("seed-out-of-range", f"A seed is 0 to {SEED_LIMIT - 1}, not {seed}.", "Mend --seed.", usage=True)
    options = RunOptions(
        scenario=scenarios.load(scenario),
        argv=tuple(sys.argv[1:]),
        seed=fresh_seed() if seed is None else seed,
        store=store,
        candidate=candidate,
        version=version,
        to_version=to_version,
        kafka_home=kafka_home,
        quorum=quorum,
        nodes=nodes,
        observers=observers,
        workload=workload,
        duration_s=duration,
        rate=rate,
        concurrency=concurrency,
        defects=tuple(defect or ()),
        master=master,
        timers=named_timers(timers),
        cluster=cluster,
        place=Place(image=image, inventory=inventory, filesystem=filesystem),
    )
    return run_and_judge(options, as_json=as_json)
