"""A short run of a scenario of the test's own, and its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nemesis.life.plan import SHORT_TIMERS
from tests.runs import perform

HEAD = 'title = "T"\ntext = "t"\nwarm_up_s = 1.0\ngap_s = 0.6\n'


class Lived:
    """A run that ended, with its tables."""

    def __init__(self, tmp_path: Path, body: str, **options: Any) -> None:
        path = tmp_path / "effect.toml"
        path.write_text(HEAD + body)
        self.run = perform(tmp_path / "store", str(path), 1, **{"timers": SHORT_TIMERS, **options})
        self.faults = self.rows("faults")
        assert self.faults, "nothing was planned"

    def rows(self, table: str, **wanted: Any) -> list[dict[str, Any]]:
        found = pq.read_table(self.run / "tables" / f"{table}.parquet").to_pylist()
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def fault(name: str, hold: float, **parameters: Any) -> str:
    """One table of a scenario."""
    told = "".join(
        f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {value}\n" for key, value in parameters.items()
    )
    return f'[[faults]]\nfault = "{name}"\nhold = {hold}\n{told}'
