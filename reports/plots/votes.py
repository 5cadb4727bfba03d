"""Votes as arrows from voters to candidates, by epoch; two candidates of one voter in one epoch stand out in red."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from reports.plots.describe import Row
from reports.plots.svg import element, join, text, titled

_WIDTH = 1120.0
_ROW = 46.0
_BOX = 210.0
_LEFT = 180.0
_RIGHT = 720.0


def draw(rows: Sequence[Row], title: str) -> Markup:
    """The votes of a witness: events of kind ``vote``, stored quorum states with a vote, and messages of the API Vote."""
    votes = [(_identity(row), _candidate(row), _epoch(row), row) for row in rows]
    voters = list(dict.fromkeys(vote[0] for vote in votes))
    candidates = list(dict.fromkeys(vote[1] for vote in votes))
    choices = Counter((voter, epoch) for voter, _, epoch in dict.fromkeys(vote[:3] for vote in votes))
    height = 30 + _ROW * max(len(voters), len(candidates))
    parts = [
        text(_LEFT + _BOX / 2, 16, "voter", class_="tick"),
        text(_RIGHT + _BOX / 2, 16, "candidate", class_="tick"),
    ]
    ys = {voter: 28 + _ROW * i for i, voter in enumerate(voters)}
    yc = {candidate: 28 + _ROW * i for i, candidate in enumerate(candidates)}
    for i, (voter, candidate, epoch, row) in enumerate(votes):
        y0, y1 = ys[voter] + 15, yc[candidate] + 15
        kind = "vote contradicts" if choices[voter, epoch] > 1 else "vote"
        where = {"quorum_states": "on disk", "rpcs": "said"}.get(str(row.get("table")), "granted")
        words = f"{voter} votes for {candidate} in epoch {epoch} ({where})"
        x0, x1 = _LEFT + _BOX, _RIGHT
        at = 0.3 + 0.4 * (i + 1) / (len(votes) + 1)
        parts.append(titled("path", words, class_=kind, d=f"M{x0:.0f} {y0:.1f}L{x1 - 8:.0f} {y1:.1f}"))
        parts.append(element("path", class_=f"{kind} head", d=f"M{x1 - 10:.0f} {y1 - 5:.1f}l10 5l-10 5z"))
        parts.append(text(x0 + at * (x1 - x0), y0 + at * (y1 - y0) - 5, f"epoch {epoch} · {where}", class_="vote-name"))
    for names, left in ((ys, _LEFT), (yc, _RIGHT)):
        for name, y in names.items():
            parts.append(element("rect", class_="card", x=left, y=y, width=_BOX, height=30, rx=4))
            parts.append(text(left + _BOX / 2, y + 19, name, class_="card-head middle"))
    return element(
        "svg", element("title", title), join(parts), class_="witness", viewBox=f"0 0 {_WIDTH:.0f} {height:.0f}",
        role="img", aria_label=title,
    )  # fmt: skip


def is_vote(row: Row) -> bool:
    """Whether a row tells a granted vote."""
    if row.get("table") == "node_events":
        return row.get("kind") == "vote" and row.get("granted") is not False
    if row.get("table") == "rpcs":
        return row.get("api") == "Vote" and (row.get("kind") == "request" or bool(row.get("granted")))
    return row.get("table") == "quorum_states" and bool(row.get("voted_for"))


def _epoch(row: Row) -> object:
    """Of the vote: of an answer that of its request."""
    return row.get("epoch") if row.get("asked_epoch") is None else row["asked_epoch"]


def _identity(row: Row) -> str:
    own = "replica_directory_id" if row.get("kind") == "request" else "voter_directory_id"
    directory = row.get(own if row.get("table") == "rpcs" else "directory_id")
    return f"{row.get('node') or row.get('src', '?')}" + (f" / {str(directory)[:8]}" if directory else "")


def _candidate(row: Row) -> str:
    if row.get("table") == "quorum_states":
        node, directory = row.get("voted_for"), row.get("voted_for_directory_id")
    elif row.get("table") == "rpcs":
        node, directory = row.get("replica"), row.get("replica_directory_id")
    else:
        node, directory = row.get("peer"), row.get("peer_directory_id")
    return f"{node or '?'}" + (f" / {str(directory)[:8]}" if directory else "")
