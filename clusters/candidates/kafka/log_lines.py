"""One line of a controller's output → what the node did. Text in, event out.

Shapes were taken from runs of 3.6.2, 3.7.0, 3.8.1, 3.9.2, 4.1.2 and 4.3.1 with the levels of :mod:`.configuration`:

* ``Completed transition to <state>(…) from <state>(…)|null`` (QuorumState): the state after it was made durable. Up to 3.8 a node that
  has voted is ``Voted(…, votedId=3)``, in 3.8 itself with a ``votedKey``; from 3.9 on it is ``Unattached`` with a ``votedKey``, which
  is the same to us.
* ``Vote request VoteRequestData(…) with epoch 2 is granted|rejected`` (KafkaRaftClient): an answer to a (pre-)vote.
* ``High watermark set to …`` (LeaderState, FollowerState), ``Truncated to offset …``, ``Did not receive fetch request from …``.

A line that says "Completed transition" and is not understood is an :class:`Unknown`, so that a release with new words is noticed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_LINE = re.compile(r"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d),(\d{3})\] [A-Z]+ (.*) \(([\w.$]+)\)")
_TRANSITION = re.compile(r"Completed transition to (\w+)\((.*)\) from (?:(\w+)\((.*)\)|null)$")
_EPOCH = re.compile(r"\bepoch=(\d+)")
_LEADER = re.compile(r"\bleader(?:Id)?=(?:OptionalInt\[|[^\s,]+ \(id: )?(\d+)(?![\w.:])")
"""3.8 writes the leader's address before its id: ``leader=10.77.0.3:9093 (id: 3 rack: null)``"""
_VOTED = re.compile(
    r"\bvoted(?:Id|Key)=(?:Optional\[)?(?:ReplicaKey\(id=)?(\d+)(?:, directoryId=(?:Optional\[)?([\w-]{22}))?"
)
_LOCAL_DIRECTORY = re.compile(r"\blocalDirectoryId=([\w-]{22})")
_VOTE = re.compile(
    r"Vote request VoteRequestData\(.*?(?:candidate|replica)Epoch=(\d+), (?:candidate|replica)Id=(\d+)"
    r"(?:, (?:candidate|replica)DirectoryId=([\w-]{22}))?.*?lastOffsetEpoch=(-?\d+), lastOffset=(-?\d+)"
    r"(?:, preVote=(true|false))?.* with epoch \d+ is (granted|rejected)$"
)
_HIGH_WATERMARK = re.compile(
    r"High watermark set to (?:Optional\[)?LogOffsetMetadata\(offset=(\d+), .*?"
    r"(?:for the first time for epoch (\d+)|from (?:Optional\[)?LogOffsetMetadata\(offset=(\d+))"
)
_TRUNCATED = re.compile(r"Truncated to offset (\d+) from Fetch response from leader (\d+)")
_CHECK_QUORUM = re.compile(r"Did not receive fetch request from the majority of the voters within \d+ms")
_FATAL = (
    "below the current high watermark",
    "lost committed data",
    "Detected non-monotonic",
    "Encountered fatal fault",
)
_NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"
_STATES = {
    "Unattached": "unattached",
    "Voted": "voted",
    "Prospective": "prospective",
    "Candidate": "candidate",
    "Leader": "leader",
    "Follower": "follower",
    "Resigned": "resigned",
}


@dataclass(frozen=True, slots=True)
class State:
    """A state of the quorum's state machine, in the words of ``clusters.evidence.schema``."""

    name: str
    epoch: int
    leader_id: int | None
    """the leader of the epoch as the node knows it; None for none and for the node itself"""
    voted_id: int | None
    voted_directory_id: str | None
    local_directory_id: str | None


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of state; ``before`` is None when the process began with ``after``."""

    after: State
    before: State | None


@dataclass(frozen=True, slots=True)
class Vote:
    """An answer to a vote request; a pre-vote binds nobody."""

    granted: bool
    candidate_id: int
    candidate_directory_id: str | None
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """The high watermark moved; exactly one of ``epoch`` (first time in it) and ``previous`` is told."""

    offset: int
    epoch: int | None
    previous: int | None


@dataclass(frozen=True, slots=True)
class Truncated:
    """A follower cut its log back as its leader told it."""

    offset: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class CheckQuorumFailed:
    """A leader missed the fetches of a majority and resigns."""

    detail: str


@dataclass(frozen=True, slots=True)
class Fatal:
    """The node itself says that something happened that must not."""

    line: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A state transition in words that are not known here."""

    line: str


