"""Implicit heat conduction: dense matrices, factors of modes, layers, flow, sides that change, and the gradient."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial
from diffsim.errors import ParameterError, StabilityError
from diffsim.solvers import Heat
from tests.sampled import sampled
from tests.steps import peaceman_rachford

Fields = dict[str, Any]
GRID = ds.Grid((6, 7), (0.5, 0.4))
STEPS, DT, GAMMA = 3, 0.7, 1 - 0.5**0.5
SIDES = ((ds.Robin(1.0, 0.5, 0.3), ds.Dirichlet("held")), "periodic")
IMPLICIT = [("adi",), ("sdirk2",), ("crank_nicolson",)]


@functools.cache
def everything(method: Any) -> tuple[ds.Simulation, Fields]:
    """A step with all options, and its inputs."""
    equation = Heat(
        GRID,
        DT,
        SIDES,
        {"held": ds.Variable(axes=())},
        method=method,
        mean="harmonic",
        anisotropic=True,
        capacity=True,
        flow=True,
        heated=True,
    )
    simulation = ds.Simulation(equation, sources={"q": [[1.0, 0.8]]}, receivers={"T": [[1.5, 1.2]]}, precision="f64")
    rng = np.random.default_rng(3)
    return simulation, {name: rng.uniform(0.5, 1.0, simulation.input_shape(name, STEPS)) for name in simulation.inputs}


def matrices(inputs: Fields) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each axis the matrix A and the vector b with which A T + b is what comes into the cells, over c: face by face."""
    rows, columns = GRID.shape
    number = np.arange(rows * columns).reshape(GRID.shape)
    systems = []
    for axis, (k, velocity) in enumerate(((inputs["k_y"], inputs["v"]), (inputs["k_x"], inputs["u"]))):
        h = GRID.spacing[axis]
        A, b = np.zeros((number.size, number.size)), np.zeros(number.size)

        def face(low: Any, high: Any, through: float, flow: float, A: np.ndarray = A, h: float = h) -> None:
            """Heat through a face between two cells: -k ∂T + v T."""
            for cell, sign in ((low, -1), (high, 1)):
                A[cell, low] += sign * (through / h + flow / 2) / h
                A[cell, high] += sign * (-through / h + flow / 2) / h

        for j in range(columns):
            for i in range(rows):
                if axis == 1:
                    right = (j + 1) % columns
                    face(number[i, j], number[i, right], 2 / (1 / k[i, j] + 1 / k[i, right]), velocity[i, j])
                elif i + 1 < rows:
                    face(number[i, j], number[i + 1, j], 2 / (1 / k[i, j] + 1 / k[i + 1, j]), velocity[i, j])
            if axis == 0:
                first, last = number[0, j], number[-1, j]
                # (T + ghost)/2 + 0.5 (ghost - T)/h = 0.3, and (T + ghost)/2 = held: ghost = gain T + rest
                gain, rest = (0.5 / h - 0.5) / (0.5 + 0.5 / h), 0.3 / (0.5 + 0.5 / h)
                for cell, (g, r), sign, flow in (
                    (first, (gain, rest), -1, inputs["v_low"][j]),
                    (last, (-1.0, 2 * float(inputs["held"])), 1, velocity[-1, j]),
                ):
                    through = k.flat[cell] / h
                    A[cell, cell] += through * (g - 1) / h - sign * flow * (1 + g) / 2 / h
                    b[cell] += through * r / h - sign * flow * r / 2 / h
        systems.append((A / inputs["rho_c"].reshape(-1, 1), b / inputs["rho_c"].ravel()))
    return systems


def dense(method: str, inputs: Fields) -> np.ndarray:
    systems = matrices(inputs)
    A = np.sum([A for A, _ in systems], axis=0)
    supply = np.sum([b for _, b in systems], axis=0) + (inputs["s"] / inputs["rho_c"]).ravel()
    one, T = np.eye(len(A)), inputs["T"].ravel()
    for n in range(STEPS):
        if method == "adi":  # the increment of Crank and Nicolson, with the matrix factored approximately
            change = DT * (A @ T + supply)
            for along, _ in systems:
                change = np.linalg.solve(one - DT / 2 * along, change)
            T = T + change
        elif method == "crank_nicolson":
            T = np.linalg.solve(one - DT / 2 * A, T + DT / 2 * A @ T + DT * supply)
        else:  # from the table of coefficients: slopes k1 and k2
            k1 = np.linalg.solve(one - GAMMA * DT * A, A @ T + supply)
            k2 = np.linalg.solve(one - GAMMA * DT * A, A @ (T + (1 - GAMMA) * DT * k1) + supply)
            T = T + DT * ((1 - GAMMA) * k1 + GAMMA * k2)
        cell = 2 * GRID.shape[1] + 2  # of the source
        T[cell] += DT * inputs["q"][n, 0] / inputs["rho_c"].flat[cell] / GRID.cell_volume
    return T.reshape(GRID.shape)


