"""A scene's run that is killed after so many reversed steps, or a few more, or goes on after that.

Usage: python -m tests.scene.killed_in_sweep FOLDER KILL_AFTER [resume] [driven]: prints how many steps were reversed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import diffsim as ds
from diffsim.checkpoint import Reverse, Sweep
from diffsim.scene.search.objective import Objective
from tests.scene.tiny import ACOUSTIC, DRIVEN, scene, tables

SLOTS = 3
DRIVEN_THROUGH_UNKNOWN = tables(
    DRIVEN, unknowns__kappa={"start": {"constant": 0.5}, "lower": 0.4, "upper": 0.7}, truth__fields__kappa={"constant": 0.6}
)
"""Without an unknown diffusivity a gradient would need no states."""


def main() -> None:
    folder, most = Path(sys.argv[1]), int(sys.argv[2])
    ds.init(arch="cpu", precision="f64")
    execute, begin, count = Sweep._execute, Objective.__init__, -1

    def begun(self: Objective, *arguments: object) -> None:  # plans and measurements before do not count
        nonlocal count
        begin(self, *arguments)  # type: ignore[arg-type]
        count = 0

    def counted(self: Sweep, action: object) -> None:
        nonlocal count
        execute(self, action)  # type: ignore[arg-type]
        if isinstance(action, Reverse) and count >= 0:
            count += action.stop - action.start
            if 0 <= most <= count:
                print(count, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

    Objective.__init__ = begun  # type: ignore[method-assign, assignment]
    Sweep._execute = counted  # type: ignore[method-assign]
    base = DRIVEN_THROUGH_UNKNOWN if "driven" in sys.argv else ACOUSTIC
    scene(base, checkpoint={"slots": SLOTS, "resume": 1e-9}, optimise={"iterations": 3}).run(folder, resume="resume" in sys.argv)
    print(count)


if __name__ == "__main__":
    main()
