"""Currents of several layers: an independent NumPy version, what is kept, waves and instability of closed forms, and the gradient."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from scipy import linalg, sparse
from scipy.sparse.linalg import spsolve

import diffsim as ds
from diffsim.errors import ParameterError, StabilityError
from diffsim.solvers import QuasiGeostrophic
from tests.solvers.test_quasi_geostrophic import SIDES, TAU, arakawa, around, five_points, laplacian_matrix, whirls, words

Array = np.ndarray
SHAPE, DT = (12, 10), 0.1
THICK, REDUCED, F0 = (1.0, 2.0, 4.0), (1.0, 2.0), 1.0
CHANNEL = ("slip", "periodic")


@functools.cache
def sea(sides: Any, layers: int, mean_flow: bool = False, dt: float = DT, viscosity: Any = "laplacian") -> ds.Simulation:
    """A simulation that all tests share which need this one."""
    strata = {"layers": THICK[:layers], "gravities": REDUCED[: layers - 1], "f0": F0}
    return ds.Simulation(QuasiGeostrophic(ds.Grid(SHAPE, 1.0), dt, sides, viscosity, mean_flow=mean_flow, **strata), precision="f64")


def names(layers: int) -> list[str]:
    return [f"psi{i + 1}" for i in range(layers)]


def inputs_of(psi: list[Array], flows: tuple[float, ...] = (), **numbers: Any) -> dict[str, Any]:
    known = {"wind": np.zeros(SHAPE), "beta": 0.0, "drag": 0.0, "nu": 0.0} | numbers
    return known | dict(zip(names(len(psi)), psi, strict=True)) | {f"U{i + 1}": flow for i, flow in enumerate(flows)}


def matrix_of_layers(layers: int) -> Array:
    """The stretching, from the heights of the surfaces: f0 (η_upper - η_lower) / H with η = f0 (ψ_below - ψ_above) / g'."""
    heights = np.zeros((layers + 1, layers))
    for k in range(1, layers):
        heights[k, [k, k - 1]] = F0 / REDUCED[k - 1] * np.array([1.0, -1.0])
    return F0 * (heights[1:] - heights[:-1]) / np.array(THICK[:layers])[:, None]


def coast_points(sides: Any) -> int:
    """Points of the sea and of its coast, by the weights of the trapezoidal rule, in all."""
    return int(np.prod([n + (low != "periodic") for n, (low, _) in zip(SHAPE, words(sides), strict=True)]))


def stream_functions(changes: list[Array], sides: Any) -> list[Array]:
    """All layers at once by elimination. Beside the values relative to the coasts, the values there are unknowns, one a layer: no surface
    between layers changes its volume, and the mean over the depth is 0 on the coasts."""
    layers, n, cells = len(changes), changes[0].size, coast_points(sides)
    stretching, thick = matrix_of_layers(layers), np.array(THICK[:layers])
    system = sparse.kron(np.eye(layers), laplacian_matrix(SHAPE, sides)) + sparse.kron(stretching, np.eye(n))
    right = np.concatenate([change.ravel() for change in changes])
    if cells == n:  # a box, whose mean is not determined
        system = system.tolil()
        system[0] = np.repeat(thick, n)
        right[0] = 0.0
        return list(spsolve(system.tocsc(), right).reshape(layers, *SHAPE))
    differences = np.eye(layers)[:-1] - np.eye(layers)[1:]
    volumes = sparse.bmat(
        [
            [system, sparse.kron(stretching, np.ones((n, 1)))],
            [sparse.kron(differences, np.ones((1, n))), cells * differences],
            [None, thick[None]],
        ]
    )
    return list(spsolve(volumes.tocsc(), np.concatenate([right, np.zeros(layers)]))[: layers * n].reshape(layers, *SHAPE))


