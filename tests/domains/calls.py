"""`mpiexec -n 2 python -m tests.domains.calls`: the results of other calls of a simulation, in one process and in two domains."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np
from mpi4py import MPI

import diffsim as ds
from diffsim.checkpoint import Binomial, Policy
from diffsim.domains import Domains
from tests.domains.results import loss_of

GRID, STEPS = ds.Grid((25, 31), 10.0), 24


def simulation(domains: Domains | None) -> ds.Simulation:
    points = {"sources": {"f": [[100.0, 150.0]]}, "receivers": {"p": [[50.0, 60.0], [200.0, 203.0]]}}
    return ds.Simulation(ds.solvers.Acoustic(GRID, 1e-3, order=4), **points, domains=domains)


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    fields = {name: rng.standard_normal(GRID.shape) for name in ("p", "p_prev")}
    fields |= {"c": 2000 + 500 * rng.random(GRID.shape), "f": rng.standard_normal((STEPS, 1))}
    return {name: values.astype(np.float32) for name, values in fields.items()}


def calls(run: ds.Simulation, folder: str) -> dict[str, list[Any]]:
    """The results of each way to call a simulation."""
    values, out = inputs(), {}

    def gradient(**options: Any) -> list[Any]:
        value, bars = run.value_and_grad(loss_of, values, STEPS, **options)
        return [value, *bars.values()]

    out["states on disk"] = gradient(checkpoint=Policy(slots=2, disk="10 MB", folder=folder))
    out["states on the host"] = gradient(checkpoint=Policy(slots=2, host="1 MB"))
    out["a schedule"] = gradient(checkpoint=Binomial(STEPS, 3))
    out["a run that ends early"] = gradient(until=lambda done, states: done >= 13, checkpoint=3)
    adjoint: list[np.ndarray] = []
    gradient(every=6, watch=lambda step, bars: adjoint.append(bars["p"]))
    out["adjoint states"] = adjoint
    seen: list[np.ndarray] = []
    run.run(values, STEPS, every=5, watch=lambda done, states: seen.append(states["p"]))
    out["states"] = seen
    out["a program"] = [ds.grad(lambda c: loss_of(run.run({**values, "c": c}, STEPS)))(values["c"])]
    solution, pullback = run.vjp(values, STEPS, checkpoint=3)
    run.run(values, STEPS)  # the pullback repeats its run
    out["a pullback after another run"] = [*pullback(solution).values()]
    run.move(sources={"f": [[155.0, 100.0]]}, receivers={"p": [[120.0, 150.0], [30.0, 300.0]]})
    out["points that were moved"] = gradient()
    return out


def apart() -> bool:
    """True if final states and gradients of the own cells, which a pullback takes back, are those parts of the whole ones."""
    whole, own = simulation(None), simulation(Domains((1, 2), gathered=False))
    (one, back), (part, back_part) = whole.vjp(inputs(), STEPS), own.vjp(inputs(), STEPS)
    gradient, of_part = back(one), back_part(part)
    same = [np.array_equal(part.final[name], one.final[name][own.box]) for name in one.final]
    same += [np.array_equal(of_part[name], bars if name == "f" else bars[own.box]) for name, bars in gradient.items()]
    return all(same) and own.last_sweep is not None and own.last_sweep.exchanges > 0


def planned() -> bool:
    """True if a plan has the bytes of the largest box, 16 of 31 columns on rank 1, and all ranks print the same one."""
    run = simulation(Domains((1, 2), steps=2))
    plan = ds.plan(run, steps=STEPS)
    run.value_and_grad(loss_of, inputs(), STEPS, plan)
    assert run.last_sweep is not None
    every = MPI.COMM_WORLD.allgather((run.sizes(STEPS), run.last_sweep.ghost_share, str(plan)))
    (small, _, text), (large, _, other) = every
    share = f"at most {100 * max(share for _, share, _ in every):.1f} % of the cells"
    return small.around < large.around and plan.sizes == large and text == other and share in text and "1 x 2 boxes on 2 ranks" in text


def main() -> None:
    ds.init(threads=1, precision="f32")
    with tempfile.TemporaryDirectory() as folder:
        one, two = calls(simulation(None), folder), calls(simulation(Domains((1, 2), steps=2)), folder)
    different = [name for name in one if len(one[name]) != len(two[name]) or not all(map(np.array_equal, one[name], two[name]))]
    every = MPI.COMM_WORLD.gather((different, apart(), planned()))
    if every is not None:
        wrong = sorted({name for names, *_ in every for name in names})
        wrong += [name for place, name in ((1, "own parts"), (2, "a plan")) if not all(each[place] for each in every)]
        sys.stdout.write(f"{len(one)} calls: {'; '.join(wrong) or 'same bits'}\n")


if __name__ == "__main__":
    main()
