"""Captures through a run: what was captured is stored and read as it grows; what cannot be captured is told and stops nobody."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from clusters.cluster import NodeSpec
from clusters.collect.rpcs.follow import read_target
from nemesis.cli.main import outcome
from nemesis.exit_codes import ExitCode
from nemesis.life.captures import Captures
from nemesis.store.layout import CAPTURE, RPCS
from tests.clusters.wires import Wire, fetch, fetched, vote
from tests.reports import stored_runs
from tests.reports.test_messages import asks, isolation
from workloads.problem import Problem

_HEAD = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 101)


def packets(wire: Wire, node: str) -> bytes:
    """The pcap file of one node's capture."""
    data = bytearray(_HEAD)
    for seen in wire.seen[node]:
        ports = struct.pack(
            ">HHIIBBHHH", seen.source_port, seen.destination_port, seen.seq, seen.ack, 0x50, seen.flags, 0, 0, 0
        )
        tcp = ports + seen.payload
        packet = struct.pack(">BBHIBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 64, 6, 0, seen.source, seen.destination) + tcp
        data += struct.pack("<IIII", 0, seen.ts_ns, len(packet), len(packet)) + packet
    return bytes(data)


class Beside:
    """A cluster of which only the companions are asked for; each ``take`` gives a third of what a node's capture holds."""

    def __init__(self, folder: Path, held: dict[str, bytes], *, refused: tuple[str, ...] = (), lost: int = 0) -> None:
        self.nodes = tuple(
            NodeSpec(name, number, "voter", f"10.77.0.{number}", 9093, folder / "nodes" / name)
            for number, name in enumerate(("n1", "n2"), start=1)
        )
        self.refused = refused
        self.lost = lost
        self.left = dict(held)
        self.part = {name: len(data) // 3 + 1 for name, data in held.items()}
        self.dismissed: list[str] = []

    def accompany(self, node: str, program: str, settings: dict[str, Any]) -> Any:
        assert program == "capture"
        assert settings == {"port": 9093, "addresses": ["10.77.0.1", "10.77.0.2"]}
        if node in self.refused:
            raise Problem("capture-refused", "no CAP_NET_RAW")
        return {}

    def companion(self, node: str, program: str, op: str, **fields: Any) -> Any:
        assert (program, op) == ("capture", "take")
        data, self.left[node] = self.left[node][: self.part[node]], self.left[node][self.part[node] :]
        part = base64.b64encode(gzip.compress(data)).decode()
        return {"data": part, "left": len(self.left[node]), "packets": 12, "lost": self.lost if fields["last"] else 0}

    def dismiss(self, node: str, program: str) -> None:
        self.dismissed.append(node)


def said() -> Wire:
    wire = Wire().open()
    wire.say(True, vote(1))
    wire.say(True, fetch(2, 10))
    wire.say(False, fetched(2, 10))
    return wire


def live(cluster: Any, folder: Path) -> tuple[list[str], Any]:
    told: list[str] = []
    captures = Captures(cluster, folder, told.append)

    async def through() -> Any:
        await captures.begin()
        return await captures.finish()

    entries = asyncio.run(through())
    captures.close()
    return told, entries


def test_what_both_ends_captured_becomes_messages(tmp_path: Path) -> None:
    wire = said()
    cluster = Beside(tmp_path, {name: packets(wire, name) for name in ("n1", "n2")})
    told, entries = live(cluster, tmp_path)
    assert told == []
    assert [(entry.node, entry.packets, entry.whole) for entry in entries] == [("n1", 12, True), ("n2", 12, True)]
    rows = read_target(tmp_path / RPCS).to_pylist()
    assert [(row["api"], row["kind"], row["fate"]) for row in sorted(rows, key=lambda row: row["ts_ns"])] == [
        ("Vote", "request", "delivered"),
        ("Fetch", "request", "delivered"),
        ("Fetch", "response", "delivered"),
    ]
    kept = gzip.decompress((tmp_path / "nodes" / "n1" / CAPTURE).read_bytes())
    assert kept == packets(wire, "n1"), "the packets stay, for other tools"
    assert sorted(cluster.dismissed) == ["n1", "n2"]


def test_a_node_that_cannot_be_captured_is_told_and_seen_from_the_other_end(tmp_path: Path) -> None:
    wire = said()
    told, entries = live(Beside(tmp_path, {"n1": packets(wire, "n1")}, refused=("n2",), lost=3), tmp_path)
    assert told == ["node-to-node messages are not captured at n2: no CAP_NET_RAW", "the capture of n1 lost 3 packets"]
    assert [(entry.problem, entry.lost) for entry in entries] == [("", 3), ("no CAP_NET_RAW", 0)]
    rows = read_target(tmp_path / RPCS).to_pylist()
    assert {(row["api"], row["fate"], row["delivered_ns"]) for row in rows if row["kind"] == "request"} == {
        ("Vote", "delivered", None),
        ("Fetch", "delivered", None),
    }, "acknowledged, nobody knows when"


def test_a_run_that_fails_leaves_no_half_read_messages(tmp_path: Path) -> None:
    cluster: Any = Beside(tmp_path, {name: packets(said(), name) for name in ("n1", "n2")})
    captures = Captures(cluster, tmp_path, print)
    asyncio.run(captures.begin())
    captures.close()
    assert list(tmp_path.glob("rpcs*")) == []


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    rows = asks("n1", 9, 8.0, {"n2": False, "n3": None}, pre_vote=True) + asks(
        "n1", 10, 9.0, {"n2": True}, pre_vote=False
    )
    cut = isolation(0, "n1", 5, 7, epoch=9)
    faults = [
        {**stored_runs.faults()[0], "isolated": ["n1"], "leader": "n3", "leader_epoch": 9, "started_ns": cut.started_ns}
    ]
    tables = {"operations": [], "faults": faults, "rpcs": rows}
    return stored_runs.store(tmp_path, stored_runs.manifest(), stored_runs.verdict(), tables)


def test_the_messages_of_a_run_are_printed_in_order(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["rpcs", str(stored), "--node", "n3"]) == ExitCode.VALID
    asked, refused = capsys.readouterr().out.splitlines()
    assert asked.endswith("n1 > n3  Vote vNone request 8000: epoch 9, replica n1, pre-vote [delivered after 1.000 ms]")
    assert refused.endswith("[lost]")
    assert outcome(["rpcs", str(stored), "--lost"]) == ExitCode.VALID
    assert capsys.readouterr().out.splitlines() == [refused]
    assert outcome(["rpcs", str(stored), "--rounds"]) == ExitCode.VALID
    assert capsys.readouterr().out.splitlines() == [
        "n1 asked whether it would get votes in epoch 9 at 8.000 s: 0 of 2 asked granted it, 1 did not answer",
        "n1 stood as candidate of epoch 10 at 9.000 s: 1 of 1 asked granted it",
        "fault 1: n1, cut off in epoch 9: 1 pre-vote rounds, 1 vote rounds, epoch raised by 1; it is 10 at the next fault, or the end",
    ]


def test_programs_read_the_messages_as_json(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["rpcs", str(stored), "--api", "vote", "--json"]) == ExitCode.VALID
    document = json.loads(capsys.readouterr().out)
    assert len(document["messages"]) == 6
    assert [(each["candidate"], each["pre_vote"], each["epoch"]) for each in document["rounds"]] == [
        ("n1", True, 9),
        ("n1", False, 10),
    ]
    (back,) = document["returns"]
    assert (back["pre_vote_rounds"], back["vote_rounds"], back["epoch_raised_by"], back["epoch_before"]) == (1, 1, 1, 9)


def test_a_run_without_messages_is_told(tmp_path: Path) -> None:
    run = stored_runs.store(tmp_path, stored_runs.manifest(), stored_runs.verdict())
    assert outcome(["rpcs", str(run)]) == ExitCode.USAGE
