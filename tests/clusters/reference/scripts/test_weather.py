"""The servers themselves, with their files and frames, in random weather: partitions, kills, power cuts, pauses, wipes."""

from __future__ import annotations

from random import Random

import pytest

from clusters.candidates.reference.script.play import Play, Stage
from tests.clusters.reference.core import invariants
from workloads.history.operation import Status

PAUSES_MS = (1, 5, 20, 100, 400, 1000)


def storm(seed: int, voters: int, steps: int = 40) -> Play:
    random = Random(seed)
    play = Play(Stage(voters=voters, observers=seed % 2, latency_ms=(1, random.choice([1, 20, 60]))), seed)
    for step in range(steps):
        _strike(play, random, step)
        play.run_ms(random.choice(PAUSES_MS))
    return play


def _strike(play: Play, random: Random, step: int) -> None:
    name = random.choice(play.nodes)
    machine = play.engine.machines[name]
    words = ["split", "holes", "heal", "kill", "power", "restart", "pause", "resume", "clients"]
    match random.choices(words, [10, 5, 10, 5, 5, 12, 4, 4, 45])[0]:
        case "split":
            play.split(random.sample(play.nodes, random.randint(1, len(play.nodes))))
        case "holes":
            play.cut(*(f"{a}>{b}" for a in play.nodes for b in play.nodes if a != b and random.random() < 0.3))
        case "heal":
            play.heal()
        case "kill" if machine.process is not None:
            play.kill(name)
        case "power" if machine.process is not None:
            play.power_cut(name)
        case "restart":
            play.restart(name)
        case "pause":
            play.pause(name)
        case "resume":
            play.resume(name)
        case "clients":
            for turn in range(random.randint(1, 4)):
                asked = random.choice([play.leader() or name, random.choice(play.nodes)])
                if random.random() < 0.5:
                    play.write(asked, random.randint(0, 2), 100 * step + turn)
                else:
                    play.read(asked, random.randint(0, 2))


def calm(play: Play) -> None:
    play.heal()
    for name, machine in play.engine.machines.items():
        if machine.process is None:
            play.restart(name)
        play.resume(name)


def broken(play: Play) -> list[str]:
    events = play.engine.recorder.events()
    return [
        *invariants.election_safety(events),
        *invariants.one_vote(events),
        *invariants.epochs_monotone(events),
        *invariants.log_safety(events),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_servers_are_safe_in_any_weather_and_serve_after_it(seed: int) -> None:
    play = storm(seed, voters=(3, 5, 1)[seed % 3])
    assert broken(play) == []
    calm(play)
    play.run_until_led()
    play.run_ms(3000)
    leader = play.run_until_led()
    assert play.run_until_done(play.write(leader, 9, -1)).status is Status.OK
    for name in play.nodes:
        assert play.run_until_done(play.read(name, 9)).value == -1
    play.run_until(lambda: len({play.node(name).machine.applied_end for name in play.nodes}) == 1)
    assert len({play.node(name).machine.digest for name in play.nodes}) == 1
    assert broken(play) == []


def test_a_wiped_voter_comes_back_as_an_observer_and_refills() -> None:
    play = Play(Stage(), 3)
    leader = play.run_until_led()
    for value in range(20):
        play.run_until_done(play.write(leader, 1, value))
    wiped = next(name for name in play.nodes if name != leader)
    before = play.node(wiped).me
    play.wipe(wiped)
    play.restart(wiped)
    assert play.node(wiped).me.node_id == before.node_id
    assert play.node(wiped).me.directory_id != before.directory_id
    play.run_until(lambda: play.node(wiped).log.end_offset == play.node(leader).log.end_offset)
    assert play.run_until_done(play.read(wiped, 1)).value == 19
    play.run_ms(5000)
    assert play.node(wiped).state_name == "observer"
    play.kill(leader)
    play.run_ms(5000)
    assert play.leader() is None
