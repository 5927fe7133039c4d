"""Mosaic's own tasks with diffsim as a solver: `python scripts/mosaic/harness.py CLONE [--only TEXT ...] [--order 2 4] [--out FOLDER]`.

CLONE is a copy of https://github.com/pasteurlabs/mosaic. Its harness calls the solver in this process, without containers. It needs
`jax[cpu]`, `optax`, `tesseract-core[runtime]` and `tesseract-jax`. FOLDER gets Mosaic's results, a JSON file for each task.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOLVER = {"ns-grid": "ns_grid", "ns-3d-grid": "ns_grid"}
"""The folder of our Tesseract for each problem."""
TASKS = {
    "ns-grid": (
        *("baseline", "agreement", "tgv_nu", "physical_laws", "cost", "fd_check", "param_sweep", "horizon", "jacobian"),
        *("cylinder", "drag_opt"),
    ),
    "ns-3d-grid": ("baseline", "agreement", "cost", "fd_check", "horizon", "jacobian", "recovery"),
}
"""Parts of the names of the tasks that run. Past an obstacle the order is 2, so `--order 2` is enough."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("clone", type=Path)
    options.add_argument("--only", nargs="*", default=[], help="parts of names of tasks, such as ns-grid/gradient/fd_check")
    options.add_argument("--order", nargs="*", type=int, default=[2, 4])
    options.add_argument("--precision", choices=["f32", "f64"], default="f32")
    options.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "mosaic-results")
    chosen = options.parse_args()
    sys.path[:0] = [str(chosen.clone), str(chosen.clone / "mosaic")]
    for problem, parts in TASKS.items():
        for task in tasks(problem, parts, chosen.only):
            began = time.perf_counter()
            result = run(problem, task, chosen.order, chosen.precision)
            path = chosen.out / problem / f"{task.replace('/', '_')}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result.get("results", []), indent=1, default=str))
            print(f"{problem}/{task}: {time.perf_counter() - began:.1f} s, {path}", flush=True)


def tasks(problem: str, parts: tuple[str, ...], only: list[str]) -> list[str]:
    """The tasks of a problem that run, in Mosaic's order."""
    from mosaic import get_config

    names = [name for name in get_config(problem).experiments if not name.startswith("ics/") and any(part in name for part in parts)]
    return [name for name in names if not only or any(text in f"{problem}/{name}" for text in only)]


def run(problem: str, task: str, orders: list[int], precision: str) -> dict[str, Any]:
    """Run a task for some orders of the solver."""
    from mosaic import SolverSpec, get_config

    config = get_config(problem)
    solvers = {f"diffsim {order}": _solver(SolverSpec, order, precision) for order in orders}
    inputs = getattr(config.make_inputs, "_mosaic_raw", None) or config.make_inputs  # its wrapper knows only Mosaic's solvers
    config.solvers = list(solvers.values())
    config.make_inputs = lambda name, ic, **physics: inputs(solvers[name], ic, **physics)
    config.make_inputs._mosaic_raw = inputs
    api = HERE / SOLVER[problem] / "tesseract_api.py"
    return dict(config.experiments[task].fn(config, dict.fromkeys(solvers, f"inprocess:{api}")))


def _solver(spec: Any, order: int, precision: str) -> Any:
    return spec(
        "diffsim",
        "#2a6fbb",
        f"diffsim {order}",
        f"MAC, order {order}, RK3, projection",
        "taichi",
        family="projection",
        input_overrides={"order": order, "precision": precision},
        uses_gpu=False,
        differentiable=True,
        internal_dtype={"f32": "float32", "f64": "float64"}[precision],
    )


if __name__ == "__main__":
    main()