@pytest.mark.parametrize("method", [each for (each,) in IMPLICIT])
def test_steps_are_those_of_dense_matrices(method: Any) -> None:
    simulation, inputs = everything(method)
    np.testing.assert_allclose(simulation.run(inputs, STEPS).final["T"], dense(method, inputs), rtol=0, atol=1e-11)


@pytest.mark.parametrize("method", sampled(IMPLICIT, 3))
def test_the_gradient_is_that_of_differences(method: Any) -> None:
    simulation, inputs = everything(method)
    weights = np.random.default_rng(4).normal(size=GRID.shape)

    def loss(found: ds.Solution) -> Any:
        return (weights * found.final["T"] ** 2).sum() + (found.traces["T"] ** 2).sum()

    _, gradient = simulation.value_and_grad(loss, inputs, STEPS)
    stored = simulation.value_and_grad(loss, inputs, STEPS, Binomial(STEPS, 1))[1]
    rng = np.random.default_rng(5)
    for name, start in inputs.items():
        assert np.array_equal(gradient[name], stored[name]), name
        way, step = rng.normal(size=np.shape(start)), 1e-5
        low, high = (float(loss(simulation.run(inputs | {name: start + sign * step * way}, STEPS))) for sign in (-1, 1))
        assert float((gradient[name] * way).sum()) == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-9), name
        assert gradient[name].any(), name
    direction = {name: rng.normal(size=np.shape(value)) for name, value in inputs.items()}
    _, tangent = simulation.jvp(inputs, direction, STEPS)
    _, pullback = simulation.vjp(inputs, STEPS)
    owed = pullback(ds.Solution(final={"T": weights}))
    along = sum(float((owed[name] * direction[name]).sum()) for name in owed)
    assert along == pytest.approx(float((tangent.final["T"] * weights).sum()), rel=1e-12)


def test_a_mode_has_the_factor_of_its_method() -> None:
    """In an insulated plate, by a step for which the fastest modes have z = -dt λ = 100: L-stable methods damp them, others do not."""
    n, h, kappa, dt = 12, 0.5, 0.4, 8.0
    grid = ds.Grid((n, n), h)
    i = np.arange(n) + 0.5
    modes = {(3, 2): 0.5, (11, 10): 1.0}
    for method in ("crank_nicolson", "sdirk2", "adi"):
        plate = ds.Simulation(Heat(grid, dt, method=method), wrt=[], precision="f64")
        for mode in modes:
            field = np.multiply.outer(*(np.cos(np.pi * m * i / n) for m in mode))
            z = np.array([4 * kappa * dt / h**2 * np.sin(np.pi * m / n / 2) ** 2 for m in mode])
            factor = {
                "crank_nicolson": (1 - z.sum() / 2) / (1 + z.sum() / 2),
                "sdirk2": (1 - (1 - 2 * GAMMA) * z.sum()) / (1 + GAMMA * z.sum()) ** 2,
                "adi": np.prod((1 - z / 2) / (1 + z / 2)),
            }[method]
            T_end = plate.run({"kappa": np.full(grid.shape, kappa), "T": field}, 3).final["T"]
            np.testing.assert_allclose(T_end, factor**3 * field, rtol=0, atol=1e-12)
            if mode == (11, 10):
                assert z.sum() > 95 and (abs(factor) < 0.05) == (method == "sdirk2")


def test_alternating_directions_in_three_dimensions() -> None:
    """By Douglas a mode has the factor 1 - Σz / Π(1 + z/2), here with another conductivity and spacing along each axis."""
    shape, spacing, modes, dt = (5, 6, 7), (0.5, 0.4, 0.3), (2, 5, 3), 2.0
    media = {"kappa_z": 0.1, "kappa_y": 0.4, "kappa_x": 0.2}
    block = ds.Simulation(Heat(ds.Grid(shape, spacing), dt, method="adi", anisotropic=True), wrt=[], precision="f64")
    along = [np.cos(np.pi * m * (np.arange(n) + 0.5) / n) for m, n in zip(modes, shape, strict=True)]
    z = np.array(
        [4 * k * dt / h**2 * np.sin(np.pi * m / n / 2) ** 2 for k, h, m, n in zip(media.values(), spacing, modes, shape, strict=True)]
    )
    T = along[0][:, None, None] * along[1][:, None] * along[2]
    later = block.run({name: np.full(shape, value) for name, value in media.items()} | {"T": T}, 2).final["T"]
    np.testing.assert_allclose(later, (1 - z.sum() / np.prod(1 + z / 2)) ** 2 * T, rtol=0, atol=1e-12)


