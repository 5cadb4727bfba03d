"""Changes of state: only the edges of the release's own protocol generation (R853-14 … R853-28).

One table a generation, as data: (from, to) → how the epoch may change. ``kip-595``: Kafka up to 3.9, from its QuorumState, with voted
as a state of its own. ``kip-996``: Kafka 4.x and the reference, with prospective; a leader that resigned goes on in the next epoch
(seen on 4.1.2). A row may hide steps that a node takes in one go: a vote in a higher epoch passes through unattached, and a
follower may learn its leader's endpoints (the same epoch and leader again). Each restart begins anew with any state; who
begins by leading is *leader-not-resumed*'s case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import at, node_of, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

HIGHER = "higher"
SAME = "same"
ANY = "same or higher"
SAME_LEADER = "higher, or the same with the same leader"

Edges = dict[tuple[str, str], str]

_EVERYWHERE: Edges = {
    # a higher epoch was learned of
    **{
        (state, "unattached"): HIGHER
        for state in ("unattached", "voted", "candidate", "leader", "follower", "resigned")
    },
    # … and voted in, in one step
    **{(state, "voted"): HIGHER for state in ("voted", "candidate", "leader", "follower")},
    ("unattached", "voted"): ANY,
    ("resigned", "voted"): ANY,
    # a leader was found
    **{(state, "follower"): ANY for state in ("unattached", "voted", "candidate", "resigned")},
    ("follower", "follower"): SAME_LEADER,
    ("leader", "follower"): HIGHER,
    # elections
    ("candidate", "leader"): SAME,
    ("candidate", "candidate"): HIGHER,
    ("leader", "resigned"): SAME,
    # an observer fetches, and looks for a leader when it has none
    ("unattached", "observer"): ANY,
    ("voted", "observer"): ANY,
    ("resigned", "observer"): ANY,
    ("leader", "observer"): HIGHER,
    ("observer", "observer"): ANY,
    ("observer", "unattached"): ANY,
    ("observer", "voted"): HIGHER,
    ("observer", "follower"): ANY,
    ("follower", "observer"): ANY,
}

GENERATIONS: dict[str, Edges] = {
    "kip-595": {
        **_EVERYWHERE,
        **{(state, "candidate"): HIGHER for state in ("unattached", "voted", "follower", "resigned")},
    },
    "kip-996": {
        **_EVERYWHERE,
        **{(state, "prospective"): SAME for state in ("unattached", "voted", "follower", "candidate", "resigned")},
        ("unattached", "unattached"): ANY,  # Kafka 4.x has no state voted: unattached gains a vote
        ("prospective", "prospective"): SAME,  # it gains a vote
        ("prospective", "unattached"): ANY,
        ("prospective", "voted"): ANY,
        ("prospective", "follower"): ANY,
        ("prospective", "observer"): ANY,
        ("prospective", "candidate"): HIGHER,
    },
}
GENERATIONS["kip-595 or kip-996"] = {**GENERATIONS["kip-595"], **GENERATIONS["kip-996"]}
"""generation → legal edges; everything else is illegal. The last one is of runs in which nodes change their release."""

_STATE = witness(
    "node_events", "node", "directory_id", "incarnation", "seq", "ts_ns", "kind", "state", "epoch", "leader"
)

_LEGAL = ", ".join(
    f"('{generation}', '{before}', '{after}', '{rule}')"
    for generation, edges in GENERATIONS.items()
    for (before, after), rule in edges.items()
)

_STEPS = f"""
legal AS (SELECT * FROM VALUES {_LEGAL} AS edges(generation, before, after, rule)),
sequence AS (
    SELECT *, {_STATE} AS proof, lag(state) OVER life AS seen_before, lag(epoch) OVER life AS epoch_before,
           lag(leader) OVER life AS leader_before, lag({_STATE}) OVER life AS proof_before
    FROM events WHERE kind = 'state'
    WINDOW life AS (PARTITION BY run_id, identity, incarnation ORDER BY seq)
),
steps AS (
    SELECT s.*, r.generation, coalesce(s.seen_before, s.previous_state) AS before,
           CASE WHEN s.epoch > s.epoch_before THEN 'higher' WHEN s.epoch = s.epoch_before THEN 'same' ELSE 'lower' END AS change
    FROM sequence AS s INNER JOIN runs AS r ON r.run_id = s.run_id
    WHERE s.seen_before IS NOT NULL
),
judged AS (
    SELECT s.*, l.rule,
           coalesce(CASE l.rule WHEN '{HIGHER}' THEN s.change = 'higher'
                                WHEN '{SAME}' THEN s.change = 'same'
                                WHEN '{ANY}' THEN s.change IN ('same', 'higher')
                                WHEN '{SAME_LEADER}' THEN s.change = 'higher'
                                    OR (s.change = 'same' AND s.leader <=> s.leader_before) END,
                    false) AS is_legal
    FROM steps AS s
    LEFT JOIN legal AS l ON l.generation = s.generation AND l.before = s.before AND l.after = s.state
)"""

_KNOWN = ", ".join(f"'{generation}'" for generation in GENERATIONS)


def _find(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_STEPS,
        anomalies=f"""
            SELECT run_id, concat(identity, ': ', before, ' to ', state) AS subject, min(epoch) AS epoch, NULL AS offset,
                   NULL AS operations, min_by(to_json(struct(rule, generation)), struct(incarnation, seq)) AS facts,
                   min_by(array(proof_before, proof), struct(incarnation, seq)) AS witness
            FROM judged WHERE NOT is_legal AND generation IN ({_KNOWN})
            GROUP BY run_id, identity, before, state, change""",
        tally=f"""
            SELECT run_id, count(*) AS evidence_rows, count(*) AS exercised,
                   max(CASE WHEN generation NOT IN ({_KNOWN})
                            THEN concat('there is no table of legal transitions for generation ', generation) END) AS unknown,
                   NULL AS metrics
            FROM judged GROUP BY run_id""",
    )


def _say(finding: Finding) -> str:
    before, after = finding.witness
    rule = finding.facts.get("rule")
    demand = (
        f"that step needs an epoch that is {rule}"
        if rule
        else f"there is no such step in {finding.facts['generation']}"
    )
    return (
        f"{node_of(after)} went from {before['state']} in epoch {before['epoch']} to {after['state']} in epoch {after['epoch']}"
        f"{at(after.get('ts_ns'))}: {demand}."
    )


LEGAL_TRANSITIONS = Check(
    name="legal-transitions",
    kind=Kind.SAFETY,
    requirement="R853-14 … R853-28, KIP-996",
    title="Nodes change their state only as the protocol allows.",
    situation="changes of state",
    needs=(("node_events",),),
    withheld_by=("state-changes",),
    find=_find,
    sentence=_say,
)