def step(psi: list[Array], inputs: dict[str, Any], flows: tuple[float, ...], sides: Any, biharmonic: bool) -> list[Array]:
    layers = len(psi)
    stretching = matrix_of_layers(layers)

    def rate(psi: list[Array]) -> list[Array]:
        wide = [around(p, sides) for p in psi]
        out = []
        for i in range(layers):
            zeta = five_points(wide[i])
            q = zeta + sum(stretching[i, j] * wide[j][1:-1, 1:-1] for j in range(layers))
            spread = -five_points(five_points(zeta)) if biharmonic else five_points(zeta)[1:-1, 1:-1]
            slope = 0.5 * (wide[i][3:-3, 4:-2] - wide[i][3:-3, 2:-4])
            change = -arakawa(wide[i][2:-2, 2:-2], q[1:-1, 1:-1]) + inputs["nu"] * spread
            change -= (inputs["beta"] - stretching[i] @ np.array(flows)) * slope + flows[i] * 0.5 * (q[2:-2, 3:-1] - q[2:-2, 1:-3])
            change += (inputs["wind"] if i == 0 else 0) - (inputs["drag"] * zeta[2:-2, 2:-2] if i == layers - 1 else 0)
            out.append(change)
        return stream_functions(out, sides)

    def moved(by: float, rates: list[Array]) -> list[Array]:
        return [p + by * r for p, r in zip(psi, rates, strict=True)]

    first = rate(psi)
    second = rate(moved(0.5 * DT, first))
    third = rate(moved(0.5 * DT, second))
    fourth = rate(moved(DT, third))
    return moved(DT / 6, [a + 2 * b + 2 * c + d for a, b, c, d in zip(first, second, third, fourth, strict=True)])


@pytest.mark.parametrize(
    ("name", "layers", "viscosity", "flows"),
    [
        ("channel", 2, "laplacian", (0.3, -0.1)),
        pytest.param("mixed", 3, "laplacian", (), marks=pytest.mark.slow),
        pytest.param("basin", 2, "biharmonic", (), marks=pytest.mark.slow),
        pytest.param("box", 3, "biharmonic", (0.3, -0.1, 0.2), marks=pytest.mark.slow),
    ],
)
def test_steps_are_those_of_an_independent_version(name: str, layers: int, viscosity: Any, flows: tuple[float, ...]) -> None:
    rng, sides = np.random.default_rng(1), SIDES[name]
    wind = rng.standard_normal(SHAPE)
    psi = [whirls(SHAPE, sides, seed) for seed in range(layers)]
    inputs = inputs_of(psi, flows, wind=0.1 * (wind - wind.mean()), beta=0.3, drag=0.05, nu=0.02)
    for _ in range(3):
        psi = step(psi, inputs, flows or (0.0,) * layers, sides, viscosity == "biharmonic")
    final = sea(sides, layers, bool(flows), viscosity=viscosity).run(inputs, 3).final
    assert max(np.abs(final[key] - p).max() for key, p in zip(names(layers), psi, strict=True)) < 1e-12 * np.abs(psi).max()


def energy(psi: list[Array], sides: Any) -> float:
    """Kinetic and available potential energy. The surfaces between the layers have the mean 0, coasts included."""
    flat, cells = laplacian_matrix(SHAPE, sides), coast_points(sides)
    kinetic = sum(-0.5 * h * p.ravel() @ (flat @ p.ravel()) for h, p in zip(THICK, psi, strict=False))
    rises = [(above - below, F0**2 / g) for above, below, g in zip(psi, psi[1:], REDUCED, strict=False)]
    return kinetic + sum(0.5 * c * ((d**2).sum() - d.sum() ** 2 / cells) for d, c in rises)


def test_energy_is_kept_in_a_basin_and_passes_between_its_layers() -> None:
    """The changes are the error of the method in time, of fourth order and more: half the flow and half of β are half the time step."""
    changes = []
    for part in (4.0, 2.0):
        start = [part * whirls(SHAPE, "slip", seed) for seed in (2, 3)]
        final = sea("slip", 2).run(inputs_of(start, beta=0.4 * part), round(160 / part)).final
        end = [final[name] for name in names(2)]
        changes.append(abs(energy(end, "slip") / energy(start, "slip") - 1))
        assert np.abs(end[0] - start[0]).max() > 0.1 * np.abs(start[0]).max()  # it moves
        without = energy([end[0], 0 * end[1]], "slip") / energy([start[0], 0 * start[1]], "slip")
        assert abs(without - 1) > 0.01  # one layer alone does not keep it
    assert changes[1] < 1e-6 and changes[0] / changes[1] > 10, changes


