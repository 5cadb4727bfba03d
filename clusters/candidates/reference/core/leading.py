"""What a leader does: serve fetches, advance the high watermark, tell voters, prove that it still leads."""

from __future__ import annotations

from clusters.candidates.reference.core.effects import Token
from clusters.candidates.reference.core.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumResponse,
    Error,
    FetchRequest,
    FetchResponse,
    ReplicaKey,
    ReplicaProgress,
)
from clusters.candidates.reference.core.replica import (
    Leadership,
    ParkedFetch,
    Progress,
    Replica,
    reply,
    trace,
    voter_names,
)

OBSERVER_TIMEOUTS = 20
"""an observer that has not fetched for so many fetch timeouts is gone"""


def on_fetch(node: Replica, token: Token, request: FetchRequest) -> None:
    """A replica or a client asks for records (S853-6, S853-7). The answer may be held back until there is something."""
    leadership = node.leadership
    error = _fetch_error(node, request)
    if error is not Error.NONE or leadership is None:
        reply(node, token, FetchResponse(error, node.epoch, node.known_leader, -1))
        return
    if request.replica is not None:
        leader_end = node.log.epoch_end(request.last_fetched_epoch)
        progress = _progress(leadership, request.replica)
        progress.fetched_ms = node.now_ms
        progress.told = True
        if not node.decisions.position_is_valid(request.fetch_offset, request.last_fetched_epoch, leader_end):
            watermark = told_high_watermark(node, leadership)
            reply(node, token, FetchResponse(Error.NONE, node.epoch, node.me.node_id, watermark, (), leader_end))
            return
        if progress.end_offset != request.fetch_offset:
            progress.end_offset = request.fetch_offset
            trace(
                node,
                "fetch",
                peer=request.replica.node,
                peer_directory_id=request.replica.directory_id,
                offset=request.fetch_offset,
                epoch=node.epoch,
            )
        _replace_parked(node, leadership, request.replica)
    leadership.parked.append(ParkedFetch(token, request, node.now_ms + request.max_wait_ms))


def _fetch_error(node: Replica, request: FetchRequest) -> Error:
    if node.closing:
        return Error.BROKER_NOT_AVAILABLE
    knows_epoch = request.replica is not None or request.epoch >= 0
    if knows_epoch and request.epoch < node.epoch:
        return Error.FENCED_LEADER_EPOCH
    if knows_epoch and request.epoch > node.epoch:
        return Error.UNKNOWN_LEADER_EPOCH
    if node.leadership is None:
        return Error.NOT_LEADER_OR_FOLLOWER
    if request.fetch_offset < 0 or (request.replica is not None and request.last_fetched_epoch < 0):
        return Error.INVALID_REQUEST
    return Error.NONE


def _progress(leadership: Leadership, replica: ReplicaKey) -> Progress:
    """Where the leader notes what it learns of a replica: a voter by its whole identity, or else an observer (R853-31)."""
    known = leadership.voters.get(replica)
    if known is None:
        known = leadership.observers.setdefault(replica, Progress())
    return known


def _replace_parked(node: Replica, leadership: Leadership, replica: ReplicaKey) -> None:
    """A replica has one fetch under way: its earlier one is answered with nothing."""
    for parked in leadership.parked:
        if parked.request.replica == replica:
            leadership.parked.remove(parked)
            reply(node, parked.token, _nothing(node, leadership))
            return


def _nothing(node: Replica, leadership: Leadership) -> FetchResponse:
    return FetchResponse(Error.NONE, node.epoch, node.me.node_id, told_high_watermark(node, leadership))


def told_high_watermark(node: Replica, leadership: Leadership) -> int:
    """The high watermark as others are told it: unknown (−1) until the leader has committed in its epoch."""
    return node.high_watermark if node.high_watermark > leadership.epoch_start else -1


def serve_parked(node: Replica, leadership: Leadership) -> None:
    """Answer the fetches that there is something to answer, and those that were held long enough."""
    if not leadership.parked:
        return
    watermark = told_high_watermark(node, leadership)
    still = []
    for parked in leadership.parked:
        request = parked.request
        end = node.log.end_offset if request.replica is not None else max(watermark, 0)
        behind = request.high_watermark is not None and watermark > request.high_watermark
        if request.fetch_offset < end or behind or parked.deadline_ms <= node.now_ms:
            batches = node.log.read(request.fetch_offset, node.config.fetch_max_records, end)
            response = FetchResponse(Error.NONE, node.epoch, node.me.node_id, watermark, batches)
            reply(node, parked.token, response)
        else:
            still.append(parked)
    leadership.parked = still


