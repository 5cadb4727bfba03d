"""Relays as an ordinary user: redirects and marks are the user namespace's own."""

from __future__ import annotations

import pytest

from tests.clusters.local.test_local_permissions import TESTS, as_root, run_as_user


@as_root
@pytest.mark.namespaces
def test_relays_as_an_ordinary_user() -> None:
    refusal = run_as_user(["-c", "import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10000000) != 0)"])
    if refusal.returncode:
        pytest.skip("the kernel gives ordinary users no user namespaces")
    ran = run_as_user([*TESTS, "-k", "local", "/mnt/project/tests/clusters/conformance/test_relays.py"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