def test_alternating_directions_in_a_block_that_varies_are_stable_or_refused() -> None:
    """Parts along three axes that do not commute grow where steps are long: by 1e10 in 100 steps of 10, in this block."""
    rng, grid = np.random.default_rng(0), ds.Grid((6, 6, 6), 1.0)
    inputs = {"kappa": rng.choice([0.01, 1.0], grid.shape), "T": rng.standard_normal(grid.shape)}
    longest = ds.Simulation(Heat(grid, 2.0, method="adi"), wrt=[], precision="f64")
    assert np.abs(longest.run(inputs, 200).final["T"]).max() < np.abs(inputs["T"]).max()
    too_long = ds.Simulation(Heat(grid, 2.1, method="adi"), wrt=[], precision="f64")
    with pytest.raises(StabilityError, match=r"\"adi\" on three axes of a medium that varies"):
        too_long.run(inputs, 1)
    too_long.run({**inputs, "kappa": np.ones(grid.shape)}, 1)
    with pytest.raises(ParameterError, match='take "sdirk2"'):
        Heat(grid, 1.0, method="adi", flow=True)


@pytest.mark.parametrize("where", ["inside", "through the low side"])
def test_a_flow_without_conduction_is_refused_where_it_is_explicit(where: str) -> None:
    rod = ds.Simulation(Heat(ds.Grid((32,), 1.0), 0.5, flow=True), wrt=[], precision="f64")
    inside = where == "inside"
    inputs = {
        "kappa": np.full(32, 0.0 if inside else 0.1),
        "T": np.ones(32),
        "u": np.full(32, float(inside)),
        "u_low": 0.0 if inside else 50.0,
    }
    with pytest.raises(StabilityError, match=r"a flow of (1|50) m/s"):
        rod.run(inputs, 1)


