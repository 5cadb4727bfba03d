"""A suite as JUnit XML: a ``testsuite`` is a run, a ``testcase`` is a check.

*Invalid* is a ``failure``; *unknown* is an ``error``, never ``skipped``, since a CI server shows skipped tests in green; a set-up that
failed is an ``error`` too. What a scenario expects, or declares as a known hazard, is ``skipped`` with the reason. The first case of each
run is its verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as xml

from checker.verdict import CheckResult, RunVerdict, Verdict
from nemesis.suite.record import SuiteRun
from nemesis.suite.weight import Weight, meaning, weigh

_TEXT_LIMIT = 60_000
_CONTROL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, name: str, runs: Sequence[tuple[SuiteRun, RunVerdict | None]]) -> Path:
    """Write the file; ``runs`` are in their order, each with its verdict where there is one."""
    root = xml.Element("testsuites", name=f"nemesis {name}")
    for run, verdict in runs:
        _suite(root, run, verdict)
    for attribute in ("tests", "failures", "errors", "skipped"):
        root.set(attribute, str(sum(int(each.get(attribute, "0")) for each in root)))
    xml.indent(root)
    xml.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    return path


def _suite(root: xml.Element, run: SuiteRun, verdict: RunVerdict | None) -> None:
    scenario = Path(run.scenario).stem if run.scenario.endswith(".toml") else run.scenario
    suite = xml.SubElement(root, "testsuite", name=f"{scenario} on {run.candidate}", time=f"{run.seconds or 0:.3f}")
    properties = xml.SubElement(suite, "properties")
    for name, value in (
        ("seed", str(run.seed)),
        ("candidate", run.candidate),
        ("group", run.group),
        ("run", run.run or ""),
    ):
        xml.SubElement(properties, "property", name=name, value=_clean(value))
    classname = f"nemesis.{scenario}.{run.candidate}"
    _verdict_case(suite, classname, run)
    for result in verdict.checks if verdict is not None else ():
        _check_case(suite, classname, run, result)
    if run.run:
        xml.SubElement(suite, "system-out").text = f"[[ATTACHMENT|{run.run}/report.html]]"
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))


def _verdict_case(suite: xml.Element, classname: str, run: SuiteRun) -> None:
    case = xml.SubElement(suite, "testcase", classname=classname, name="verdict", time=f"{run.seconds or 0:.3f}")
    told = _clean(" ".join(filter(None, (run.verdict, meaning(run)))))
    match weigh(run):
        case Weight.BAD:
            xml.SubElement(case, "failure", type="invalid", message=told).text = _clean(run.sentence)
        case Weight.UNSURE:
            xml.SubElement(case, "error", type="unknown", message=told).text = _clean(run.sentence)
        case Weight.FAILED:
            xml.SubElement(case, "error", type="setup", message=told).text = _clean(run.failed)
        case Weight.OPEN:
            xml.SubElement(case, "error", type="unknown", message="not reached: the suite was stopped")
        case Weight.SKIPPED:
            xml.SubElement(case, "skipped", message=_clean(run.skipped))
        case Weight.HAZARD:
            xml.SubElement(case, "skipped", message=_clean(f"{told}: {run.known_hazard}"))


def _check_case(suite: xml.Element, classname: str, run: SuiteRun, result: CheckResult) -> None:
    case = xml.SubElement(suite, "testcase", classname=classname, name=result.check, time="0.000")
    told = "\n".join([anomaly.message for anomaly in result.anomalies] or [result.reason])
    if result.verdict is None:
        xml.SubElement(case, "skipped", message=_clean(f"not applicable: {result.reason}"))
    elif result.verdict is Verdict.VALID:
        return
    elif weigh(run) in (Weight.GOOD, Weight.HAZARD):
        why = meaning(run) or "declared"
        xml.SubElement(case, "skipped", message=_clean(f"{result.verdict.value}, {why}: {told}"))
    elif result.verdict is Verdict.INVALID:
        xml.SubElement(case, "failure", type="invalid", message=_clean(result.title)).text = _clean(told)
    else:
        xml.SubElement(case, "error", type="unknown", message=_clean(result.title)).text = _clean(told)


def _clean(text: str) -> str:
    """What XML can hold, and no more than a CI server takes."""
    kept = _CONTROL.sub("\ufffd", text)
    return kept if len(kept) <= _TEXT_LIMIT else kept[:_TEXT_LIMIT] + " …"
