"""The page of a run: against goldens, and by what a browser would make of it."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checker.verdict import Kind, Verdict
from reports.html import render_run, write_report
from reports.plots import timeline
from tests.reports import stored_runs
from tests.reports.reading import read
from tests.reports.witnesses import anomaly, convicted

GOLDENS = Path(__file__).parent / "gold"


def valid(folder: Path) -> Path:
    return stored_runs.store(folder, run_verdict=stored_runs.verdict())


def unknown(folder: Path) -> Path:
    """Stopped by a person after one of three isolations; the second was never verified."""
    one, two, three = stored_runs.faults()
    reached = [one, {**two, "verified": False}, {**three, "started_ns": None, "ended_ns": None, "verified": None}]
    tables = {"operations": stored_runs.operations()[:900], "faults": reached}
    said = stored_runs.verdict(
        Verdict.UNKNOWN, "Nobody can tell: only 1 of 3 isolations took place.", expected=Verdict.VALID
    )
    return stored_runs.store(folder, stored_runs.manifest(interrupted=True, finished=False), said, tables)


def empty(folder: Path) -> Path:
    """Nothing was recorded at all."""
    said = stored_runs.verdict(
        Verdict.UNKNOWN, "The history is empty.", operations={}, faults=0, leader_changes=0, checks=()
    )
    names = ("operations", "faults", "quorum_samples", "node_events", "log_entries", "lifecycle")
    return stored_runs.store(folder, stored_runs.manifest(phases=(), stalls=()), said, {name: [] for name in names})


def torn(folder: Path) -> Path:
    """The controller was killed: no end of any phase, no table of operations, a damaged one of samples."""
    phases = tuple(msgspec.structs.replace(phase, ended_ns=None) for phase in stored_runs.manifest().phases[:4])
    said = stored_runs.verdict(
        Verdict.UNKNOWN, "The history is torn.", known_hazard="KAFKA-14077", expected=Verdict.INVALID
    )
    run = stored_runs.store(
        folder, stored_runs.manifest(phases=phases, finished=False), said, {"faults": stored_runs.faults()}
    )
    (run / "tables" / "quorum_samples.parquet").write_bytes(b"PAR1 torn")
    return run


RUNS: dict[str, Callable[[Path], Path]] = {
    "invalid": convicted, "valid": valid, "unknown": unknown, "empty": empty, "torn": torn,
}  # fmt: skip


def scrubbed(page: str, folder: Path) -> str:
    """The page without what is long or differs by place: style, script, and the shapes of the charts over time."""
    page = page.replace(str(folder), "RUN")
    page = re.sub(r"<(style|script)>.*?</\1>", r"<\1/>", page, flags=re.DOTALL)
    page = re.sub(r"sha256-[A-Za-z0-9+/=]+", "sha256-…", page)
    chart = re.compile(r'<svg class="chart".*?aria-label="([^"]*)".*?</svg>(?=</div>)', flags=re.DOTALL)
    page = chart.sub(r'<svg class="chart" aria-label="\1"/>', page)
    page = re.sub(
        r"(<table class=\"grid\">\n<caption>(?:Spans|Operations by time|Latency of ack).*?</caption>).*?</table>",
        r"\1…</table>",
        page,
        flags=re.DOTALL,
    )
    return re.sub(r"\n\s*\n+", "\n", page)


@pytest.mark.parametrize("name", RUNS)
def test_the_page_is_the_golden_one(tmp_path: Path, name: str) -> None:
    run = RUNS[name](tmp_path / "run")
    made = scrubbed(render_run(run), run)
    golden = GOLDENS / f"{name}.html"
    if os.environ.get("UPDATE_GOLDENS") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8"), "look at the difference, then accept it with UPDATE_GOLDENS=1"


@pytest.mark.parametrize("name", RUNS)
def test_every_link_leads_somewhere_and_nothing_is_loaded(tmp_path: Path, name: str) -> None:
    page = read(write_report(RUNS[name](tmp_path / "run")).read_text(encoding="utf-8"))
    assert len(page.ids) == len(set(page.ids))
    inside = {address[1:] for address in page.addresses if address.startswith("#")}
    assert inside <= set(page.ids)
    assert [address for address in page.addresses if not address.startswith(("#", "data:"))] == []
    assert not re.search(
        r"url\((?!#)|@import|fetch\(|XMLHttpRequest|WebSocket|import\(", page.inlined["style"] + page.inlined["script"]
    )
    assert page.tags.count("script") == page.tags.count("style") == 1


def test_a_page_is_a_pure_function_of_what_is_stored(tmp_path: Path) -> None:
    run = convicted(tmp_path / "run")
    assert render_run(run) == render_run(run)


def test_the_policy_names_the_digests_of_what_is_inlined(tmp_path: Path) -> None:
    html = render_run(valid(tmp_path / "run"))
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1))  # type: ignore[union-attr]
    assert policy.startswith("default-src 'none'")
    for text in read(html).inlined.values():
        assert "sha256-" + b64encode(sha256(text.encode()).digest()).decode() in policy


def test_the_answer_stands_first(tmp_path: Path) -> None:
    text = read(render_run(convicted(tmp_path / "run"))).text
    order = [
        "Kafka 3.7.0 forked its log",
        "Exit code 1",
        "Repeat this run",
        "5 findings",
        "The run over time",
        "Each fault from injection to healing",
        "What this run does not prove",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "bin/nemesis run partition-leader --candidate kafka --version 3.7.0 --seed 7" in text


def test_the_verdict_can_be_read_without_a_script(tmp_path: Path) -> None:
    html = render_run(convicted(tmp_path / "run"))
    (noscript,) = re.findall(r"<noscript>(.*?)</noscript>", html, flags=re.DOTALL)
    assert "Verdict: invalid. Kafka 3.7.0 forked its log at offset 26" in noscript
    assert "Exit code 1" in noscript


def test_a_check_that_could_not_have_failed_is_not_exercised(tmp_path: Path) -> None:
    html = render_run(valid(tmp_path / "run"))
    assert re.search(r'id="check-vote-durable" data-status="not-exercised"', html)
    assert re.search(r'id="check-vote-up-to-date" data-status="not-applicable"', html)
    text = read(html).text
    assert "vote-durable : never met: votes before a restart" in text
    assert "vote-up-to-date : the candidate does not promise node-trace" in text


def test_labels_tell_hazard_expectation_defect_and_interruption(tmp_path: Path) -> None:
    entry = msgspec.structs.replace(stored_runs.manifest().candidate, defects=("no-check-quorum",))
    said = stored_runs.verdict(
        Verdict.UNKNOWN, "Nobody can tell.", known_hazard="KAFKA-14077", expected=Verdict.INVALID
    )
    run = stored_runs.store(tmp_path / "run", stored_runs.manifest(candidate=entry, interrupted=True), said)
    text = read(render_run(run)).text
    for words in (
        "Known hazard: KAFKA-14077",
        "The scenario expects invalid, but it is unknown",
        "Built wrong on purpose: no-check-quorum",
        "Stopped before its end",
        "Exit code 130",
    ):
        assert words in text


def test_what_looks_like_a_secret_is_not_shown(tmp_path: Path) -> None:
    html = render_run(valid(tmp_path / "run"))
    assert "api_token" in html
    assert "hunter2" not in html


def test_findings_beyond_the_drawn_ones_are_told_and_counted(tmp_path: Path) -> None:
    many = [anomaly("log-matching", f"offset {i}", f"Offset {i} differs.", ()) for i in range(20)]
    said = stored_runs.verdict(Verdict.INVALID, "Invalid.", {"log-matching": many})
    page = read(render_run(stored_runs.store(tmp_path / "run", run_verdict=said)))
    assert [f"anomaly-{i}" for i in range(1, 21)] == [name for name in page.ids if name.startswith("anomaly-")]
    assert "17 more of log-matching, told in one sentence each" in page.text


def test_a_reason_for_unknown_is_no_finding(tmp_path: Path) -> None:
    doubt = anomaly("faults-happened", "fault 2", "Fault 2 was planned and no probe saw it.", (), Kind.FRAMEWORK)
    checks = tuple(
        replace(check, verdict=Verdict.UNKNOWN, anomalies=(doubt,)) if check.check == "faults-happened" else check
        for check in stored_runs.CHECKS
    )
    said = stored_runs.verdict(Verdict.UNKNOWN, "Nobody can tell.", checks=checks)
    page = read(render_run(stored_runs.store(tmp_path / "run", run_verdict=said)))
    assert "findings" not in page.ids
    assert "Why something could not be judged" in page.text
    assert "Fault 2 was planned and no probe saw it." in page.text


def test_contradicting_cells_are_marked(tmp_path: Path) -> None:
    html = render_run(convicted(tmp_path / "run"))
    marked = re.findall(r'<td class="marked[^"]*">([^<]*)<', html)
    assert {"11a25bfa", "11a38bcb", "n1", "n2"} <= set(marked)


HOSTILE = """</title></script></style></svg>"'><script>window.stolen=1</script><img src=x onerror=window.stolen=1>{{ 7*7 }}|"""


