"""What a run of Apache Kafka left behind."""

from __future__ import annotations
from collections.abc import Iterator
from pathlib import Path
import pyarrow as pa
from workloads.history.manifest import Manifest


def read_evidence(manifest: Manifest, run: Path) -> Iterator[tuple[str, pa.Table]]:
    raise NotImplementedError
