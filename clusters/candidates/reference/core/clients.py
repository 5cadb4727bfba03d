"""What clients ask: writes, and reads at leader, follower and observer (KIP-650 with X650-1 … 5)."""

from __future__ import annotations

from clusters.candidates.reference.core.effects import Token
from clusters.candidates.reference.core.messages import (
    AppendRequest,
    AppendResponse,
    Error,
    ReadOffsetRequest,
    ReadOffsetResponse,
    ReadRequest,
    ReadResponse,
)
from clusters.candidates.reference.core.records import DATA, Batch, well_formed
from clusters.candidates.reference.core.replica import (
    NEVER_MS,
    Leadership,
    PendingAppend,
    PendingRead,
    Replica,
    append_batch,
    reply,
    trace,
)
from clusters.wire.reference_records import Command

MAX_BATCH_RECORDS = 1000


def on_append(node: Replica, token: Token, request: AppendRequest) -> None:
    """A client writes. A refusal here is definite: nothing was appended."""
    leadership = node.leadership
    error = Error.NONE
    if not request.commands or not all(map(well_formed, request.commands)):
        error = Error.INVALID_REQUEST
    elif node.closing:
        error = Error.BROKER_NOT_AVAILABLE
    elif leadership is None:
        error = Error.NOT_LEADER_OR_FOLLOWER
    elif len(leadership.appends) + len(leadership.unwritten) >= node.config.max_pending:
        error = Error.BROKER_NOT_AVAILABLE
    if error is not Error.NONE or leadership is None:
        reply(node, token, AppendResponse(error, node.epoch, node.known_leader))
        return
    leadership.unwritten.append((token, request, node.now_ms + request.timeout_ms))


def write_arrivals(node: Replica, leadership: Leadership) -> None:
    """Append the writes that arrived since effects were last taken, in the order of arrival, as few batches."""
    if not leadership.unwritten:
        return
    commands: list[Command] = []
    offset = node.log.end_offset
    for token, request, deadline_ms in leadership.unwritten:
        end = offset + len(request.commands)
        leadership.appends.append(PendingAppend(token, offset, end, deadline_ms))
        leadership.appends_due_ms = min(leadership.appends_due_ms, deadline_ms)
        commands.extend(request.commands)
        offset = end
    leadership.unwritten.clear()
    for first in range(0, len(commands), MAX_BATCH_RECORDS):
        records = tuple(commands[first : first + MAX_BATCH_RECORDS])
        append_batch(node, Batch(node.log.end_offset, node.epoch, DATA, records))


def apply(node: Replica) -> None:
    """Bring the state machine up to what may be applied."""
    machine = node.machine
    end = min(node.decisions.applicable_end(node.high_watermark, node.log.end_offset), node.log.end_offset)
    if end <= machine.applied_end:
        return
    begun_at = machine.applied_end
    refused: list[int] = []
    for batch in node.log.read(machine.applied_end, end, end):
        refused.extend(machine.apply(batch))
    if node.leadership is not None:
        node.leadership.refused.update(refused)
    if machine.applied_end > begun_at:
        trace(node, "apply", offset=machine.applied_end, high_watermark=node.high_watermark, digest=machine.digest)


def acknowledge(node: Replica, leadership: Leadership) -> None:
    """Answer the writes that are committed and applied (X650-3)."""
    applied_end = min(node.machine.applied_end, node.high_watermark)
    end = node.decisions.acknowledged_end(applied_end, node.log.end_offset)
    appends, refused = leadership.appends, leadership.refused
    while appends and appends[0].end_offset <= end:
        pending = appends.popleft()
        applied = tuple(offset not in refused for offset in range(pending.base_offset, pending.end_offset))
        refused.difference_update(range(pending.base_offset, pending.end_offset))
        if pending.answered:
            continue
        for offset, done in enumerate(applied, pending.base_offset):
            if done:
                trace(node, "acknowledge", offset=offset, epoch=node.epoch, high_watermark=node.high_watermark)
        response = AppendResponse(Error.NONE, node.epoch, node.me.node_id, pending.base_offset, applied)
        reply(node, pending.token, response)
    if not appends:
        refused.clear()
        leadership.appends_due_ms = NEVER_MS