def hostile(value: Any) -> Any:
    if isinstance(value, str):
        return (
            value
            if value in ("operations", "ok", "info", "fail", "node_events", "vote", "log_entries", "leader_change")
            else HOSTILE
        )
    if isinstance(value, dict):
        return {key: hostile(each) for key, each in value.items()}
    return [hostile(each) for each in value] if isinstance(value, list | tuple) else value


def hostile_run(folder: Path) -> Path:
    """Every text that a candidate, an operator or a node could choose is an attack."""
    plain = stored_runs.manifest()
    nodes = tuple(msgspec.structs.replace(node, name=f"{node.name}{HOSTILE}", host=HOSTILE) for node in plain.nodes)
    candidate = msgspec.structs.replace(
        plain.candidate,
        name=HOSTILE,
        version=HOSTILE,
        defects=(HOSTILE,),
        promises=(HOSTILE,),
        provenance={HOSTILE: HOSTILE},
    )
    told = stored_runs.manifest(
        scenario=HOSTILE,
        scenario_title=HOSTILE,
        candidate=candidate,
        nodes=nodes,
        notes=(HOSTILE,),
        machine={HOSTILE: HOSTILE},
        argv=("nemesis", HOSTILE),
    )
    source = convicted(folder.parent / "source")
    from reports.load import read_verdict

    verdict = read_verdict(source)
    found = {
        result.check: [
            anomaly(result.check, HOSTILE, HOSTILE, [hostile(dict(row)) for row in one.witness], Kind.SAFETY)
            for one in result.anomalies
        ]
        for result in verdict.checks
        if result.anomalies
    }
    said = stored_runs.verdict(Verdict.INVALID, HOSTILE, found, known_hazard=HOSTILE)
    tables: dict[str, Any] = {
        "operations": [
            {**row, "client_node": HOSTILE, "error": HOSTILE, "f": HOSTILE, "phase": HOSTILE}
            for row in stored_runs.operations()[:300]
        ],
        "faults": [
            {**row, "fault": HOSTILE, "isolated": [HOSTILE], "links": [HOSTILE], "detail": HOSTILE, "leader": HOSTILE}
            for row in stored_runs.faults()
        ],
        "node_events": [
            {**row, "node": nodes[0].name, "state": HOSTILE, "directory_id": HOSTILE}
            for row in stored_runs.node_events()
        ],
        "quorum_samples": [{**row, "node": nodes[0].name, "leader": HOSTILE} for row in stored_runs.quorum_samples()],
        "log_entries": [
            {**row, "node": HOSTILE, "kind": HOSTILE, "partition": HOSTILE} for row in stored_runs.log_entries()
        ],
        "lifecycle": [{**row, "node": nodes[0].name} for row in stored_runs.lifecycle()],
    }
    return stored_runs.store(folder, told, said, tables)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    page = read(render_run(hostile_run(tmp_path / "run")))
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    assert "{{ 7*7 }}" in page.text
    assert page.text.count("window.stolen=1") > 50


def test_a_drawing_that_fails_is_a_warning_and_the_verdict_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("no room")

    monkeypatch.setattr(timeline, "draw", broken)
    page = read(render_run(valid(tmp_path / "run")))
    assert "“Operations, and the faults over them” could not be drawn (ZeroDivisionError: no room)" in page.text
    assert "Exit code 0" in page.text
    assert page.ids.count("leaders") == 1


def test_a_report_is_replaced_whole(tmp_path: Path) -> None:
    run = valid(tmp_path / "run")
    assert write_report(run) == run / "report.html"
    first = (run / "report.html").read_bytes()
    write_report(run)
    assert (run / "report.html").read_bytes() == first
    assert [path.name for path in run.glob("*.part")] == []
