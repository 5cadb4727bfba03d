"""The checker's measure: all known defects are found, each by the check that is named for it, and nothing is found without."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from checker.verdict import Verdict
from clusters.candidates.reference.core.defects import DEFECTS
from tests.defects.convict import Judged, Performing, Row, convictions, how, judge_all, page, performing
from tests.defects.matrix import REAL_RUNS, SCRIPTED

pytestmark = [pytest.mark.namespaces, pytest.mark.spark, pytest.mark.timeout(1500)]

ROWS = (*REAL_RUNS, *SCRIPTED)
PAGE = Path(__file__).parents[2] / "DEFECTS.md"


@pytest.fixture(scope="session")
def runs_begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Performing]:
    with performing(tmp_path_factory.mktemp("defects")) as begun:
        yield begun


@pytest.fixture(scope="module")
def judged(runs_begun: Performing, spark: object) -> Judged:
    done = judge_all(runs_begun, spark)  # type: ignore[arg-type]
    if os.environ.get("UPDATE_DEFECTS") == "1":
        PAGE.write_text(page(done))
    return done


def test_every_defect_has_a_row() -> None:
    assert {row.defect for row in ROWS} == {known.name for known in DEFECTS}
    assert len(DEFECTS) == 20


def test_every_row_and_its_twin_is_performed(runs_begun: Performing) -> None:
    """The first of all that use Spark (``tests/conftest.py``): the others pass while the runs go on."""
    performed = set(runs_begun)
    assert performed == {(row.defect, how(row)) for row in ROWS} | {("", how(row)) for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.defect}-{how(row)}")
def test_the_defect_is_convicted_by_the_check_named_for_it(row: Row, judged: Judged) -> None:
    verdict = judged.convicted[(row.defect, how(row))]
    found = convictions(verdict)
    assert verdict.verdict is Verdict.INVALID, verdict.sentence
    assert set(row.checks) <= set(found), f"convicted by {sorted(found)} instead; {verdict.sentence}"
    for check in row.checks:
        anomaly = found[check]
        assert 1 <= len(anomaly.witness) <= 6
        assert re.search(r"\bn\d\b", anomaly.message), anomaly.message
        assert re.search(r"\b(epoch|offset|directory id|value|read|vote|high watermark)", anomaly.message), (
            anomaly.message
        )


@pytest.mark.parametrize("name", sorted({how(row) for row in ROWS}))
def test_its_twin_without_the_defect_is_valid(name: str, judged: Judged) -> None:
    verdict = judged.twins[name]
    assert verdict.verdict is Verdict.VALID, (
        verdict.sentence,
        {check: anomaly.message for check, anomaly in convictions(verdict).items()},
    )


def test_the_page_names_the_same_convictions(judged: Judged) -> None:
    def rows(text: str) -> set[tuple[str, ...]]:
        cells = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| M-")]
        return {(row[0], row[2], row[3]) for row in cells}

    assert rows(PAGE.read_text()) == rows(page(judged)), "refresh it with UPDATE_DEFECTS=1 bin/test tests/defects"
    assert "not convicted" not in PAGE.read_text()
