"""The page in a real browser: it opens from disk, asks for nothing, complains of nothing, and zooms."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reports.html import write_report
from reports.suite import write_suite
from reports.summary import write_summary
from tests.reports import stored_runs
from tests.reports.test_html import hostile_run
from tests.reports.test_suite import FACTS, entries
from tests.reports.witnesses import convicted

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there")]


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    driver = Path(playwright.__file__).parents[1] / "driver" / "node"
    if subprocess.run([driver, "--version"], capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("playwright's driver does not run: libatomic1 is missing")
    with playwright.sync_playwright() as started:
        switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=switches)
        yield chromium
        chromium.close()


class Opened:
    """A page with all that it said and asked for."""

    def __init__(self, browser: object, path: Path, **options: object) -> None:
        self.page = browser.new_page(**options)  # type: ignore[attr-defined]
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.address = path.as_uri()

    def is_quiet(self) -> bool:
        return self.said == [] and [url for url in self.asked if not url.startswith("data:")] == [self.address]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_quietly_and_is_no_wider_than_the_window(
    browser: object, tmp_path: Path, scheme: str, width: int
) -> None:
    path = write_report(convicted(tmp_path / "run"))
    opened = Opened(browser, path, color_scheme=scheme, viewport={"width": width, "height": 800})
    assert opened.is_quiet(), (opened.said, opened.asked)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.locator("h1").bounding_box()["y"] < 300
    opened.page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_suite_opens_quietly_and_is_no_wider_than_the_window(browser: object, tmp_path: Path, width: int) -> None:
    path = write_suite(tmp_path / "summary.html", FACTS, entries(tmp_path))
    opened = Opened(browser, path, viewport={"width": width, "height": 800})
    assert opened.is_quiet(), (opened.said, opened.asked)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.page.locator("#matrix a").first.click()
    assert "report.html" in opened.page.url
    opened.page.close()


def test_one_zoom_moves_all_charts_and_escape_takes_it_back(browser: object, tmp_path: Path) -> None:
    opened = Opened(browser, write_report(convicted(tmp_path / "run")))
    boxes = "[...document.querySelectorAll('svg.zoom')].map((svg) => svg.getAttribute('viewBox').split(' ')[2])"
    before = opened.page.evaluate(boxes)
    opened.page.locator("#latency svg.chart").focus()
    opened.page.keyboard.press("+")
    after = opened.page.evaluate(boxes)
    opened.page.keyboard.press("Escape")
    assert len(set(before)) == len(set(after)) == 1
    assert float(after[0]) == float(before[0]) / 2
    assert opened.page.evaluate(boxes) == before
    assert opened.is_quiet()
    opened.page.close()


def test_a_filter_leaves_the_checks_of_one_status(browser: object, tmp_path: Path) -> None:
    opened = Opened(browser, write_report(convicted(tmp_path / "run")))
    opened.page.locator("button[data-show=not-exercised]").click()
    shown = "[...document.querySelectorAll('#checks tr[data-status]')].filter((row) => row.offsetParent).map((row) => row.dataset.status)"
    assert opened.page.evaluate(shown) == ["not-exercised"]
    opened.page.close()


def test_without_scripts_the_answer_and_the_drawings_are_there(browser: object, tmp_path: Path) -> None:
    opened = Opened(browser, write_report(convicted(tmp_path / "run")), java_script_enabled=False)
    assert opened.page.locator("noscript").is_visible()
    assert opened.page.locator("svg.chart").count() == 4
    assert opened.page.locator("svg.witness").count() == 5
    assert not opened.page.locator("[data-script]").first.is_visible()
    opened.page.close()


def test_hostile_texts_run_nothing(browser: object, tmp_path: Path) -> None:
    opened = Opened(browser, write_report(hostile_run(tmp_path / "run")))
    assert opened.page.evaluate("window.stolen") is None
    assert opened.is_quiet(), (opened.said, opened.asked)
    opened.page.close()


def test_printing_opens_what_is_folded(browser: object, tmp_path: Path) -> None:
    opened = Opened(browser, write_report(convicted(tmp_path / "run")))
    closed = "document.querySelectorAll('details:not([open])').length"
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.evaluate(closed) == 0
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.evaluate(closed) > 5
    opened.page.close()


def test_a_summary_opens_quietly(browser: object, tmp_path: Path) -> None:
    run = stored_runs.store(tmp_path / "run", run_verdict=stored_runs.verdict())
    opened = Opened(browser, write_summary([run, convicted(tmp_path / "other")], tmp_path / "summary.html"))
    assert opened.is_quiet(), (opened.said, opened.asked)
    opened.page.close()
