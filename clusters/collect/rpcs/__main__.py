"""``python -m clusters.collect.rpcs JOB``: see :mod:`.follow`."""

from __future__ import annotations

import os
import sys

from clusters.wire.lean_kio import import_kio

if __name__ == "__main__":
    import_kio()
    from clusters.collect.rpcs.follow import main

    os._exit(main(sys.argv[1]))  # its file is in place: nobody waits for the libraries to be taken down
