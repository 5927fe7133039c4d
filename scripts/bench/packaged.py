"""The gradient of each scene that comes with diffsim: `python scripts/bench/packaged.py [--against CHECKOUT ...]`.

Each checkout (a folder with an interpreter .venv/bin/python that finds diffsim there) runs in a process of its own, in turns with the
others: ten turns, of which the median counts. Times are CPU time of one thread, without compilation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from common import machine, median, ratios

SCENES = {"heat_mri": 20, "tsunami": 1, "acoustic_crosswell": 2, "waveguide_bend": 4, "metal_film": 2, "earthquake": 2}
"""How many gradients a turn takes the median of."""
TURNS, WARM_UP = 10, 3
HERE = Path(__file__).resolve().parents[2]
WORKER = """
import json, sys, time
import diffsim
diffsim.init(threads=1)
objective = diffsim.Scene.load(sys.argv[1]).objective("f32")
theta = objective.problem.theta
for line in sys.stdin:
    seconds = []
    for _ in range(int(line)):
        began = time.process_time()
        objective(theta)
        seconds.append(time.process_time() - began)
    print("seconds", json.dumps(seconds), flush=True)
"""


class Contender:
    """A checkout that computes gradients of one scene.

    Args:
        checkout: its folder.
        scene: the name of a scene.
    """

    def __init__(self, checkout: Path, scene: str) -> None:
        python = sys.executable if checkout == HERE else str(checkout / ".venv/bin/python")
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {**os.environ, **threads, "PYTHONPATH": str(checkout)}
        command = [python, "-c", WORKER, str(checkout / "scenes" / f"{scene}.toml")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout)

    def gradients(self, count: int) -> float:
        """Median seconds of a gradient."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("seconds "):
                return median(json.loads(line.removeprefix("seconds ")))
        raise SystemExit(f"the process of a checkout ended with {self._process.wait()}; see its error above")

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the gradients of the packaged scenes, beside other checkouts.")
    parser.add_argument("--against", type=Path, nargs="*", default=[], metavar="CHECKOUT", help="folders of other checkouts")
    parser.add_argument("--scenes", nargs="*", choices=SCENES, default=[*SCENES])
    options = parser.parse_args()
    for key, value in machine().items():
        print(f"{key:10s} {value}")
    for scene in options.scenes:
        checkouts = [HERE, *(folder.resolve() for folder in options.against)]
        contenders = [Contender(checkout, scene) for checkout in checkouts]
        for contender in contenders:
            contender.gradients(WARM_UP)
        turns = []
        for _ in range(TURNS):
            time.sleep(0.02)
            turns.append([contender.gradients(SCENES[scene]) for contender in contenders])
        columns = list(zip(*turns, strict=True))
        for checkout, seconds in zip(checkouts, columns, strict=True):
            middle, (low, high) = ratios(columns[0], seconds)
            compared = "" if checkout == HERE else f"  this one takes {middle:.2f} times that ({low:.2f} {high:.2f})"
            print(f"{scene:20s} {1e3 * median(seconds):9.2f} ms  {checkout}{compared}", flush=True)
        for contender in contenders:
            contender.end()


if __name__ == "__main__":
    main()
