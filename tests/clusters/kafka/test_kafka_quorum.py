"""Real controllers of each generation: started, driven, killed and wiped on loopback, and what they leave is read."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pyarrow as pa
import pytest

from clusters.candidates.kafka.candidate import KafkaCandidate
from tests.clusters.kafka.loopback import CLUSTER_ID, Loopback, quorum, until_ok
from workloads.clients.kafka import KAFKA_CLIENTS
from workloads.history.operation import Consistency, Invocation, Status

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

RELEASES = [("3.6.2", "static"), ("3.7.0", "static"), ("3.9.2", "dynamic"), ("4.1.2", "static"), ("4.3.1", "dynamic")]
ADD = Invocation("add", None, (1000,))


@pytest.fixture(params=RELEASES, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def loopback(request, tmp_path):
    version, kind = request.param
    candidate = KafkaCandidate(version, quorum=kind)
    entry = candidate.install(print)
    made = Loopback(tmp_path, candidate, entry, quorum(tmp_path, kind))
    for name in made.names:
        made.format(name)
        made.start(name)
    yield made
    made.close()


def invoke(client, invocation):
    return lambda: client.invoke(invocation, 2.0)


async def play(loopback: Loopback) -> dict[str, list]:
    """Use every object, kill the leader, wipe a follower, and use them again."""
    seen: dict[str, list] = defaultdict(list)
    clients = KAFKA_CLIENTS["counter"](CLUSTER_ID)
    client = clients(loopback.connect, loopback.names, None, 0)
    values = iter(range(1, 1000))
    registers = "register" in loopback.candidate.workloads

    async def use() -> None:
        for _ in range(5):
            seen["add"].append((await until_ok(invoke(client, ADD))).output[0])
            value = next(values)
            # An append that nobody answered is not asked again: the broker may be registered.
            done = await client.invoke(Invocation("append", None, (value,)), 2.0)
            if done.status is Status.OK:
                seen["append"].append((done.offset, value))
            if registers:
                value = next(values)
                done = await client.invoke(Invocation("write", value % 12, (value,)), 2.0)
                if done.status is Status.OK:
                    seen["write"].append((value % 12, value))

    await use()
    leader = client.node
    loopback.kill(leader)
    await use()
    assert client.node != leader
    loopback.start(leader)
    follower = next(name for name in loopback.names if name not in (leader, client.node))
    loopback.kill(follower)
    loopback.wipe(follower)
    loopback.start(follower)
    await use()
    # Stale and committed: a pinned reader sees the last write sooner or later, every node does.
    if registers:
        key, value = seen["write"][-1]
        for name in loopback.names:
            reader = clients(loopback.connect, loopback.names, name, 1)
            asked = Invocation("read", key, (), Consistency.STALE)
            async with asyncio.timeout(60):
                while (await reader.invoke(asked, 2.0)).output != (value,):
                    await asyncio.sleep(0.05)
            await reader.close()
    polled = await until_ok(invoke(client, Invocation("poll", None, (0,), Consistency.STALE)))
    seen["poll"] = list(zip(polled.output[::2], polled.output[1::2], strict=True))
    await client.close()
    return seen


def tables(loopback: Loopback) -> dict[str, list[dict]]:
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    for name, table in loopback.candidate.evidence(loopback.manifest(), loopback.run):
        parts[name].append(table)
    return {name: pa.concat_tables(each).to_pylist() for name, each in parts.items()}


def test_a_quorum_is_driven_and_its_evidence_agrees_with_what_clients_saw(loopback):
    seen = asyncio.run(play(loopback))
    assert len(seen["add"]) == 15
    assert seen["add"] == sorted(set(seen["add"]))
    assert [offset for offset, _ in seen["append"]] == sorted(offset for offset, _ in seen["append"])
    assert set(seen["append"]) <= set(seen["poll"])
    for name in loopback.names:
        loopback.kill(name, final=True)

    found = tables(loopback)
    entries = found["log_entries"]
    longest = max(loopback.names, key=lambda name: sum(row["final"] and row["node"] == name for row in entries))
    log = [row for row in entries if row["final"] and row["node"] == longest]
    assert {value + 1000 for value in seen["add"]} <= {row["value"] for row in log if row["f"] == "add"}
    assert set(seen["append"]) <= {(row["offset"], row["value"]) for row in log if row["f"] == "append"}
    assert set(seen["write"]) <= {(row["key"], row["value"]) for row in log if row["f"] == "write"}
    assert all(state["problem"] is None for state in found["quorum_states"])
    check_logs_match(entries)
    check_events(loopback, found)


def check_logs_match(entries: list[dict]) -> None:
    """One (offset, epoch) has one content in every copy of every node."""
    content: dict[tuple[int, int], int] = {}
    for row in entries:
        assert content.setdefault((row["offset"], row["epoch"]), row["checksum"]) == row["checksum"]


def detail_of_a_wiped_log(detail: str) -> bool:
    return "Detected non-monotonic update of fetch offset" in detail and "-> 0 " in detail


def check_events(loopback: Loopback, found: dict[str, list[dict]]) -> None:
    events = found["node_events"]
    # A leader may have seen the wiped follower's old fetch offset, and then says that it fell back to 0.
    told = [row["detail"] for row in events if row["kind"] in ("problem", "fatal")]
    assert not [detail for detail in told if not detail_of_a_wiped_log(detail)]
    starts = {(row["node"], row["incarnation"]) for row in events if row["kind"] == "start"}
    assert starts == {(name, k + 1) for name in loopback.names for k in range(loopback.incarnations[name])}
    # Leaders that nodes tell of themselves are those of the LeaderChange records.
    told = {(row["epoch"], row["node"]) for row in events if row["kind"] == "state" and row["state"] == "leader"}
    recorded = {(row["epoch"], row["leader"]) for row in found["log_entries"] if row["kind"] == "leader_change"}
    assert recorded <= told
    assert len(recorded) >= 2
    granted = [row for row in events if row["kind"] == "vote" and row["granted"] and not row["pre_vote"]]
    for epoch, leader in recorded:
        voters = {row["node"] for row in granted if row["epoch"] == epoch and row["peer"] == leader}
        assert len(voters) >= 2, f"epoch {epoch} of {leader}"
    # A wiped node is another identity, also where the framework had to assign it.
    identities = {(row["node"], row["directory_id"]) for row in events}
    assert len(identities) == len(loopback.names) + 1
    assert all(directory_id for _, directory_id in identities)