@pytest.mark.slow
@pytest.mark.parametrize("sides", ["slip", CHANNEL, "periodic"], ids=["basin", "channel", "box"])
def test_energy_is_kept_over_10_000_steps(sides: Any) -> None:
    start = [0.3 * whirls(SHAPE, sides, seed) for seed in (2, 3, 4)]
    final = sea(sides, 3, dt=0.03).run(inputs_of(start, beta=0.2), 10_000).final
    assert abs(energy([final[name] for name in names(3)], sides) / energy(start, sides) - 1) < 1e-9


def test_a_uniform_wind_on_a_resting_channel_keeps_the_volumes_of_its_layers() -> None:
    """The difference of the layers is a (1 - cosh(μ y) / cosh(μ L / 2)) with the differences' μ: 4 sinh²(μ / 2) = κ² at spacing 1.

    The condition that its mean, coasts included, changes no volume gives a = -F / (κ² <cosh(μ y) / cosh(μ L / 2)>): 4.7 times the value for
    coasts at which it is held at 0.
    """
    channel, still, wind = sea(CHANNEL, 2, mean_flow=True), np.zeros(SHAPE), 0.01
    final = channel.run(inputs_of([still, still], (0.0, 0.0), wind=still + wind), 3).final
    square = channel.equation.stratification.radii[0] ** -2
    y = np.arange(14) - 6.5
    shape = np.cosh(2 * np.arcsinh(0.5 * np.sqrt(square)) * y)
    shape /= shape[0]
    mean = (0.5 * shape[0] + shape[1:-1].sum() + 0.5 * shape[-1]) / 13
    exact = -3 * DT * wind / square / mean * (1 - shape)[1:-1, None]
    assert np.abs(final["psi1"] - final["psi2"] - exact).max() < 1e-12 * np.abs(exact).max()
    assert mean < 1 / 4


def waves(columns: int, rows: int) -> tuple[Array, Array, float, float]:
    """The phase along x and the shape along y of a wave in the channel, and the differences' k and k² + l²."""
    k, m = TAU * columns / SHAPE[1], np.pi * rows / (SHAPE[0] + 1)
    shape = np.sin(m * np.arange(1, SHAPE[0] + 1))[:, None]
    return k * np.arange(SHAPE[1])[None], shape, np.sin(k), 4 * np.sin(k / 2) ** 2 + 4 * np.sin(m / 2) ** 2


def test_rossby_waves_of_each_mode_have_their_dispersion_relation() -> None:
    """ω = -β k / (k² + l² + κ²) with the differences' k and k² + l², for the barotropic and the baroclinic mode."""
    phase, across, slope, squares = waves(2, 1)
    channel = sea(CHANNEL, 2, mean_flow=True)
    layers, beta, steps = channel.equation.stratification, 0.5, 60
    ratio = F0**2 / REDUCED[0] * (1 / THICK[0] + 1 / THICK[1])
    assert abs(layers.radii[0] ** -2 - ratio) < 1e-14 * ratio
    shapes = np.array([[1.0, 1.0], [THICK[1], -THICK[0]]])  # of the modes, a row each
    for shape, square in zip(shapes, (0.0, ratio), strict=True):
        omega = -beta * slope / (squares + square)
        start, end = (1e-3 * np.cos(phase - omega * t) * across for t in (0.0, steps * DT))
        final = channel.run(inputs_of([a * start for a in shape], (0.0, 0.0), beta=beta), steps).final
        assert max(np.abs(final[key] - a * end).max() for key, a in zip(names(2), shape, strict=True)) < 1e-9 * np.abs(shape).max()
        assert np.abs(end - start).max() > 5e-4