def expire_writes(node: Replica, leadership: Leadership) -> None:
    """Answer the writes whose deadline has passed; whether they will take effect nobody knows."""
    due = NEVER_MS
    for pending in leadership.appends:
        if pending.answered:
            continue
        if pending.deadline_ms <= node.now_ms:
            pending.answered = True
            reply(node, pending.token, AppendResponse(Error.REQUEST_TIMED_OUT, node.epoch, node.known_leader))
        else:
            due = min(due, pending.deadline_ms)
    leadership.appends_due_ms = due


def fail_writes(node: Replica, leadership: Leadership) -> None:
    """Leadership ends: what was not appended failed for certain, of the rest nobody knows (S853-3)."""
    for token, _request, _deadline_ms in leadership.unwritten:
        reply(node, token, AppendResponse(Error.NOT_LEADER_OR_FOLLOWER, node.epoch, None))
    for pending in leadership.appends:
        if not pending.answered:
            reply(node, pending.token, AppendResponse(Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, node.epoch, None))


def on_read(node: Replica, token: Token, request: ReadRequest) -> None:
    """A client reads here. A stale read is answered at once (R650-28), but not by a replica that has not learned since it started
    what is committed: it would show less than it had shown before."""
    if (request.key is None) == (request.from_offset is None) or request.limit < 1:
        reply(node, token, ReadResponse(Error.INVALID_REQUEST, node.epoch, node.known_leader))
    elif node.closing:
        reply(node, token, ReadResponse(Error.BROKER_NOT_AVAILABLE, node.epoch, node.known_leader))
    elif not request.linearizable and node.high_watermark == 0:
        reply(node, token, ReadResponse(Error.LEADER_NOT_AVAILABLE, node.epoch, node.known_leader))
    elif not request.linearizable:
        _answer(node, PendingRead(token, request, NEVER_MS))
    else:
        _wait(node, PendingRead(token, request, node.now_ms + request.timeout_ms))


def on_read_offset(node: Replica, token: Token, request: ReadOffsetRequest) -> None:
    """Another node asks how far its reads must see (R650-23): answered as a read of one's own is."""
    pending = PendingRead(token, None, node.now_ms + request.timeout_ms)
    if node.leadership is None or node.closing:
        error = Error.BROKER_NOT_AVAILABLE if node.closing else Error.NOT_LEADER_OR_FOLLOWER
        _refuse(node, pending, error, node.known_leader)
    else:
        _wait(node, pending)


def _wait(node: Replica, pending: PendingRead) -> None:
    leadership = node.leadership
    waiting = node.reads_to_ask if leadership is None else leadership.reads
    if len(waiting) + len(node.reads_held) >= node.config.max_pending:
        _refuse(node, pending, Error.BROKER_NOT_AVAILABLE, node.known_leader)
        return
    pending.required_offset = node.high_watermark
    node.reads_due_ms = min(node.reads_due_ms, pending.deadline_ms)
    waiting.append(pending)


def settle_reads(node: Replica) -> None:
    """Answer every read whose time has come; refuse those that nobody can be asked for."""
    leadership = node.leadership
    if leadership is not None:
        leadership.reads.extend(node.reads_to_ask)
        node.reads_to_ask.clear()
        if leadership.reads:
            _settle_leader_reads(node, leadership)
    elif node.reads_to_ask and node.known_leader is None:
        for pending in node.reads_to_ask:
            _refuse(node, pending, Error.LEADER_NOT_AVAILABLE, None)
        node.reads_to_ask.clear()
    if node.reads_held:
        still = []
        for pending in node.reads_held:
            if node.decisions.read_is_covered(node.machine.applied_end, pending.required_offset):
                _answer(node, pending)
            else:
                still.append(pending)
        node.reads_held = still


