"""`[mpiexec -n N] python -m tests.domains.killed_scene FOLDER DOMAINS KILL_AFTER`: a scene in domains that is killed in a reverse sweep.

Rank 0 is killed after so many reversed steps of the search. With KILL_AFTER = -1 nobody is, and a run in the folder is resumed.
Rank 0 prints how many steps it reversed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import diffsim as ds
from diffsim.checkpoint import Reverse, Sweep
from diffsim.scene.disk.folder import RUN
from diffsim.scene.search.objective import Objective
from tests.scene.tiny import ACOUSTIC, scene

RANK = int(os.environ.get("PMI_RANK", "0"))


REVERSED = [-1]
"""Steps of the search that were reversed on this rank. Plans and measurements before it do not count."""


def count_reversed(most: int) -> None:
    """Count reversed steps, and kill rank 0 after `most`; -1: never."""
    execute, begin = Sweep._execute, Objective.__init__

    def begun(self: Objective, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        REVERSED[0] = max(REVERSED[0], 0)

    def counted(self: Sweep, action: object) -> None:
        execute(self, action)  # type: ignore[arg-type]
        if isinstance(action, Reverse) and REVERSED[0] >= 0:
            REVERSED[0] += action.stop - action.start
            if 0 <= most <= REVERSED[0] and RANK == 0:
                sys.stdout.write(f"{REVERSED[0]}\n")
                sys.stdout.flush()
                os.kill(os.getpid(), signal.SIGKILL)

    Objective.__init__ = begun  # type: ignore[method-assign, assignment]
    Sweep._execute = counted  # type: ignore[method-assign]


def main(folder: Path, domains: str, most: int) -> None:
    ds.init(arch="cpu", precision="f64", threads=1)
    count_reversed(most)
    parts = None if domains == "none" else tuple(int(part) for part in domains.split("x"))
    tiny = scene(ACOUSTIC, checkpoint={"slots": 3, "resume": 1e-9}, optimise={"iterations": 3})
    tiny.run(folder, resume=(folder / RUN).exists(), domains=parts)
    if RANK == 0:
        sys.stdout.write(f"{REVERSED[0]}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