def growth(beta: float, shear: float, slope: float, squares: float) -> tuple[complex, Array]:
    """Phillips' problem: the phase speed c of the growing wave of two layers with the flows ±shear, and the amplitudes of its layers.

    With F_i = f0² / (g' H_i), (U_i - c) (-K² a_i + F_i (a_j - a_i)) + (β + F_i (U_i - U_j)) a_i = 0 is a quadratic equation for c.
    """
    upper, lower = (F0**2 / REDUCED[0] / h for h in THICK[:2])
    flows, across, gradients = (shear, -shear), (upper, lower), (beta + 2 * upper * shear, beta - 2 * lower * shear)
    # Row i: (U_i - c) p_i a_i + (U_i - c) F_i a_j + Q_i a_i = 0, with p_i = -(K² + F_i).
    (p, q), (u, v) = (-(squares + f) for f in across), flows
    quadratic = p * q - upper * lower
    linear = -(p * q * (u + v) + gradients[0] * q + gradients[1] * p) + upper * lower * (u + v)
    constant = (u * p + gradients[0]) * (v * q + gradients[1]) - upper * lower * u * v
    c = (-linear + np.sqrt(complex(linear**2 - 4 * quadratic * constant))) / (2 * quadratic)
    c = c if c.imag * slope > 0 else c.conjugate()
    return c, np.array([1.0, -((u - c) * p + gradients[0]) / ((u - c) * upper)])


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_phillips_instability_grows_by_its_closed_form(beta: float) -> None:
    phase, across, slope, squares = waves(1, 1)
    shear, steps = 0.4, 100
    c, amplitudes = growth(beta, shear, slope, squares)
    assert (slope * c).imag > 0.02
    start, end = ([1e-9 * across * (a * np.exp(1j * phase - 1j * slope * c * t)).real for a in amplitudes] for t in (0.0, steps * DT))
    final = sea(CHANNEL, 2, mean_flow=True).run(inputs_of(start, (shear, -shear), beta=beta), steps).final
    assert np.abs(end).max() > 1.2 * np.abs(start).max()
    assert max(np.abs(final[key] - e).max() for key, e in zip(names(2), end, strict=True)) < 1e-6 * np.abs(end).max()


def test_the_closed_form_is_that_of_textbooks_for_equal_layers_on_the_f_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """k U sqrt((κ² - K²) / (κ² + K²)), whose largest value is 0.207 of the shear 2 U times κ: Vallis (2017), section 9.6."""
    monkeypatch.setattr("tests.solvers.test_layered_currents.THICK", (1.0, 1.0))
    kappa2 = 2 * F0**2 / REDUCED[0]
    k = np.linspace(0.05, 0.99, 200) * np.sqrt(kappa2)
    rates = np.array([(one * growth(0.0, 1.0, one, one**2)[0]).imag for one in k])
    assert np.abs(rates - k * np.sqrt((kappa2 - k**2) / (kappa2 + k**2))).max() < 1e-12
    assert abs(rates.max() / np.sqrt(kappa2) / 2 - 0.207) < 1e-3


def test_a_channel_with_a_shear_grows_by_the_eigenvalue_of_its_matrix() -> None:
    """The most unstable wave of a channel with layers of unequal depth and β, from a dense eigenvalue problem along y."""
    columns, rows = SHAPE[1], SHAPE[0]
    k, flows, beta, steps = TAU / columns, np.array([0.5, -0.3]), 0.02, 100
    stretching = matrix_of_layers(2)
    flat = -2 * np.eye(rows) + np.eye(rows, k=1) + np.eye(rows, k=-1) - 4 * np.sin(k / 2) ** 2 * np.eye(rows)
    potential = np.kron(np.eye(2), flat) + np.kron(stretching, np.eye(rows))
    gradients = beta - stretching @ flows
    advected = np.kron(np.diag(flows), np.eye(rows)) @ potential + np.kron(np.diag(gradients), np.eye(rows))
    speeds, shapes = linalg.eig(advected, potential)
    worst = speeds.imag.argmax()
    phase = np.exp(1j * k * np.arange(columns))
    start, end = (
        [1e-9 * (part[:, None] * np.exp(-1j * np.sin(k) * speeds[worst] * t) * phase).real for part in shapes[:, worst].reshape(2, rows)]
        for t in (0.0, steps * DT)
    )
    final = sea(CHANNEL, 2, mean_flow=True).run(inputs_of(start, tuple(flows), beta=beta), steps).final
    assert np.abs(end).max() > 1.2 * np.abs(start).max()
    assert max(np.abs(final[key] - e).max() for key, e in zip(names(2), end, strict=True)) < 1e-6 * np.abs(end).max()


