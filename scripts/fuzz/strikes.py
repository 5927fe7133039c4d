"""Strikes runs at random moments, and around each write: python scripts/fuzz/strikes.py [RUNS] [SEED] [each]

With `each`, every one of the first 60 touches of the disk is struck once in every way.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.scene.strikes import WAYS, Struck, drawn

STRIKES = 6
"""Most strikes in one run."""
FIRST = 60


def main() -> None:
    runs, seed = (int(text) for text in [*sys.argv[1:3], *["10", "0"][len(sys.argv[1:3]) :]])
    rng, broken = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        struck = Struck(Path(folder))
        plans = [drawn(rng, struck.touches, STRIKES) for _ in range(runs)]
        if "each" in sys.argv:
            plans += [[(number, how)] for number in range(1, FIRST + 1) for how in WAYS]
        for number, plan in enumerate(plans):
            try:
                struck.check(f"run{number}", plan)
                print("passed", plan, flush=True)
            except AssertionError as error:
                broken += 1
                print("FAILED", plan, error, flush=True)
    print(f"{len(plans)} runs, {broken} failed")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
