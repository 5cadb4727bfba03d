"""The backend as an ordinary user, and where the kernel refuses it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from clusters.backends.local.doctor import doctor
from clusters.backends.local.plan import check_addresses, plan_nodes
from workloads.problem import Problem

PROJECT = Path(__file__).resolve().parents[3]

as_root = pytest.mark.skipif(os.getuid() != 0, reason="makes another user's or a restricted surrounding: needs root")


def run_as_user(arguments: list[str], before: str = "true") -> subprocess.CompletedProcess[str]:
    """Run python as user 65534 where it can read the interpreter and the project, in a mount namespace that ends with it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    script = f"""
        set -e
        mount -t tmpfs -o mode=755 none /mnt
        mkdir /mnt/python /mnt/project /mnt/packages
        mkdir -m 777 /mnt/home
        mount --bind {shlex.quote(sys.base_prefix)} /mnt/python
        mount --bind {shlex.quote(str(PROJECT))} /mnt/project
        mount --bind {shlex.quote(sysconfig.get_path("purelib"))} /mnt/packages
        {before}
        cd /mnt/home
        exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all --bounding-set -all \
            env -i PATH="$PATH" HOME=/mnt/home TMPDIR=/mnt/home PYTHONDONTWRITEBYTECODE=1 \
            LD_LIBRARY_PATH=/mnt/python/lib PYTHONPATH=/mnt/project:/mnt/packages /mnt/python/bin/{version} {shlex.join(arguments)}
    """
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


TESTS = [
    "-m",
    "pytest",
    "-q",
    "-p",
    "no:cacheprovider",
    "-c",
    "/mnt/project/pyproject.toml",
    "--basetemp=/mnt/home/tmp",
]


@as_root
@pytest.mark.namespaces
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("surrounding", "chosen"),
    [
        pytest.param("true", "local and not whenever", id="plain"),
        # As containers do it: where part of /proc is covered, the kernel lets no user mount a new one.
        pytest.param(
            "mount --bind /dev/null /proc/version",
            "local and (grandchild or behind or cpu or paused or memory or packets)",
            id="covered-proc",
        ),
    ],
)
def test_links_nodes_and_leaks_as_an_ordinary_user(surrounding: str, chosen: str) -> None:
    refusal = run_as_user(["-c", "import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10000000) != 0)"])
    if refusal.returncode:
        pytest.skip(f"the kernel gives ordinary users no user namespaces: {refusal.stderr.strip() or 'unshare fails'}")
    tests = "/mnt/project/tests/clusters"
    common = [f"{tests}/conformance/test_{part}.py" for part in ("links", "nodes", "leaks", "preload", "relays")]
    own = [f"{tests}/local/test_local_{part}.py" for part in ("links", "nodes", "leaks", "packets")]
    ran = run_as_user([*TESTS, "-k", chosen, *common, *own], surrounding)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
    assert "skipped" not in ran.stdout


REFUSED = """
import sys
from pathlib import Path
from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes
from workloads.problem import Problem

folder = Path(sys.argv[1])
try:
    LocalCluster(plan_nodes(folder, 1), folder / "ledger").up()
except Problem as problem:
    print(problem.slug, problem.what, problem.remedy, sep="\\n")
print(*(folder / "ledger").iterdir(), "left")
"""


@as_root
@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("limit", "before", "remedies"),
    [
        ("max_net_namespaces", "", ["`sysctl -w user.max_net_namespaces=15000`"]),
        (
            "max_user_namespaces",
            "setpriv --inh-caps -all --bounding-set -all",
            ["`sysctl -w user.max_user_namespaces=15000`", "SYS_ADMIN and NET_ADMIN"],
        ),
    ],
)
def test_a_machine_that_refuses_namespaces_is_told_what_mends_it(
    tmp_path: Path, limit: str, before: str, remedies: list[str]
) -> None:
    # Limits are per user namespace: one of our own, with a limit of zero, stands for a machine that forbids them.
    command = shlex.join([sys.executable, "-c", REFUSED, str(tmp_path)])
    ran = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "sh",
            "-c",
            f"echo 0 > /proc/sys/user/{limit}; exec {before} {command}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    slug, what, remedy, left = ran.stdout.splitlines()
    assert slug == "namespaces-not-permitted"
    assert what == "Network namespaces are not permitted here: the limit of namespaces is reached (unshare)."
    assert all(each in remedy for each in remedies), remedy
    assert left == "left"


@pytest.mark.namespaces
def test_the_doctor_finds_everything_where_labs_work(ledger: Path) -> None:
    findings = doctor(ledger)
    assert [finding.name for finding in findings if finding.ok] == [
        "network namespaces",
        "links",
        "one-way cuts",
        "client sockets",
        "node processes",
        "removal",
    ]
    assert list(ledger.iterdir()) == []


def test_the_doctor_tells_the_first_obstacle_and_does_not_try_the_rest(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    first, *others = doctor(tmp_path / "file" / "ledger")
    assert not first.ok
    assert "ledger" in first.detail
    assert first.remedy
    assert {(finding.ok, finding.detail) for finding in others} == {(False, "Not tried.")}


def test_voters_come_first_and_every_node_has_its_own_address_and_directory(tmp_path: Path) -> None:
    nodes = plan_nodes(tmp_path, 3, 2)
    assert [(node.name, node.node_id, node.role) for node in nodes] == [
        ("n1", 1, "voter"),
        ("n2", 2, "voter"),
        ("n3", 3, "voter"),
        ("n4", 4, "observer"),
        ("n5", 5, "observer"),
    ]
    assert len({node.address for node in nodes}) == 5
    assert nodes[4].data == tmp_path / "nodes" / "n5" / "data"
    check_addresses({node.name: node.address for node in nodes})


@pytest.mark.parametrize(("voters", "observers"), [(0, 1), (3, -1), (200, 51)])
def test_an_impossible_number_of_nodes_is_a_usage_error(voters: int, observers: int) -> None:
    with pytest.raises(Problem) as caught:
        plan_nodes(Path("run"), voters, observers)
    assert (caught.value.slug, caught.value.usage) == ("bad-node-count", True)


@pytest.mark.parametrize(
    "addresses",
    [{"n1": "10.77.0.1", "n2": "10.77.0.1"}, {"n1": "10.77.255.254"}, {"n1": "10.77.0.256"}, {"n1": "::1"}],
)
def test_addresses_that_cannot_be_told_apart_are_refused(addresses: dict[str, str]) -> None:
    with pytest.raises(Problem) as caught:
        check_addresses(addresses)
    assert caught.value.slug == "bad-address"
