"""``python3 AGENT.pyz OPTIONS UID GID``: started by the loader and by nobody else; OPTIONS is JSON, ``mode`` is ``serve`` or ``sweep``."""

from __future__ import annotations

import json
import os
import sys

from clusters.backends.ssh.agent.frames import encode
from clusters.backends.ssh.agent.guardian import Options, serve
from clusters.backends.ssh.agent.sweep import sweep


def main() -> int:
    """Do what OPTIONS say; returns the exit status."""
    os.umask(0o022)
    options = json.loads(sys.argv[1])
    mode = options.pop("mode")
    if mode == "sweep":
        os.write(1, encode({"id": 0, "value": sweep(**options)}))
        return 0
    return serve(Options(uid=int(sys.argv[2]), gid=int(sys.argv[3]), **options))


if __name__ == "__main__":
    sys.exit(main())
