"""Conservation by the steps, and dry cells."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.checkpoint import Online
from tests.steps import adaptive, maxwell_drude, navier_stokes, schroedinger, shallow_water
from tests.steps.step import weights


def test_water_spreads_over_dry_cells() -> None:
    step = shallow_water.STEP
    inputs = step.all_inputs()
    h = step.simulation().run(inputs, step.steps).final["h"]
    dry = inputs["h"] == 0
    assert 0.1 < dry.mean() < 0.9
    assert h.min() >= 0
    assert np.count_nonzero(h[dry] > shallow_water.FILM) > 5, "no cell is wetted"
    assert np.count_nonzero(h[dry] == 0) > 5, "no cell stays dry"


def test_a_lake_at_rest_stays_at_rest_and_has_a_finite_gradient() -> None:
    """Also around islands, where h = 0, and where all is dry."""
    step, steps = shallow_water.STEP, 20
    z = step.all_inputs()["z"]
    simulation = step.simulation()
    for level in (0.8, 0.0):
        lake = {"z": z, "h": np.maximum(level - z, 0.0)}
        assert (lake["h"] == 0).any()
        solution, pullback = simulation.vjp(lake, steps)
        assert np.abs(solution.final["h"] - lake["h"]).max() < 1e-13
        assert max(np.abs(solution.final[name]).max() for name in ("q", "r")) < 1e-13
        gradient = pullback(weights(np.random.default_rng(0), solution))
        assert all(np.isfinite(values).all() for values in gradient.values())


def test_the_norm_of_a_particle_stays() -> None:
    """The sum of R(t)² + I(t + dt/2) I(t - dt/2) does not change but for round-off."""
    step = schroedinger.STEP
    inputs, simulation = step.all_inputs(), step.simulation()

    def norm(steps: int) -> float:
        before, now = (simulation.run(inputs, n).final for n in (steps - 1, steps))
        return float(np.sum(now["R"] ** 2 + now["I"] * before["I"]))

    assert abs(norm(400) / norm(2) - 1) < 1e-12


def test_a_metal_takes_energy_and_vacuum_keeps_it() -> None:
    step = maxwell_drude.STEP
    ones, waves = np.ones(step.shape), {name: step.all_inputs()[name] for name in ("E", "Hx", "Hy")}

    def energy(gamma: float, wp: float, steps: int) -> float:
        """Energy of E at t and the product of the magnetic fields half a step before and after."""
        inputs = waves | {"eps": ones, "wp": wp * ones, "gamma": gamma * ones}
        before, now = (simulation.run(inputs | {"f": np.zeros((n, 1))}, n).final for n in (steps - 1, steps))
        return float(np.sum(before["E"] ** 2 + before["Hx"] * now["Hx"] + before["Hy"] * now["Hy"]))

    simulation: ds.Simulation = step.simulation()
    assert abs(energy(0.0, 0.0, 300) / energy(0.0, 0.0, 2) - 1) < 1e-12
    assert energy(0.2, 0.5, 300) < 0.6 * energy(0.2, 0.5, 2)  # what does not oscillate stays


def test_a_projected_velocity_has_no_divergence() -> None:
    """Also in the cells next to the sides and in a body, from a velocity that has some."""
    step = navier_stokes.STEP
    inputs = step.all_inputs()
    final = step.simulation().run(inputs | {"inflow": inputs["inflow"][:1]}, 1).final
    before = np.abs(navier_stokes.divergence(inputs["u"], inputs["v"], inputs["inflow"][0])).max()
    assert np.abs(navier_stokes.divergence(final["u"], final["v"], inputs["inflow"][0])).max() < 1e-13 * before


def test_flow_in_a_channel_becomes_that_of_poiseuille() -> None:
    """Parabola and pressure gradient are exact on the grid, but for what is left of the inflow: it falls by 30 a width of the channel."""
    n, nu, inflow = 12, 0.1, 2.0
    grid = ds.Grid((n, 4 * n), 1 / n)
    simulation = ds.Simulation(navier_stokes.NavierStokes(grid, 0.01, nu), precision="f64")
    inputs = {"u": np.full(grid.shape, inflow), "sigma": np.zeros(grid.shape), "inflow": np.full((300, n), inflow)}
    final = simulation.run(inputs, 300).final
    y = (np.arange(n) + 0.5) / n
    parabola = y * (1 - y) + 0.25 / n**2  # the wall, half a cell away, has the mean of a cell and its image
    scale = inflow / parabola.mean()
    assert np.abs(final["u"][:, -1] - scale * parabola).max() < 1e-5 * inflow
    assert np.abs(final["v"][:, -1]).max() < 1e-5 * inflow
    assert np.abs(final["p"][:, -1] - scale * 2 * nu * 0.5 / n).max() < 1e-5 * inflow**2


def test_adaptive_steps_end_at_the_end() -> None:
    """The time is reached to round-off with fewer steps than a run has, more steps change nothing, and what flows is not lost."""
    step = adaptive.STEP
    inputs, simulation = step.all_inputs(), step.simulation()
    runs = [simulation.run(inputs, steps).final for steps in (3, step.steps, 3 * step.steps)]
    times = [float(final["time"]) for final in runs]
    assert times[0] < 0.9 * inputs["end"]
    np.testing.assert_allclose(times[1:], inputs["end"], rtol=1e-14)
    assert np.abs(runs[2]["u"] - runs[1]["u"]).max() < 1e-14
    assert abs(runs[2]["u"].sum() - inputs["u"].sum()) < 1e-12


def test_adaptive_runs_end_by_themselves() -> None:
    """An online schedule does not know the steps before; gradients are those of a run with as many steps."""
    step = adaptive.STEP
    inputs, simulation = step.all_inputs(), step.simulation()
    asked = []

    def over(done: int, states: dict[str, np.ndarray]) -> bool:
        asked.append(done)
        return bool(states["time"] >= inputs["end"] * (1 - 1e-12))

    gradients = []
    for options in ({"steps": 500, "checkpoint": Online(2), "until": over}, {"steps": None}):
        options["steps"] = options["steps"] or max(asked)
        solution, pullback = simulation.vjp(inputs, **options)
        gradients.append((solution.final["u"], pullback(ds.Solution({"u": np.cos(solution.final["u"]), "time": np.array(0.7)}))))
    assert 3 < max(asked) <= step.steps
    np.testing.assert_array_equal(gradients[0][0], gradients[1][0])
    for name, value in gradients[1][1].items():
        np.testing.assert_array_equal(gradients[0][1][name], value)
    assert gradients[0][1]["time"].shape == () and abs(gradients[0][1]["end"]) > 0


def test_adaptive_steps_follow_the_fastest_wave() -> None:
    """Twice the speed takes steps half as long, which the time shows, and as much of the field."""
    step = adaptive.STEP
    inputs, simulation = step.all_inputs() | {"end": np.array(1e3)}, step.simulation()
    slow, fast = (simulation.run(inputs | {"u": factor * inputs["u"]}, step.steps).final for factor in (1.0, 2.0))
    np.testing.assert_allclose(fast["time"], slow["time"] / 2, rtol=1e-13)
    np.testing.assert_allclose(fast["u"], 2 * slow["u"], rtol=0, atol=1e-13)
