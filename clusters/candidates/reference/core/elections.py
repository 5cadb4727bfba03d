"""Elections: pre-votes, votes, and what a replica answers to both (KIP-595, KIP-996)."""

from __future__ import annotations

from clusters.candidates.reference.core.effects import Token
from clusters.candidates.reference.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    ReplicaKey,
    VoteRequest,
    VoteResponse,
)
from clusters.candidates.reference.core.replica import Election, Replica, reply, trace
from clusters.candidates.reference.core.roles import Event, State, step
from clusters.candidates.reference.core.states import (
    begin_fetching,
    election_timeout_ms,
    follow,
    hear,
    lead,
    learn_epoch,
    move,
)


def on_election_timeout(node: Replica) -> None:
    """The election timeout passed (R853-16, -19, -21; with pre-vote R650-14). A resigned leader may raise its epoch once."""
    match node.state:
        case State.RESIGNED:
            node.epoch, node.leader_id, node.voted_for = node.epoch + 1, None, None
            move(node, Event.ELECTION_TIMEOUT)
            node.election_deadline_ms = election_timeout_ms(node)
        case State.PROSPECTIVE:
            _lose_pre_vote(node)
        case _:
            _ask_pre_votes(node, Event.ELECTION_TIMEOUT)


def on_fetch_timeout(node: Replica) -> None:
    """No fetch succeeded for the fetch timeout: a voter asks whether it would be elected (R853-26), an observer looks for
    another leader and keeps the vote that it may have given."""
    if node.is_voter:
        _ask_pre_votes(node, Event.FETCH_TIMEOUT)
    else:
        node.leader_id = None
        move(node, Event.OBSERVER_FETCH_TIMEOUT)


def _ask_pre_votes(node: Replica, event: Event) -> None:
    move(node, event)
    node.election = Election(pre_vote=True, granted={node.me})
    node.election_deadline_ms = election_timeout_ms(node)
    _count(node, node.election)


def _stand(node: Replica) -> None:
    """Raise the epoch and vote for oneself: a vote like any other."""
    node.epoch, node.leader_id, node.voted_for = node.epoch + 1, None, node.me
    move(node, Event.PRE_VOTE_WON)
    trace_vote(node, node.me, *node.log.position, granted=True, pre_vote=False)
    ask_votes(node)


def ask_votes(node: Replica) -> None:
    """Begin to count the votes of this epoch, one's own first. How long is always drawn: candidates that tie must not tie again."""
    config = node.config
    node.election = Election(pre_vote=False, granted={node.me})
    node.election_deadline_ms = node.now_ms + config.election_timeout_ms + node.draw(config.election_timeout_ms)
    _count(node, node.election)


def _lose_pre_vote(node: Replica) -> None:
    if node.leader_id is not None:
        move(node, Event.PRE_VOTE_LOST_TO_LEADER)
        begin_fetching(node)
        return
    move(node, Event.PRE_VOTE_LOST if node.voted_for is None else Event.PRE_VOTE_LOST_AFTER_VOTE)
    node.election_deadline_ms = election_timeout_ms(node)


def _count(node: Replica, election: Election) -> None:
    granted, needed = len(election.granted), node.needed
    lost = len(node.config.voters) - len(election.refused) < needed
    if election.pre_vote:
        if node.decisions.pre_vote_is_won(granted, needed):
            _stand(node)
        elif lost:
            _lose_pre_vote(node)
    elif granted >= needed:
        lead(node)
    elif lost:
        backoff = node.now_ms + node.draw(node.config.election_timeout_ms)
        node.election_deadline_ms = min(node.election_deadline_ms, backoff)


def vote_request(node: Replica, election: Election, voter: ReplicaKey) -> VoteRequest:
    """Ask one voter (R650-11)."""
    last_epoch, end_offset = node.log.position
    return VoteRequest(node.epoch, node.me, voter, last_epoch, end_offset, election.pre_vote)


def on_vote_answer(node: Replica, voter: ReplicaKey, answer: VoteResponse, *, current: bool) -> None:
    """A voter answers; ``current`` says that nothing has changed since it was asked (S853-13)."""
    generation = node.generation
    hear(node, answer.epoch, answer.leader_id)
    election = node.election
    if election is None or not current or node.generation != generation:
        return
    if answer.error is Error.NONE and answer.granted:
        election.granted.add(voter)
    else:
        election.refused.add(voter)
    _count(node, election)


