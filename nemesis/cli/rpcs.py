"""``nemesis rpcs``: what the nodes of a stored run said to each other, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nemesis.exit_codes import ExitCode
from workloads.problem import Problem

if TYPE_CHECKING:
    import pyarrow as pa

    from reports.messages import Return, Round

_SHOWN = (
    ("epoch", "epoch"),
    ("leader", "leader"),
    ("replica", "replica"),
    ("offset", "offset"),
    ("last_epoch", "of epoch"),
    ("high_watermark", "high watermark"),
    ("diverging_end_offset", "diverging from"),
    ("records_bytes", "record bytes"),
)


def rpcs(
    run: Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")],
    *,
    api: Annotated[list[str] | None, typer.Option("--api", help="Only these, by Kafka's names: Vote, Fetch, …")] = None,
    node: Annotated[list[str] | None, typer.Option("--node", help="Only what these nodes send or are sent.")] = None,
    lost: Annotated[bool, typer.Option("--lost", help="Only what was not delivered.")] = False,
    rounds: Annotated[bool, typer.Option("--rounds", help="Only who asked for votes, and what came of it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Print the requests and responses between the nodes of a stored run, each with what became of it."""
    import pyarrow.parquet as pq

    from nemesis.store.layout import TABLES, find_runs
    from nemesis.store.manifest import read_manifest
    from reports import messages
    from reports.load import read_faults

    (folder,) = find_runs([run])[:1]
    path = folder / TABLES / "rpcs.parquet"
    table = pq.read_table(path) if path.is_file() else None
    if table is None or not len(table):
        raise Problem(
            "no-messages",
            f"{folder} holds no messages between its nodes.",
            "They are captured where packet sockets are permitted; those of a run that was killed `nemesis check` reads.",
            usage=True,
        )
    tried = messages.rounds(table)
    end_ns = max(phase.ended_ns or phase.started_ns for phase in read_manifest(folder).phases)
    came_back = messages.returns(read_faults(folder), tried, table, end_ns)
    chosen = () if rounds else tuple(_chosen(table, api, node, lost=lost))
    if as_json:
        document = {
            "schema_version": 1,
            "run_id": table["run_id"][0].as_py(),
            "messages": [{name: value for name, value in row.items() if value is not None} for row in chosen],
            "rounds": [_round(each) for each in tried],
            "returns": [_return(each) for each in came_back],
        }
        print(json.dumps(document))
        return ExitCode.VALID
    for line in _rounds(tried, came_back, messages.told) if rounds else map(_line, chosen):
        sys.stdout.write(line + "\n")
    return ExitCode.VALID


def _chosen(table: pa.Table, api: list[str] | None, node: list[str] | None, *, lost: bool) -> Iterator[dict[str, Any]]:
    wanted = {each.casefold() for each in api or ()}
    for batch in table.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            if wanted and (row["api"] or "").casefold() not in wanted:
                continue
            if node and row["src"] not in node and row["dst"] not in node:
                continue
            if lost and row["fate"] == "delivered":
                continue
            yield row


def _line(row: Mapping[str, Any]) -> str:
    when = "?" if row["ts_ns"] is None else f"{row['ts_ns'] / 1e9:.6f}"
    what = f"{row['api'] or 'unread'} v{row['version']} {row['kind']} {row['correlation_id']}"
    told = [f"{name} {row[column]}" for column, name in _SHOWN if row[column] is not None]
    if row["pre_vote"]:
        told.append("pre-vote")
    if row["granted"] is not None:
        told.append("granted" if row["granted"] else "refused")
    told += [row[name] for name in ("error", "problem") if row[name] not in (None, "NONE")]
    fate = row["fate"]
    if fate == "delivered" and row["delivered_ns"] is not None and row["ts_ns"] is not None:
        fate = f"delivered after {(row['delivered_ns'] - row['ts_ns']) / 1e6:.3f} ms"
    return f"{when:>12} {row['src']} > {row['dst']}  {what}: {', '.join(told)} [{fate}]"


def _rounds(tried: Iterable[Round], came_back: Iterable[Return], told: Any) -> Iterator[str]:
    yield from map(told, tried)
    for each in came_back:
        away = " and ".join(each.fault.isolated)
        yield (
            f"fault {each.fault.fault_id + 1}: {away}, cut off in epoch {each.fault.leader_epoch}: {each.pre_votes} pre-vote rounds, "
            f"{each.votes} vote rounds, epoch raised by {each.raised}; it is {each.highest_epoch} at the next fault, or the end"
        )


def _round(each: Round) -> dict[str, Any]:
    return {**asdict(each), "asked": sorted(each.asked)}


def _return(each: Return) -> dict[str, Any]:
    fault = each.fault
    return {
        "fault_id": fault.fault_id,
        "fault": fault.fault,
        "isolated": list(fault.isolated),
        "started_ns": fault.started_ns,
        "ended_ns": fault.ended_ns,
        "until_ns": each.until_ns,
        "epoch_before": fault.leader_epoch,
        "pre_vote_rounds": each.pre_votes,
        "vote_rounds": each.votes,
        "epoch_raised_by": each.raised,
        "highest_epoch": each.highest_epoch,
    }