Event = Transition | Vote | HighWatermark | Truncated | CheckQuorumFailed | Fatal | Unknown


@dataclass(frozen=True, slots=True)
class Line:
    """A line's wall clock (milliseconds since 1970, UTC) and what it tells; the time of a fatal line may be missing."""

    wall_ms: int | None
    event: Event


def read_line(line: str) -> Line | None:
    """Read one line without its end; None when it tells nothing of interest."""
    match = _LINE.fullmatch(line)
    if any(text in line for text in _FATAL):
        return Line(_wall_ms(match) if match else None, Fatal(line))
    if match is None:
        return Line(None, Unknown(line)) if "Completed transition" in line else None
    event = _event(_without_prefix(match[8]), line)
    return None if event is None else Line(_wall_ms(match), event)


def _wall_ms(match: re.Match[str]) -> int:
    year, month, day, hour, minute, second, millisecond = (int(match[group]) for group in range(1, 8))
    at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    return int(at.timestamp()) * 1000 + millisecond


def _without_prefix(message: str) -> str:
    """Drop the logging context, ``[RaftManager id=1] ``."""
    if message.startswith("["):
        _, _, rest = message.partition("] ")
        return rest
    return message


def _event(message: str, line: str) -> Event | None:
    if message.startswith("Completed transition"):
        return _transition(message) or Unknown(line)
    if message.startswith("Vote request"):
        return _vote(message)
    if message.startswith("High watermark set"):
        return _high_watermark(message)
    match = _TRUNCATED.match(message)
    if match:
        return Truncated(int(match[1]), int(match[2]))
    match = _CHECK_QUORUM.match(message)
    return CheckQuorumFailed(match[0]) if match else None


def _transition(message: str) -> Transition | None:
    match = _TRANSITION.match(message)
    if match is None:
        return None
    after = _state(match[1], match[2])
    before = None if match[3] is None else _state(match[3], match[4])
    if after is None or (before is None and match[3] is not None):
        return None
    return Transition(after, before)


def _state(word: str, inside: str) -> State | None:
    name = _STATES.get(word.removesuffix("State"))
    epoch = _EPOCH.search(inside)
    if name is None or epoch is None:
        return None
    leader = _LEADER.search(inside) if name != "leader" else None
    if name == "follower" and leader is None:
        return None
    voted = _VOTED.search(inside)
    local = _LOCAL_DIRECTORY.search(inside)
    return State(
        name="voted" if name == "unattached" and voted else name,
        epoch=int(epoch[1]),
        leader_id=int(leader[1]) if leader else None,
        voted_id=int(voted[1]) if voted else None,
        voted_directory_id=_directory_id(voted[2]) if voted else None,
        local_directory_id=_directory_id(local[1]) if local else None,
    )


def _directory_id(text: str | None) -> str | None:
    return None if text == _NO_DIRECTORY else text


def _vote(message: str) -> Vote | None:
    match = _VOTE.match(message)
    if match is None:
        return None
    return Vote(
        granted=match[7] == "granted",
        candidate_id=int(match[2]),
        candidate_directory_id=_directory_id(match[3]),
        epoch=int(match[1]),
        last_offset=int(match[5]),
        last_epoch=int(match[4]),
        pre_vote=match[6] == "true",
    )


def _high_watermark(message: str) -> HighWatermark | None:
    match = _HIGH_WATERMARK.match(message)
    if match is None:
        return None
    return HighWatermark(
        offset=int(match[1]),
        epoch=int(match[2]) if match[2] else None,
        previous=int(match[3]) if match[3] else None,
    )
