"""How often random real runs find each defect's outcome: k of n seeds. A measure, not a test: the rules convict without luck.

    PYTHONPATH=. .venv/bin/python benchmarks/detection.py --seeds 5 [--defect acknowledged-on-append]

Prints, for each defect that real processes can show, how many of n runs each check convicted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from checker.run import check_runs
from checker.session import start_session
from nemesis.life.plan import SHORT_TIMERS
from tests.defects.convict import LOAD_S, convictions
from tests.defects.matrix import REAL_RUNS
from tests.runs import perform


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--defect", action="append", help="only this one; repeatable")
    parser.add_argument("--store", type=Path, default=Path("runs/detection"))
    options = parser.parse_args()
    session = start_session(None)
    for row in REAL_RUNS:
        if options.defect and row.defect not in options.defect:
            continue
        folders = [
            perform(
                options.store / row.defect,
                row.scenario,
                seed,
                duration_s=LOAD_S,
                timers=SHORT_TIMERS,
                defects=(row.defect,),
                **row.options,
            )
            for seed in range(options.seeds)
        ]
        found = Counter(check for verdict in check_runs(session, folders) for check in convictions(verdict))
        told = ", ".join(f"{check} {count}/{options.seeds}" for check, count in found.most_common())
        print(f"{row.defect:32} {row.scenario:28} {told or 'nothing'}", flush=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
