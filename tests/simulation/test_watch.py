"""`watch` sees the cotangents of the states in the reverse sweep, at each requested step, under every schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.typing import Array

STEPS = 40


@pytest.fixture(scope="module")
def sea() -> tuple[ds.Simulation, dict[str, Any], ds.Solution, dict[int, dict[str, Array]]]:
    """A simulation, its inputs, cotangents of its solution, and its states at each step."""
    rng = np.random.default_rng(0)
    grid = ds.Grid((18, 21), spacing=10.0)
    places = {"sources": {"f": [[60.0, 60.0]]}, "receivers": {"p": [[120.0, 100.0], [100.0, 150.0]]}}
    simulation = ds.Simulation(ds.solvers.Acoustic(grid, dt=1e-3), wrt=["c", "p", "p_prev"], **places)
    inputs = {"c": 2000 + 100 * rng.random(grid.shape), "f": rng.normal(size=(STEPS, 1)), "p": rng.normal(size=grid.shape)}
    states = {0: {"p": inputs["p"], "p_prev": np.zeros(grid.shape)}}
    simulation.run(inputs, STEPS, every=1, watch=lambda n, now: states.__setitem__(n, {k: np.array(v) for k, v in now.items()}))
    cotangents = ds.Solution({"p": rng.normal(size=grid.shape)}, {"p": rng.normal(size=(STEPS + 1, 2))})
    return simulation, inputs, cotangents, states


SCHEDULES = {"auto": "auto", "all": STEPS, "few": 3, "binomial": ds.checkpoint.Policy(schedule="binomial", slots=5), "one": 1}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("every", [1, 7, 40, 50])
def test_cotangents_are_those_of_the_rest_of_the_run(schedule: str, every: int, sea: Any) -> None:
    simulation, inputs, cotangents, states = sea
    seen: dict[int, dict[str, Array]] = {}
    _, pullback = simulation.vjp(inputs, STEPS, SCHEDULES[schedule], every=every, watch=seen.__setitem__)
    gradient = pullback(cotangents)
    assert list(seen) == [n for n in range(STEPS, -1, -1) if n % every == 0]
    for n in [n for n in (0, 7, 21, 35, 39) if n in seen]:
        _, rest = simulation.vjp({**inputs, **states[n], "f": inputs["f"][n:]}, STEPS - n)
        expected = rest(ds.Solution(cotangents.final, {"p": cotangents.traces["p"][n:]}))
        for name in ("p", "p_prev"):
            assert np.allclose(seen[n][name], expected[name], rtol=1e-12, atol=1e-12 * np.abs(expected[name]).max())
    _, plain = simulation.vjp(inputs, STEPS, SCHEDULES[schedule])
    assert all(np.allclose(gradient[name], value, rtol=1e-12) for name, value in plain(cotangents).items())


def test_the_last_step_has_the_seeds(sea: Any) -> None:
    simulation, inputs, *_ = sea
    seen: dict[int, dict[str, Array]] = {}
    _, value = simulation.value_and_grad(lambda found: (found.final["p"] ** 2).sum(), inputs, STEPS, every=STEPS, watch=seen.__setitem__)
    final = simulation.run(inputs, STEPS).final["p"]
    assert np.allclose(seen[STEPS]["p"], 2 * final)
    assert np.allclose(seen[0]["p"], value["p"])