@pytest.mark.slow
@pytest.mark.parametrize(("sides", "mean_flow"), [("slip", False), (CHANNEL, True)], ids=["basin", "channel"])
def test_the_gradient_is_that_of_differences(sides: Any, mean_flow: bool) -> None:
    rng, run = np.random.default_rng(4), sea(sides, 2, mean_flow)
    start = [0.3 * whirls(SHAPE, sides, seed) for seed in (2, 3)]
    wind = rng.standard_normal(SHAPE)
    inputs = inputs_of(start, (0.2, 0.1) if mean_flow else (), wind=0.05 * wind, beta=0.3, drag=0.02, nu=0.05)

    def transport(solution: Any) -> Any:
        return (solution.final["psi1"][3:7, :5] ** 2).mean() + (solution.final["psi2"][2:4] * solution.final["psi1"][5:7]).mean()

    value, gradient = run.value_and_grad(transport, inputs, steps=80)
    for name in gradient:
        size = 1e-4 * np.abs(inputs[name]).max()
        way = rng.standard_normal(np.shape(inputs[name])) * size
        ends = [float(transport(run.run(inputs | {name: inputs[name] + sign * way}, 80))) for sign in (-1, 1)]
        slope = (gradient[name] * way).sum()
        assert abs(0.5 * (ends[1] - ends[0]) - slope) < 1e-6 * abs(slope), name
    few = run.value_and_grad(transport, inputs, steps=80, checkpoint=5)
    assert few[0] == value and all(np.array_equal(few[1][name], gradient[name]) for name in gradient)
    report = ds.certify(run, transport, inputs, 20)
    assert report.passed, str(report)


def test_wrong_layers_and_flows_are_refused() -> None:
    grid = ds.Grid(SHAPE, 1.0)
    for wrong, message in (
        ({"layers": (1.0,)}, "layers is 1 and that of gravities 0, expected two layers or more, and 1 gravities"),
        ({"layers": 500.0}, "layers = 500.0"),
        ({"layers": 0}, "layers = 0"),
        ({"layers": np.array([1.0, 2.0])}, "layers is 2 and that of gravities 0"),
        ({"layers": (1.0, 2.0)}, "layers is 2 and that of gravities 0"),
        ({"layers": (1.0, -2.0), "gravities": (1.0,)}, "a thickness of layers = -2.0"),
        ({"layers": (1.0, 2.0), "gravities": (0.0,)}, "one of gravities = 0.0"),
        ({"layers": (1.0, 2.0), "gravities": (1.0,), "f0": 0.0}, "f0 = 0.0"),
        ({"layers": (1.0, 2.0), "gravities": (1.0,)}, "f0 is missing"),
        ({"gravities": (1.0,)}, "gravities = .* without layers"),
        ({"gravities": np.array([1.0])}, "gravities = .* without layers"),
        ({"f0": 1.0}, "f0 = 1.0 without layers"),
        ({"mean_flow": True}, "expected layers"),
        ({"layers": (1.0, 2.0), "gravities": (1.0,), "f0": 1.0, "mean_flow": True}, "periodic along x"),
    ):
        with pytest.raises(ParameterError, match=message):
            QuasiGeostrophic(grid, DT, **wrong)
    channel, rest = sea(CHANNEL, 2, mean_flow=True), [np.zeros(SHAPE)] * 2
    with pytest.raises(StabilityError, match="mean flow of 30 m/s"):
        channel.run(inputs_of(rest, (30.0, 30.0)), 1)
    with pytest.raises(StabilityError, match="Rossby"):
        channel.run(inputs_of(rest, (0.0, 0.0), beta=90.0), 1)
    length = SHAPE[1] / (2 * np.pi)  # of the longest wave, which has no slope across the channel in the bound
    channel.run(inputs_of(rest, (15.0, 15.0)), 1)  # each alone is stable
    channel.run(inputs_of(rest, (0.0, 0.0), beta=15.0 / length), 1)
    with pytest.raises(StabilityError, match="Rossby waves on a mean flow of 15 m/s"):
        channel.run(inputs_of(rest, (15.0, 15.0), beta=15.0 / length), 1)


@pytest.mark.slow
def test_the_mean_flow_carries_drifters() -> None:
    strata = {"layers": THICK[:2], "gravities": REDUCED[:1], "f0": F0}
    equation = QuasiGeostrophic(ds.Grid(SHAPE, 1.0), DT, CHANNEL, drifters=True, mean_flow=True, **strata)
    final = ds.Simulation(equation, wrt=[], precision="f64").run(inputs_of([np.zeros(SHAPE)] * 2, (0.5, -0.2)), 10).final
    assert np.allclose(final["drift_x"], 0.5 * 10 * DT, rtol=1e-12) and not final["drift_y"].any()
