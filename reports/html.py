"""A page → one self-contained HTML file: templates decide nothing, style and script are inlined, nothing is loaded.

The content security policy names the digests of the two inlined texts and forbids everything else, so that even markup that got
through would not run. Without a script the page is complete; the script adds zoom, filters and printing of folded parts.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from reports.compose import compose
from reports.load import read_run

REPORT = "report.html"


def write_report(run: Path) -> Path:
    """Render the stored run in the folder ``run`` to its ``report.html`` and return that path.

    Raises :class:`workloads.problem.Problem` when the folder holds no run, or one that was not checked.
    """
    return write_page(run / REPORT, render_run(run))


def render_run(run: Path) -> str:
    """The report of a stored run as HTML: a pure function of what is stored."""
    return render("report.html", page=compose(read_run(run)))


def write_page(path: Path, html: str) -> Path:
    """Write a page so that a reader sees the old one or the new one, never half of it."""
    draft = path.with_suffix(".html.part")
    draft.write_text(html, encoding="utf-8")
    os.replace(draft, path)
    return path


def render(template: str, **content: Any) -> str:
    """Render one of ``templates/`` with the assets inlined."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: _asset("templates", name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(_inlined(_asset("assets", "report.css"), _asset("assets", "report.js")))
    return environment


def _inlined(style: str, script: str) -> Mapping[str, Any]:
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return {"style": Markup(style), "script": Markup(script), "policy": policy}


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode("ascii")


def _asset(folder: str, name: str) -> str:
    return (files("reports") / folder / name).read_text(encoding="utf-8")
