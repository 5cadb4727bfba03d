"""Scripts that bring a defect to its outcome where chance would seldom do so: power cuts, and orders of messages.

Each plays out safely without its defect. Offsets are told relative to ``k``, the end of the log on which all agreed. A script
names nodes by what they do: ``leader`` is whoever was elected first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from clusters.candidates.reference.core.messages import FetchRequest, FetchResponse, VoteRequest
from clusters.candidates.reference.core.records import LEADER_CHANGE
from clusters.candidates.reference.core.roles import State
from clusters.candidates.reference.script.network import Hold, Message
from clusters.candidates.reference.script.play import Play, Stage
from workloads.problem import Problem

KEY = 1


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """A script, and the defects whose outcome it shows."""

    name: str
    defects: tuple[str, ...]
    sentence: str
    play: Callable[[Play], None]
    stage: Stage = field(default_factory=Stage)


def _settled(play: Play) -> tuple[str, list[str]]:
    """Elect a leader, write once, and wait until every node has everything and knows it to be committed."""
    leader = play.run_until_led()
    play.run_until_done(play.write(leader, KEY, 1))
    end = play.node(leader).log.end_offset
    play.run_until(lambda: all(play.node(name).high_watermark == end for name in play.nodes))
    return leader, [name for name in play.nodes if name != leader]


def _is_real_vote(message: Message) -> bool:
    return isinstance(message.request, VoteRequest) and not message.request.pre_vote


def _two_candidates(play: Play, one: str, other: str, stop_leader: Callable[[], None]) -> list[Hold]:
    """Let two followers of a leader that stops become candidates of the same epoch; their votes for each other are held."""
    pairs = ((one, other), (other, one))
    pre_votes = [play.hold("Vote", *pair) for pair in pairs]
    stop_leader()
    play.run_until(lambda: all(play.node(name).state is State.PROSPECTIVE for name in (one, other)))
    votes = [play.hold("Vote", *pair, when=_is_real_vote) for pair in pairs]
    for hold in pre_votes:
        play.release(hold)
    play.run_until(lambda: all(play.node(name).state is State.CANDIDATE for name in (one, other)))
    return votes


def _forgotten_vote(play: Play, stop: Callable[[str], None]) -> None:
    """Two candidates of one epoch; the third node votes for one, stops, and is asked by the other."""
    voter, (one, other) = _settled(play)
    asked_first = play.hold("Vote", one, voter, when=_is_real_vote)
    asked_second = play.hold("Vote", other, voter, when=_is_real_vote)
    mutual = _two_candidates(play, one, other, lambda: play.kill(voter))
    play.restart(voter)
    play.run_until(lambda: asked_first.messages and asked_second.messages)
    grant = play.hold("VoteResponse", voter, one)
    play.release(asked_first)
    play.run_until(lambda: grant.messages)
    again = play.hold("Vote", one, voter)
    news = [play.hold("BeginQuorumEpoch", *pair) for pair in ((one, other), (other, one))]
    stop(voter)
    play.restart(voter)
    play.release(asked_second)
    play.run_ms(10)
    play.release(grant)
    play.run_ms(10)
    for hold in (*mutual, *news, again):
        play.drop(hold)


def vote_forgotten_at_restart(play: Play) -> None:
    """M-1: the process is killed after its vote."""
    _forgotten_vote(play, play.kill)


def vote_lost_with_power(play: Play) -> None:
    """M-16: the power fails after the vote."""
    _forgotten_vote(play, play.power_cut)


def second_vote_granted(play: Play) -> None:
    """M-2: two followers stand in the same moment, and each is asked for its vote after it has voted for itself."""
    leader, (one, other) = _settled(play)
    mutual = _two_candidates(play, one, other, lambda: play.split([leader], [one, other]))
    play.run_until(lambda: all(hold.messages for hold in mutual))
    for hold in mutual:
        play.release(hold)
    play.run_until_led()


def power_cut_after_acknowledgement(play: Play) -> None:
    """M-14: the follower that acknowledged loses its power; then the leader is cut off."""
    leader, (holder, behind) = _settled(play)
    play.split([leader, holder], [behind])
    play.run_until_done(play.write(leader, KEY, 2))
    play.power_cut(holder)
    play.split([leader], [holder, behind])
    play.restart(holder)
    play.run_until(lambda: play.leader() in (holder, behind))


def wiped_voter_votes(play: Play) -> None:
    """M-9: the follower that acknowledged is wiped; before it refills, it is asked for its vote."""
    leader, (holder, behind) = _settled(play)
    play.split([leader, holder], [behind])
    play.run_until_done(play.write(leader, KEY, 2))
    play.wipe(holder)
    play.split([leader], [holder, behind])
    play.restart(holder)
    play.run_ms(3000)


def shorter_log_elected(play: Play) -> None:
    """M-3: a node that missed an acknowledged write stands for election before the one that has it."""
    leader, (holder, behind) = _settled(play)
    play.split([leader, holder], [behind])
    play.run_until_done(play.write(leader, KEY, 2))
    held = play.hold("Vote", holder, behind)
    play.split([leader], [holder, behind])
    play.run_ms(3000)
    play.drop(held)


def figure_eight(play: Play) -> None:
    """M-28, figure 8 of the Raft paper. ``first`` appends at k and is cut off; ``second`` is elected and appends at k too;
    ``first`` is elected again and brings its old record to ``between``, but not yet a record of its new epoch."""
    first, others = _settled(play)
    end = play.node(first).log.end_offset
    play.split()
    play.write(first, KEY, 2)
    fetches = [play.hold("Fetch", a, b) for a, b in (others, reversed(others))]
    play.split([first], others)
    play.run_until(lambda: play.leader() in others)
    second = str(play.leader())
    (between,) = (name for name in others if name != second)

    def tells_of_election(message: Message) -> bool:
        answer = message.response
        return isinstance(answer, FetchResponse) and any(batch.kind == LEADER_CHANGE for batch in answer.batches)

    news = play.hold("FetchResponse", first, between, when=tells_of_election)
    play.split([first, between], [second])
    play.run_until(lambda: play.node(first).state is State.LEADER)
    play.run_until(lambda: news.messages)
    assert play.node(between).log.end_offset == end + 1
    play.kill(first)
    play.heal()
    for hold in (news, *fetches):
        play.drop(hold)
    play.run_until_led(second)


def lagging_high_watermark(play: Play) -> None:
    """M-32: ``lagging`` has a committed record, does not know that it is committed, and has one more that its next leader has
    not. What it must drop is only the latter."""
    leader, (next_leader, lagging, *rest) = _settled(play)
    end = play.node(leader).log.end_offset
    play.split([leader, next_leader, lagging], rest)
    play.run_ms(play.stage.timers.request_timeout_ms // 4)
    count_later = play.hold("Fetch", next_leader, leader, when=lambda message: _offset(message) == end + 1)
    committed = play.write(leader, KEY, 2)
    play.run_until(lambda: play.node(leader).log.end_offset == end + 1)
    play.write(leader, KEY, 3)
    play.run_until(lambda: play.node(lagging).log.end_offset == end + 2)
    news = play.hold("FetchResponse", leader, lagging)
    more = play.hold("FetchResponse", leader, next_leader)
    play.run_until(lambda: count_later.messages)
    play.release(count_later)
    play.run_until_done(committed)
    refills = [play.hold("Fetch", name, next_leader) for name in rest]
    refills.append(play.hold("Fetch", lagging, next_leader, when=lambda message: _offset(message) <= end + 1))
    play.split([leader], [lagging], [next_leader, *rest])
    play.run_until(lambda: play.node(next_leader).state is State.LEADER)
    play.split([leader], [lagging, next_leader, *rest])
    play.run_until(lambda: play.node(lagging).log.end_offset <= end + 1)
    play.kill(next_leader)
    for hold in (news, more, *refills):
        play.drop(hold)
    play.run_until(lambda: play.leader() in (lagging, *rest))


def deposed_leader_is_read(play: Play) -> None:
    """M-59: a leader that was cut off is read after another one has acknowledged a write, before it resigns."""
    leader, others = _settled(play)
    play.split([leader], others)
    play.run_until(lambda: play.leader() in others)
    later = next(name for name in others if play.node(name).state is State.LEADER)
    play.run_until_done(play.write(later, KEY, 2))
    play.run_until_done(play.read(leader, KEY))


def late_follower_is_read(play: Play) -> None:
    """M-60: a follower learns from ReadOffset what it has to wait for, while the records are still on their way."""
    leader, (late, _) = _settled(play)
    records = play.hold("FetchResponse", leader, late)
    play.run_until_done(play.write(leader, KEY, 2))
    asked = play.read(late, KEY)
    play.run_ms(play.stage.timers.request_timeout_ms // 4)
    play.release(records)
    play.run_until_done(asked)


def _offset(message: Message) -> int:
    return message.request.fetch_offset if isinstance(message.request, FetchRequest) else -1


SCRIPTS: tuple[ScriptEntry, ...] = (
    ScriptEntry(
        "vote-forgotten-at-restart",
        ("vote-not-persisted",),
        "A voter is killed after its vote, and asked again in the same epoch.",
        vote_forgotten_at_restart,
    ),
    ScriptEntry(
        "vote-lost-with-power",
        ("quorum-state-not-synced",),
        "A voter loses its power after its vote, and is asked again in the same epoch.",
        vote_lost_with_power,
    ),
    ScriptEntry(
        "second-vote-granted",
        ("second-vote-granted",),
        "Two candidates of one epoch ask each other.",
        second_vote_granted,
    ),
    ScriptEntry(
        "power-cut-after-acknowledgement",
        ("acknowledged-before-fsync",),
        "A follower loses its power after a write was acknowledged, and the leader is cut off.",
        power_cut_after_acknowledgement,
    ),
    ScriptEntry(
        "wiped-voter-votes",
        ("wiped-node-keeps-identity",),
        "A follower is wiped after a write was acknowledged, and asked for its vote before it refills.",
        wiped_voter_votes,
    ),
    ScriptEntry(
        "shorter-log-elected",
        ("log-not-compared",),
        "A node that missed an acknowledged write stands for election.",
        shorter_log_elected,
    ),
    ScriptEntry(
        "figure-eight",
        ("old-epoch-committed-by-count",),
        "A record of an older epoch reaches a majority and is overwritten by a leader that never had it.",
        figure_eight,
        Stage(fetch_max_records=1),
    ),
    ScriptEntry(
        "deposed-leader-is-read",
        ("unconfirmed-reads",),
        "A leader that was cut off is read after its successor has acknowledged a write.",
        deposed_leader_is_read,
    ),
    ScriptEntry(
        "late-follower-is-read",
        ("follower-reads-before-apply",),
        "A follower is read while the newest records are still on their way to it.",
        late_follower_is_read,
    ),
    ScriptEntry(
        "lagging-high-watermark",
        ("truncates-to-own-high-watermark",),
        "A follower that does not know how far the log is committed drops a tail that its next leader never had.",
        lagging_high_watermark,
        Stage(voters=5, fetch_max_records=1),
    ),
)


def script(name: str) -> ScriptEntry:
    """Find a script by its name. Raises Problem, naming all, when there is none."""
    for entry in SCRIPTS:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in SCRIPTS)
    raise Problem("unknown-script", f"There is no script {name!r}.", f"Known are {known}.", usage=True)