def on_vote(node: Replica, token: Token, request: VoteRequest) -> None:
    """Somebody asks for a vote or a pre-vote. A higher epoch is learned before anything else, by a pre-vote too."""
    error, granted = Error.NONE, False
    if request.epoch < node.epoch:
        error = Error.FENCED_LEADER_EPOCH
    else:
        if request.epoch > node.epoch:
            learn_epoch(node, request.epoch)
        if request.voter != node.me:
            error = Error.INVALID_VOTER_KEY
        else:
            granted = _grants_pre_vote(node, request) if request.pre_vote else _grants_vote(node, request)
            trace_vote(
                node,
                request.replica,
                request.last_epoch,
                request.last_offset,
                granted=granted,
                pre_vote=request.pre_vote,
            )
            if granted and not request.pre_vote:
                _give_vote(node, request.replica)
    reply(node, token, VoteResponse(error, node.epoch, node.known_leader, granted))


def _is_up_to_date(node: Replica, request: VoteRequest) -> bool:
    return node.decisions.log_is_up_to_date((request.last_epoch, request.last_offset), node.log.position)


def _grants_vote(node: Replica, request: VoteRequest) -> bool:
    """S853-4. Whoever knows the leader of the epoch votes for nobody else in it."""
    if node.leader_id is not None:
        return False
    return node.decisions.vote_is_free(node.voted_for, request.replica) and _is_up_to_date(node, request)


def _grants_pre_vote(node: Replica, request: VoteRequest) -> bool:
    """KIP-996: never while leading, nor while following a leader that answers; remembered nowhere."""
    if node.state is State.LEADER or (node.state is State.FOLLOWER and node.has_fetched):
        return False
    return _is_up_to_date(node, request)


def _give_vote(node: Replica, candidate: ReplicaKey) -> None:
    if node.voted_for == candidate:
        return
    node.voted_for = candidate
    if step(node.state, Event.VOTE_GRANTED) is node.state:
        return
    move(node, Event.VOTE_GRANTED)
    node.election_deadline_ms = election_timeout_ms(node)


def trace_vote(
    node: Replica, candidate: ReplicaKey, last_epoch: int, end_offset: int, *, granted: bool, pre_vote: bool
) -> None:
    """Trace an answer to a candidate; a candidate's vote for itself is one too."""
    log_epoch, log_end = node.log.position
    trace(
        node,
        "vote",
        granted=granted,
        peer=candidate.node,
        peer_directory_id=candidate.directory_id,
        epoch=node.epoch,
        pre_vote=pre_vote,
        offset=end_offset,
        entry_epoch=last_epoch,
        log_end=log_end,
        log_epoch=log_epoch,
    )


def on_begin_quorum_epoch(node: Replica, token: Token, request: BeginQuorumEpochRequest) -> None:
    """A leader says that it leads. Only the voter that is meant takes its word (R853-78)."""
    error = Error.NONE
    if request.epoch < node.epoch:
        error = Error.FENCED_LEADER_EPOCH
    elif request.voter != node.me:
        if request.epoch > node.epoch:
            learn_epoch(node, request.epoch)
        error = Error.INVALID_VOTER_KEY
    elif request.leader_id == node.me.node_id:
        error = Error.INVALID_REQUEST
    elif request.epoch > node.epoch or node.leader_id is None:
        follow(node, request.epoch, request.leader_id)
    elif node.leader_id != request.leader_id:
        error = Error.INVALID_REQUEST
    reply(node, token, BeginQuorumEpochResponse(error, node.epoch, node.known_leader))


def on_end_quorum_epoch(node: Replica, token: Token, request: EndQuorumEpochRequest) -> None:
    """A leader resigns: its followers stand for election at once, the longest log first (R853-3: a help only)."""
    error = Error.NONE
    if request.epoch < node.epoch:
        error = Error.FENCED_LEADER_EPOCH
    else:
        if request.epoch > node.epoch:
            learn_epoch(node, request.epoch)
        if node.state is State.FOLLOWER and node.leader_id == request.leader_id:
            rank = request.preferred.index(node.me) if node.me in request.preferred else len(request.preferred)
            pause_ms = rank * node.config.retry_backoff_ms
            node.has_fetched = False
            node.fetch_deadline_ms = min(node.fetch_deadline_ms, node.now_ms + pause_ms)
    reply(node, token, EndQuorumEpochResponse(error, node.epoch, node.known_leader))
