"""All checks, in the order in which a report lists them: the one place where a check is entered."""

from __future__ import annotations

from checker.check import Check
from checker.checks.acknowledged import ACKNOWLEDGED_BELOW_HIGH_WATERMARK, ACKNOWLEDGED_LOST
from checker.checks.commitment import COMMITTED_DIVERGENCE, COMMITTED_TRUNCATION, LEADER_COMPLETENESS
from checker.checks.committed_reads import COMMITTED_READS
from checker.checks.crashes import NO_CRASH
from checker.checks.disruption import NO_DISRUPTION
from checker.checks.elections import LEADER_NOT_RESUMED, ONE_LEADER_PER_EPOCH
from checker.checks.epochs import EPOCH_MONOTONE
from checker.checks.fetched import HIGH_WATERMARK_FETCHED
from checker.checks.framework import EVIDENCE_COMPLETE, FAULTS_HAPPENED, NOT_STARVED
from checker.checks.high_watermark import (
    APPLIED_BELOW_HIGH_WATERMARK,
    HIGH_WATERMARK_MONOTONE,
    HIGH_WATERMARK_OWN_EPOCH,
    HIGH_WATERMARK_SUPPORTED,
)
from checker.checks.identity import IDENTITY
from checker.checks.linearizable import LINEARIZABLE
from checker.checks.log_matching import LOG_EPOCHS_MONOTONE, LOG_MATCHING
from checker.checks.log_positions import LOG_POSITIONS
from checker.checks.recovery import RECOVERY
from checker.checks.resignation import LEADER_RESIGNS
from checker.checks.snapshots import SNAPSHOT_PREFIX
from checker.checks.transitions import LEGAL_TRANSITIONS
from checker.checks.votes import ONE_VOTE_PER_EPOCH, VOTE_DURABLE, VOTE_UP_TO_DATE

CHECKS: tuple[Check, ...] = (
    ONE_LEADER_PER_EPOCH,
    ONE_VOTE_PER_EPOCH,
    VOTE_DURABLE,
    EPOCH_MONOTONE,
    LEADER_NOT_RESUMED,
    VOTE_UP_TO_DATE,
    LOG_MATCHING,
    LOG_EPOCHS_MONOTONE,
    COMMITTED_DIVERGENCE,
    COMMITTED_TRUNCATION,
    LEADER_COMPLETENESS,
    ACKNOWLEDGED_LOST,
    ACKNOWLEDGED_BELOW_HIGH_WATERMARK,
    HIGH_WATERMARK_OWN_EPOCH,
    HIGH_WATERMARK_SUPPORTED,
    HIGH_WATERMARK_FETCHED,
    HIGH_WATERMARK_MONOTONE,
    APPLIED_BELOW_HIGH_WATERMARK,
    LEGAL_TRANSITIONS,
    IDENTITY,
    SNAPSHOT_PREFIX,
    LINEARIZABLE,
    COMMITTED_READS,
    LOG_POSITIONS,
    LEADER_RESIGNS,
    NO_DISRUPTION,
    RECOVERY,
    NO_CRASH,
    FAULTS_HAPPENED,
    EVIDENCE_COMPLETE,
    NOT_STARVED,
)
