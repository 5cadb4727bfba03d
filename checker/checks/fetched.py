"""The high watermark by the messages alone, for candidates whose inside nobody sees.

*high-watermark-fetched* (R853-7). A leader tells no high watermark that fewer than a majority of the voters have fetched up to:
:mod:`checker.kernels.fetched` says how it is known. Leaders whose captures lost packets are not judged, and runs that change their
voters are not: who counts is then in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from checker.arrow import map_in_arrow
from checker.check import FINDINGS, FINDINGS_DDL, Check, anomaly_row, tally_row
from checker.kernels.fetched import Unsupported, judge
from checker.verdict import Kind
from checker.wording import at
from workloads.history.manifest import decode_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_COLUMNS = (
    "connection", "correlation_id", "kind", "ts_ns", "src", "dst", "api", "fate", "epoch", "leader", "offset", "high_watermark",
)  # fmt: skip
_FINDINGS_MAX = 20


def _find(tables: Tables) -> DataFrame:
    folders = [run.directory for run in tables.runs]
    asked = tables.session.range(0, len(folders), 1, min(len(folders), 8) or 1)
    return map_in_arrow(asked, judge_folders(folders), FINDINGS_DDL)


def judge_folders(folders: Sequence[Path]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What the tasks do: judge the runs whose numbers they are given, from their files."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist(judge_folder(folders[number]), FINDINGS)

    return work


def judge_folder(folder: Path) -> list[dict[str, Any]]:
    """Rows of FINDINGS for one run; one empty tally where there is nothing to judge."""
    manifest = decode_manifest((folder / "run.json").read_bytes())
    path = folder / "tables" / "rpcs.parquet"
    if manifest.voters_change or not path.is_file() or "is_news" not in pq.read_schema(path).names:
        return [tally_row(manifest.run_id)]
    fetches = pq.read_table(path, columns=list(_COLUMNS), filters=[("api", "=", "Fetch")])
    judged = judge(
        fetches,
        voters=frozenset(node.name for node in manifest.nodes if node.role == "voter"),
        blind=frozenset(node.name for node in manifest.nodes)
        - {capture.node for capture in manifest.captures if capture.whole},
        slack_ns=2 * max((node.clock_error_ns for node in manifest.nodes), default=0),
    )
    rows = [tally_row(manifest.run_id, evidence_rows=len(fetches), exercised=judged.told)]
    return rows + [_anomaly(manifest.run_id, each) for each in judged.found[:_FINDINGS_MAX]]


def _anomaly(run_id: str, found: Unsupported) -> dict[str, Any]:
    row = found.answer
    told = ", ".join(f"{voter} up to {offset}" for voter, offset in sorted(found.fetched.items())) or "nobody at all"
    return anomaly_row(
        run_id,
        subject=f"{row['src']} epoch {row['epoch']}",
        epoch=row["epoch"],
        offset=row["high_watermark"],
        message=(
            f"{row['src']}, leading epoch {row['epoch']}, told {row['dst']}{at(row['ts_ns'])} the high watermark {row['high_watermark']}, "
            f"which {found.holders} of the voters could hold, itself among them: until then had fetched {told}."
        ),
        witness=({"table": "rpcs", **{name: value for name, value in row.items() if value is not None}},),
    )


HIGH_WATERMARK_FETCHED = Check(
    name="high-watermark-fetched",
    kind=Kind.SAFETY,
    requirement="R853-7, KIP-595",
    title="Leaders tell no high watermark that a majority of the voters has not fetched up to.",
    situation="high watermarks told by leaders",
    needs=(("rpcs",),),
    find=_find,
    captured=True,
    runs_python=True,
)
