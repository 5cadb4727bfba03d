"""Link faults on machines: by either tool, exact, and of others' rules none is touched."""

from __future__ import annotations

from itertools import permutations

import pytest

from clusters.backends.ssh.agent.links import IptablesLinks, LinksError, NftLinks
from clusters.links import OPEN, between, groups
from tests.clusters.ssh.machines import IPTABLES, NFT
from workloads.problem import Problem

pytestmark = pytest.mark.ssh


def matrix(cluster):
    pairs = list(permutations([node.name for node in cluster.nodes], 2))
    return frozenset(pair for pair, arrived in cluster.probe(pairs).items() if not arrived)


@pytest.mark.skipif(IPTABLES is None, reason="there is no iptables")
def test_a_machine_without_nft_cuts_by_iptables_beside_the_rules_of_others(make_machines, make_cluster):
    machines = make_machines(count=2, hidden=(NFT,))
    with machines.inside():
        for number in (1, 2):
            machines.run(number, f"{IPTABLES} -N THEIRS; {IPTABLES} -A THEIRS -j ACCEPT; {IPTABLES} -A INPUT -j THEIRS")
        before = [machines.run(number, f"{IPTABLES}-save -t filter | grep -v '^[#:]'") for number in (1, 2)]
        cluster = make_cluster(machines, 2)
        cluster.up()
        assert {facts["links"] for facts in cluster.facts().values()} == {"iptables"}
        for links in (between(["n1"], ["n2"]), between(["n2"], ["n1"]), groups(["n1"], ["n2"]), OPEN):
            cluster.cut(links)
            assert matrix(cluster) == links.cut
        cluster.cut(between(["n1"], ["n2"]))
        assert machines.run(2, f"{IPTABLES} -S INPUT").splitlines()[1].startswith("-A INPUT -j NEMESIS-")
        cluster.down()
        after = [machines.run(number, f"{IPTABLES}-save -t filter | grep -v '^[#:]'") for number in (1, 2)]
        assert after == before


@pytest.mark.skipif(IPTABLES is None, reason="there is no iptables")
def test_a_machine_that_can_do_neither_is_refused_before_anything_runs(make_machines, make_cluster):
    machines = make_machines(count=1, hidden=(NFT, IPTABLES))
    with machines.inside():
        cluster = make_cluster(machines, 1)
        with pytest.raises(Problem) as caught:
            cluster.up()
    assert caught.value.slug == "links-not-available"
    assert "nftables:" in caught.value.what
    assert "iptables:" in caught.value.what
    assert list((machines.disk(1) / "runs").iterdir()) == []


def test_when_somebody_flushes_all_rules_the_probe_tells_and_the_next_cut_holds(machines, make_cluster):
    cluster = make_cluster(machines)
    cluster.up()
    cut = between(["n1"], ["n2"])
    cluster.cut(cut)
    machines.run(2, "nft flush ruleset")
    assert matrix(cluster) == frozenset()
    cluster.cut(OPEN)
    assert machines.run(2, "nft list ruleset") == ""
    cluster.cut(cut)
    assert matrix(cluster) == cut.cut


@pytest.mark.parametrize("kind", [NftLinks, IptablesLinks])
def test_what_is_not_there_is_removed_without_complaint_and_a_bad_address_changes_nothing(make_machines, kind):
    if kind is IptablesLinks and IPTABLES is None:
        pytest.skip("there is no iptables")
    with make_machines(count=1).inside(1):
        links = kind("lab-1-00000000abcd", "10.99.0.1")
        links.remove()
        links.cut(["10.99.0.2"])
        with pytest.raises(LinksError):
            links.cut(["10.99.0.3", "no address"])
        assert links.exists()
        again = kind("lab-1-00000000abcd", "10.99.0.1")
        again.remove()
        again.remove()
        assert not again.exists()