def _settle_leader_reads(node: Replica, leadership: Leadership) -> None:
    """A read is answered when a round of confirmations that began after it arrived is won (X650-1), and once the leader has
    committed in its epoch, since before that it does not know what is committed (X650-2)."""
    if any(pending.round == 0 for pending in leadership.reads):
        leadership.round += 1
        for pending in leadership.reads:
            pending.round = pending.round or leadership.round
    confirmed_rounds = [progress.confirmed_round for progress in leadership.voters.values()]
    committed = node.high_watermark > leadership.epoch_start
    ready: dict[int, bool] = {}
    still = []
    for pending in leadership.reads:
        if pending.round not in ready:
            confirmations = int(node.is_voter) + sum(confirmed >= pending.round for confirmed in confirmed_rounds)
            ready[pending.round] = node.decisions.read_is_confirmed(confirmations, node.needed)
        if committed and ready[pending.round]:
            _answer(node, pending)
        else:
            still.append(pending)
    leadership.reads = still


def _answer(node: Replica, pending: PendingRead) -> None:
    """Answer from what is applied now."""
    machine, request = node.machine, pending.request
    if request is None:
        trace(node, "read_offset", offset=machine.applied_end, high_watermark=node.high_watermark, epoch=node.epoch)
        response = ReadOffsetResponse(Error.NONE, node.epoch, node.known_leader, machine.applied_end)
        reply(node, pending.token, response)
        return
    if request.linearizable:
        trace(
            node,
            "read",
            offset=machine.applied_end,
            required_offset=pending.required_offset,
            high_watermark=node.high_watermark,
        )
    if request.from_offset is not None:
        entries, end = machine.appended(request.from_offset, request.limit)
        answer = ReadResponse(Error.NONE, node.epoch, node.known_leader, entries=entries, applied_offset=end)
    else:
        value = machine.value(request.key) if request.key is not None else None
        answer = ReadResponse(Error.NONE, node.epoch, node.known_leader, value, applied_offset=machine.applied_end)
    reply(node, pending.token, answer)


def _refuse(node: Replica, pending: PendingRead, error: Error, leader_id: int | None) -> None:
    if pending.request is None:
        reply(node, pending.token, ReadOffsetResponse(error, node.epoch, leader_id, -1))
    else:
        reply(node, pending.token, ReadResponse(error, node.epoch, leader_id))


def fail_reads(node: Replica, reads: list[PendingRead], error: Error = Error.NOT_LEADER_OR_FOLLOWER) -> None:
    """Refuse reads that cannot be served any more; a read has no effect, so this is definite."""
    for pending in reads:
        _refuse(node, pending, error, None)


def expire_reads(node: Replica) -> None:
    """Refuse the reads whose deadline has passed (R650-27)."""
    lists = [node.reads_to_ask, node.reads_held]
    if node.leadership is not None:
        lists.append(node.leadership.reads)
    due = NEVER_MS
    for reads in lists:
        for pending in reads:
            if pending.deadline_ms <= node.now_ms:
                _refuse(node, pending, Error.REQUEST_TIMED_OUT, node.known_leader)
            else:
                due = min(due, pending.deadline_ms)
        reads[:] = [pending for pending in reads if pending.deadline_ms > node.now_ms]
    node.reads_due_ms = due


def on_read_offset_answer(node: Replica, reads: tuple[PendingRead, ...], answer: ReadOffsetResponse | None) -> None:
    """The leader said how far these reads must see, or there is no answer (None).

    What was committed stays committed, so the offset holds whoever leads by now (X650-5).
    """
    alive = [pending for pending in reads if pending.deadline_ms > node.now_ms]
    expired = [pending for pending in reads if pending.deadline_ms <= node.now_ms]
    fail_reads(node, expired, Error.REQUEST_TIMED_OUT)
    if answer is None:
        fail_reads(node, alive, Error.LEADER_NOT_AVAILABLE)
    elif answer.error is not Error.NONE:
        fail_reads(node, alive, answer.error)
    else:
        for pending in alive:
            pending.required_offset = answer.offset
        node.reads_held.extend(alive)
        node.reads_due_ms = min([node.reads_due_ms, *(pending.deadline_ms for pending in alive)])
