"""Reading and writing ``run.json``."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from nemesis.store.layout import MANIFEST
from workloads.history.manifest import Manifest, decode_manifest, encode_manifest
from workloads.problem import Problem


def write_manifest(run: Path, manifest: Manifest) -> None:
    """Replace ``run.json`` in one step."""
    fresh = run / (MANIFEST + ".new")
    fresh.write_bytes(encode_manifest(manifest))
    os.replace(fresh, run / MANIFEST)


def read_manifest(run: Path) -> Manifest:
    """Read ``run.json``. Raises Problem for a damaged or foreign one."""
    try:
        return decode_manifest((run / MANIFEST).read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise Problem(
            "manifest-foreign",
            f"{run / MANIFEST} is no manifest of this release: {error}.",
            "Check the run with the release that wrote it.",
        ) from error
