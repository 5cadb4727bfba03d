"""The partition that a KRaft quorum replicates."""

from __future__ import annotations

from uuid import UUID

TOPIC_NAME = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
"""Kafka's ``Uuid(0, 1)``"""
PARTITION = 0
PARTITION_NAME = f"{TOPIC_NAME}-{PARTITION}"
"""the directory of the log, and the ``partition`` of evidence rows"""