def leave_fetches(node: Replica, leadership: Leadership) -> None:
    """Leadership ends: whoever waits for records is told."""
    for parked in leadership.parked:
        reply(node, parked.token, FetchResponse(Error.NOT_LEADER_OR_FOLLOWER, node.epoch, None, -1))


def advance_high_watermark(node: Replica, leadership: Leadership) -> None:
    """Commit what a majority of voters holds, when the last of it is of this leader's own epoch (S853-9)."""
    log_end = node.log.end_offset
    voters = [min(progress.end_offset, log_end) for progress in leadership.voters.values()]
    if node.is_voter:
        voters.append(log_end)
    observers = [min(progress.end_offset, log_end) for progress in leadership.observers.values()]
    end = node.decisions.replicated_end(voters, observers, node.needed)
    if end <= node.high_watermark:
        return
    entry_epoch = node.log.epoch_at(end - 1)
    if node.decisions.may_commit(entry_epoch, node.epoch):
        raise_high_watermark(node, end)


def raise_high_watermark(node: Replica, end: int) -> None:
    """Note and trace a higher high watermark."""
    trace(
        node,
        "high_watermark",
        high_watermark=end,
        previous_high_watermark=node.high_watermark,
        epoch=node.epoch,
        state=node.state_name,
        entry_epoch=node.log.epoch_at(end - 1),
        voters=voter_names(node),
    )
    node.high_watermark = end


def silence_ms(node: Replica, leadership: Leadership) -> int:
    """How long ago a majority of voters, this one included, had last been heard of by a fetch."""
    fetched = [progress.fetched_ms for progress in leadership.voters.values()]
    if node.is_voter:
        fetched.append(node.now_ms)
    return node.now_ms - sorted(fetched, reverse=True)[node.needed - 1]


def has_lapsed(node: Replica, leadership: Leadership) -> bool:
    """Whether the leader must resign; else forget observers that are long gone, and set when to look again (S853-14)."""
    silence, limit = silence_ms(node, leadership), node.config.check_quorum_ms
    if node.decisions.leadership_lapsed(silence, limit):
        return True
    gone_ms = node.now_ms - OBSERVER_TIMEOUTS * node.config.fetch_timeout_ms
    leadership.observers = {key: each for key, each in leadership.observers.items() if each.fetched_ms > gone_ms}
    leadership.quorum_due_ms = node.now_ms + (limit - silence if silence < limit else limit)
    return False


def begin_due_ms(node: Replica, leadership: Leadership, voter: ReplicaKey) -> int:
    """When a voter is to be told who leads: at once when a read needs its word, else when it has been silent for a while."""
    progress = leadership.voters[voter]
    if leadership.reads and progress.confirmed_round < leadership.reads[-1].round:
        return 0
    quiet_ms = progress.fetched_ms + node.config.fetch_timeout_ms // 2 if progress.told else 0
    return max(progress.begin_due_ms, quiet_ms)


def begin_request(node: Replica, leadership: Leadership, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    """Tell a voter that this node leads, and note when to tell it again should it not answer or fetch."""
    leadership.voters[voter].begin_due_ms = node.now_ms + node.config.fetch_timeout_ms // 2
    return BeginQuorumEpochRequest(node.epoch, node.me.node_id, voter)


def describe_quorum(node: Replica) -> DescribeQuorumResponse:
    """What DescribeQuorum answers."""
    leadership = node.leadership
    if leadership is None or node.closing:
        return DescribeQuorumResponse(Error.NOT_LEADER_OR_FOLLOWER, node.epoch, node.known_leader)
    mine = ReplicaProgress(node.me, node.log.end_offset, node.now_ms)
    voters = [mine if voter == node.me else _describe(voter, leadership.voters[voter]) for voter in node.config.voters]
    observers = [_describe(replica, progress) for replica, progress in leadership.observers.items()]
    return DescribeQuorumResponse(
        Error.NONE,
        node.epoch,
        node.me.node_id,
        told_high_watermark(node, leadership),
        tuple(voters),
        tuple(observers),
    )


def _describe(replica: ReplicaKey, progress: Progress) -> ReplicaProgress:
    return ReplicaProgress(replica, progress.end_offset, progress.fetched_ms if progress.end_offset >= 0 else -1)