def test_in_two_dimensions_they_are_those_of_peaceman_and_rachford() -> None:
    rng = np.random.default_rng(7)
    inputs = peaceman_rachford.inputs(rng, (9, 11))
    equation = Heat(ds.Grid((9, 11), peaceman_rachford.DX), peaceman_rachford.DT, peaceman_rachford.RULES, method="adi")
    later = ds.Simulation(equation, wrt=[], precision="f64").run(inputs, 1).final["T"]
    wanted = peaceman_rachford.advance(q=np.zeros((9, 11)), **inputs)["T"]
    np.testing.assert_allclose(later, wanted, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("method", IMPLICIT)
def test_second_order_in_time_at_a_side_that_changes(method: Any) -> None:
    """A rod whose end has the temperature sin(t), given at the middle of each step, against the exact solution of its cells. By "sdirk2"
    the cells next to the side follow it without delay where z >> 1, so that the order shows from z of about 1 on."""
    n, kappa, end = 8, 0.3, 2.0
    grid = ds.Grid((n,), 1 / n)
    A = kappa * n**2 * (np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1) - 2 * np.eye(n))
    A[0, 0], A[-1, -1] = -3 * kappa * n**2, -kappa * n**2
    b = np.zeros(n)
    b[0] = 2 * kappa * n**2
    p = np.linalg.solve(A @ A + np.eye(n), b)  # (-A p) sin t - p cos t, and what decays, is the solution of T' = A T + b sin t
    rates, vectors = np.linalg.eigh(A)
    exact = -A @ p * np.sin(end) - p * np.cos(end) + vectors @ (np.exp(rates * end) * (vectors.T @ p))
    errors = []
    for steps in (160, 320) if method == "sdirk2" else (20, 40):
        dt = end / steps
        equation = Heat(grid, dt, ((ds.Dirichlet("held"), "mirror"),), series={"held": ds.Variable(axes=())}, method=method)
        held = np.sin(dt * (np.arange(steps) + 0.5))
        T_end = ds.Simulation(equation, wrt=[], precision="f64").run({"kappa": np.full(n, kappa), "held": held}, steps).final["T"]
        errors.append(np.abs(T_end - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.15) and errors[1] < 1e-3


@pytest.mark.parametrize("mean", ["harmonic", "arithmetic"])
def test_the_flux_through_two_layers(mean: Any) -> None:
    """A wall of two layers, 1 and 0.1 W/(m K): the flux is 1 / (0.5/1 + 0.5/0.1), on cells of any size with the harmonic mean. On 20 cells
    the arithmetic one is 3.5 % off."""
    uneven = np.concatenate([np.linspace(0, 0.5, 11), 0.5 + 0.5 * np.linspace(0, 1, 11)[1:] ** 1.5])
    for grid in (ds.Grid((20,), 0.05, 0.025), ds.Grid.from_faces((uneven,))):
        wall = Heat(grid, 50.0, ((ds.Dirichlet(1.0), ds.Dirichlet(0.0)),), method="sdirk2", mean=mean)
        k = np.where(grid.coordinates(0) < 0.5, 1.0, 0.1)
        T = ds.Simulation(wall, wrt=[], precision="f64").run({"kappa": k}, 40).final["T"]
        through = (1 - T[0]) / (grid.widths(0)[0] / 2)
        if mean == "harmonic":
            x = grid.coordinates(0)
            assert through * 5.5 == pytest.approx(1, abs=1e-11)
            np.testing.assert_allclose(T, np.where(x < 0.5, 1 - x / 5.5, (1 - x) * 10 / 5.5), atol=1e-11)
        elif grid.uniform_spacing[0] is not None:
            assert through * 5.5 - 1 == pytest.approx(0.0346, abs=1e-4)


def test_a_flow_against_its_steady_profile() -> None:
    """Between two temperatures with a flow of v L / kappa = 4: T = (e^(4x) - 1) / (e⁴ - 1), to second order."""
    errors = []
    for n in (16, 32):
        grid = ds.Grid((n,), 1 / n, 0.5 / n)
        channel = Heat(grid, 5.0, ((ds.Dirichlet(0.0), ds.Dirichlet(1.0)),), method="sdirk2", flow=True)
        inputs = {"kappa": np.full(n, 0.25), "u": np.ones(n), "u_low": 1.0}
        T_end = ds.Simulation(channel, wrt=[], precision="f64").run(inputs, 30).final["T"]
        errors.append(np.abs(T_end - np.expm1(4 * grid.coordinates(0)) / np.expm1(4)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.15) and errors[1] < 3e-3


def test_explicit_steps_with_a_flow_have_two_limits() -> None:
    """2 kappa / v² = 0.2 s, and h² / 4 kappa = 0.625 s without flow: there the largest factor of all waves passes 1."""
    grid, kappa = ds.Grid((8, 9), 0.5), 0.1
    waves = np.linspace(0, np.pi, 181)[:, None], np.linspace(0, np.pi, 181)
    for speed, limit, why in ((1.0, 0.2, "a flow of 1 m/s in kappa_min = 0.1 m²/s"), (0.0, 0.625, "kappa_max = 0.1 m²/s, dx = 0.5 m")):
        fields = {"kappa": kappa, "T": 1.0, "u": speed, "v": 0.0}
        inputs = {name: np.full(grid.shape, value) for name, value in fields.items()}
        for dt in (0.98 * limit, 1.02 * limit):
            conducted = sum(4 * kappa * dt / 0.25 * np.sin(k / 2) ** 2 for k in waves)
            grows = np.abs(1 - conducted - 1j * speed * dt / 0.5 * np.sin(waves[1])).max() > 1 + 1e-9
            plate = ds.Simulation(Heat(grid, dt, "periodic", flow=True), wrt=[])
            if grows:
                with pytest.raises(StabilityError, match=rf"exceeds the stable {limit} s for {why}"):
                    plate.run(inputs, 2)
            else:
                plate.run(inputs, 2)
            assert grows == (dt > limit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "euler"}, "method = 'euler' is unknown; choose one of explicit, crank_nicolson, sdirk2, adi, steady"),
        ({"mean": "geometric"}, "mean = 'geometric' is unknown; choose one of arithmetic, harmonic"),
        ({"flow": "x"}, "flow = 'x', expected True or False"),
        (
            {"capacity": True, "parameters": {"rho_c": ds.Variable(axes=())}},
            "parameters names rho_c, expected a name other than T, k, rho_c, q",
        ),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Heat(GRID, 0.1, **options)


def test_media_that_are_not_physical_are_refused() -> None:
    fields = {"T": np.ones(GRID.shape), "k": np.ones(GRID.shape), "rho_c": np.ones(GRID.shape)}
    cases: list[tuple[Any, str, float, str]] = [
        ("arithmetic", "k", -1.0, r"conductivity k has a value of -1 W/\(m K\), expected zero or more"),
        ("harmonic", "k", 0.0, r"conductivity k has a value of 0 W/\(m K\), expected positive"),
        ("arithmetic", "rho_c", 0.0, r"heat capacity rho_c has a value of 0 J/\(m³ K\), expected positive"),
    ]
    for mean, name, value, message in cases:
        equation = Heat(GRID, 1.0, mean=mean, capacity=True, method="adi")
        with pytest.raises(ParameterError, match=message):
            ds.Simulation(equation, wrt=[]).run(fields | {name: np.full(GRID.shape, value)}, 1)
