"""Reactions and diffusion: fronts, growth rates against dispersion relations, orders, an independent NumPy version, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.solvers import ReactionDiffusion

TAU = 2 * np.pi
DISH = {"F": 0.04, "k": 0.055, "D_u": 0.2, "D_v": 0.02}


def run(equation: ReactionDiffusion, inputs: dict[str, Any], steps: int) -> dict[str, np.ndarray]:
    return ds.Simulation(equation, wrt=[], precision="f64").run(inputs, steps).final


def test_the_front_of_fisher_has_its_speed() -> None:
    """u = (1 + exp((x - c t)/√6))⁻² with c = 5/√6 = 2.041241: Ablowitz and Zeppetella (1979), doi:10.1007/BF02462380."""
    errors, c = [], 5 / np.sqrt(6)
    for dx in (0.4, 0.2):
        grid = ds.Grid((int(100 / dx),), dx, 0.5 * dx - 50)
        start, later = ((1 + np.exp((grid.coordinates(0) - c * t) / np.sqrt(6))) ** -2 for t in (0.0, 4.0))
        final = run(ReactionDiffusion(grid, dx / 4, "fisher"), {"u": start, "D": 1.0, "r": 1.0}, int(16 / dx))["u"]
        errors.append(np.abs(final - later).max())
    assert (final - start).sum() * dx / 4 == pytest.approx(2.041241, abs=7e-4)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2) and errors[1] < 1.8e-4


def test_the_front_of_allen_and_cahn_stands() -> None:
    """tanh(x √(r / 2 D))."""
    changes = []
    for n in (60, 120):
        grid = ds.Grid((n,), 12 / n, 6 / n - 6)
        front = np.tanh(grid.coordinates(0) * np.sqrt(2.0 / (2 * 0.3)))
        final = run(ReactionDiffusion(grid, 0.05, "allen_cahn"), {"u": front, "D": 0.3, "r": 2.0}, 200)["u"]
        changes.append(np.abs(final - front).max())
    assert np.log2(changes[0] / changes[1]) == pytest.approx(2, abs=0.2) and changes[1] < 1.9e-3


def test_perturbations_of_gray_and_scott_grow_as_the_dispersion_relation_says() -> None:
    """Around the state u v = F + k, by the eigenvalues of its Jacobian with diffusion; second order in time."""
    F, k = DISH["F"], DISH["k"]
    u = (1 - np.sqrt(1 - 4 * (F + k) ** 2 / F)) / 2
    v = (F + k) / u
    n, x = 64, np.arange(64)
    modes = (3, 6, 9, 12)
    errors = []
    for dt in (1.0, 0.5):
        simulation = ds.Simulation(ReactionDiffusion(ds.Grid((n,), 1.0), dt, "gray_scott", boundary="periodic"), wrt=[], precision="f64")
        for mode in modes:
            damping = 4 * np.sin(np.pi * mode / n) ** 2
            jacobian = [[-F - v**2 - DISH["D_u"] * damping, -2 * u * v], [v**2, 2 * u * v - (F + k) - DISH["D_v"] * damping]]
            rates, ways = np.linalg.eig(np.array(jacobian))
            most = int(np.argmax(rates.real))
            wave = 1e-6 * np.exp(TAU * 1j * mode * x / n)
            start = {"u": u + (ways[0, most] * wave).real, "v": v + (ways[1, most] * wave).real}
            final = simulation.run(DISH | start, int(20 / dt)).final
            growth = np.log(np.abs(np.fft.fft(final["v"])[mode] / np.fft.fft(start["v"])[mode])) / 20
            errors.append(abs(growth - rates[most].real))
    first, second = errors[:4], errors[4:]
    assert max(second) < 5e-6
    assert np.log2(max(first) / max(second)) == pytest.approx(2, abs=0.2)


def test_rolls_of_swift_and_hohenberg_grow_and_saturate() -> None:
    """At r - (1 - k²)² to the amplitude √(4/3 (r - (1 - k²)²)) near the onset, with the k² of the differences."""
    n, x = 64, np.arange(64)
    grid = ds.Grid((n,), 8 * TAU / n)
    damping = {mode: (1 - 4 * np.sin(np.pi * mode / n) ** 2 / grid.spacing[0] ** 2) ** 2 for mode in (6, 8, 10)}
    simulation = ds.Simulation(ReactionDiffusion(grid, 0.1, "swift_hohenberg", boundary="periodic"), wrt=[], precision="f64")
    start = 1e-6 * sum(np.cos(TAU * mode * x / n) for mode in damping)
    final = simulation.run({"u": start, "r": 0.2, "g": 0.0}, 50).final["u"]
    growth = np.log(np.abs(np.fft.fft(final) / np.fft.fft(start))[list(damping)]) / 5
    np.testing.assert_allclose(growth, 0.2 - np.array(list(damping.values())), atol=2e-5)
    rolls = simulation.run({"u": 0.1 * np.cos(TAU * 8 * x / n), "r": 0.05, "g": 0.0}, 3000).final["u"]
    assert rolls.max() == pytest.approx(np.sqrt(4 / 3 * (0.05 - damping[8])), rel=1e-3)


def test_steps_with_fields_are_those_of_a_program_in_numpy() -> None:
    """With diffusivities and rates that vary, between sides without flux: systems with dense matrices."""
    rng = np.random.default_rng(0)
    shape, dt, dx = (5, 6), 0.7, 0.9
    inputs = {name: rng.uniform(0.5, 1.5, shape) * value for name, value in DISH.items()}
    inputs |= {"D_v": 3.0, "u": rng.uniform(0, 1, shape), "v": rng.uniform(0, 1, shape)}
    equation = ReactionDiffusion(ds.Grid(shape, dx), dt, "gray_scott", fields=("F", "k", "D_u"))
    final = run(equation, inputs, 2)

    cells = np.arange(30).reshape(shape)
    linear = {}
    for name in "uv":
        D, matrix = np.broadcast_to(inputs[f"D_{name}"], shape).ravel(), np.zeros((30, 30))
        for a, b in [
            *zip(cells[:-1].ravel(), cells[1:].ravel(), strict=True),
            *zip(cells[:, :-1].ravel(), cells[:, 1:].ravel(), strict=True),
        ]:
            flow = 0.5 * (D[a] + D[b]) / dx**2
            matrix[a, b], matrix[b, a] = flow, flow
            matrix[a, a] -= flow
            matrix[b, b] -= flow
        linear[name] = matrix
    F, k = inputs["F"].ravel(), inputs["k"].ravel()

    def rate(now: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        used = now["u"] * now["v"] ** 2
        return {"u": F * (1 - now["u"]) - used, "v": used - (F + k) * now["v"]}

    g = 1 - np.sqrt(0.5)
    d = 1 - 1 / (2 * g)
    now = {name: inputs[name].ravel() for name in "uv"}
    for _ in range(2):
        f = rate(now)
        systems = {name: np.eye(30) - g * dt * linear[name] for name in "uv"}
        middle = {name: np.linalg.solve(systems[name], now[name] + g * dt * f[name]) for name in "uv"}
        h = rate(middle)
        right = {n: now[n] + dt * (d * f[n] + (1 - d) * h[n] + (1 - g) * linear[n] @ middle[n]) for n in "uv"}
        now = {name: np.linalg.solve(systems[name], right[name]) for name in "uv"}
    for name in "uv":
        np.testing.assert_allclose(final[name].ravel(), now[name], atol=1e-10)


def predator(prey: Any, hunter: Any, *, birth: Any, hunt: Any) -> dict[str, Any]:
    eaten = hunt * prey * hunter
    return {"prey": birth * prey - eaten, "hunter": eaten - hunter}


@pytest.mark.parametrize("own", [False, True], ids=["gray_scott", "own"])
def test_the_gradient_is_that_of_differences(own: bool) -> None:
    grid = ds.Grid((6, 7), 0.8)
    if own:
        equation = ReactionDiffusion(grid, 0.1, predator, ("prey", "hunter"), ("hunt",), ("periodic", (ds.Dirichlet(0.4), "mirror")))
    else:
        equation = ReactionDiffusion(grid, 0.5, "gray_scott", fields=("F", "k", "D_u"))
    simulation = ds.Simulation(equation, precision="f64")
    rng = np.random.default_rng(1)
    inputs = {name: rng.uniform(0.3, 0.6, simulation.input_shape(name, 4)) for name in simulation.inputs}
    weights = {name: rng.normal(size=grid.shape) for name in equation.states}

    def loss(found: ds.Solution) -> Any:
        return sum((weight * found.final[name] ** 2).sum() for name, weight in weights.items())

    assert ds.certify(simulation, loss, inputs, 4, seed=1).passed
    _, gradient = simulation.value_and_grad(loss, inputs, 4)
    for name, start in inputs.items():
        way, step = rng.normal(size=np.shape(start)), 1e-5
        low, high = (float(loss(simulation.run(inputs | {name: start + sign * step * way}, 4))) for sign in (-1, 1))
        assert float((gradient[name] * way).sum()) == pytest.approx((high - low) / (2 * step), rel=1e-6), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinetics": "turing"}, "kinetics = 'turing' is unknown; choose one of fisher, allen_cahn, gray_scott, swift_hohenberg"),
        ({"fields": ("D_u",)}, "fields names D_u, expected some of r, D; correct the names"),
        ({"kinetics": predator}, r"kinetics\(prey, hunter, birth, hunt\) with species = \('u',\), expected each of these"),
        ({"kinetics": lambda u, D: {"u": D * u}}, "kinetics with the arguments D, expected none of the diffusivities; rename them"),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ReactionDiffusion(ds.Grid((6,), 1.0), 0.1, **options)


def test_a_negative_diffusivity_is_refused() -> None:
    with pytest.raises(ParameterError, match="diffusivity D has a value of -1 m²/s, expected zero or more everywhere"):
        run(ReactionDiffusion(ds.Grid((6,), 1.0), 0.1), {"u": np.zeros(6), "r": 1.0, "D": -1.0}, 1)
