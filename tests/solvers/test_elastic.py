"""Elastic waves against NumPy, closed forms, what they conserve, and acoustics."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import hankel2

import diffsim as ds
from diffsim.solvers import Elastic
from tests.cases import StaggeredAcoustic
from tests.steps.elastic_scheme import Fields, Scheme

ROUND_OFF = 1e-12  # of a dozen steps, relative to the largest value of a field
EXACT = 1e-10  # of a plane wave after some hundred steps
SIZES = {"vp": (2000.0, 3000.0), "vs": (700.0, 1500.0), "rho": (1500.0, 2500.0)}
THOMSEN = {"epsilon": (0.2, 0.3), "delta": (-0.1, 0.15), "gamma": (0.0, 0.1)}


def ricker(dt: float, steps: int, frequency: float, delay: float | None = None) -> np.ndarray:
    a = (np.pi * frequency * (dt * np.arange(steps) - (1.2 / frequency if delay is None else delay))) ** 2
    return (1 - 2 * a) * np.exp(-a)


def uniform(shape: tuple[int, ...], vp: float, vs: float, rho: float, **thomsen: float) -> Fields:
    return {name: np.full(shape, value) for name, value in {"vp": vp, "vs": vs, "rho": rho, **thomsen}.items()}


def random_medium(rng: np.random.Generator, equation: Elastic) -> Fields:
    shape = equation.grid.shape
    medium = {name: rng.uniform(*(SIZES | THOMSEN)[name], shape) for name in equation.parameters}
    lakes = rng.uniform(size=shape) < 0.1
    medium["vs"][lakes] = 0.0
    if "delta" in medium:
        medium["delta"][lakes] = medium["epsilon"][lakes]
    if equation.surface:
        medium["rho"][rng.uniform(size=shape) < 0.03] = 0.0  # caves
        medium["rho"][:3, -4:] = 0.0
    return medium


def random_states(rng: np.random.Generator, equation: Elastic) -> Fields:
    """Stresses of the size that goes with the velocities. Memory variables lie in their layer, and air is at rest."""
    out = {}
    for name, state in equation.states.items():
        size = 4e6 if name[0] == "s" or name[:5] in ("psi_v", "p") else 1.0
        size = {"psi_s": 1e5, "psi_v": 0.1}.get(name[:5], size)
        out[name] = size * rng.standard_normal(equation.grid.shape) * (1.0 if state.region is None else state.region)
    return out


@dataclasses.dataclass(frozen=True)
class Kind:
    """Options of the equation that change its step."""

    name: str
    shape: tuple[int, ...]
    options: dict[str, Any]
    cells: tuple[tuple[int, int], ...]
    periodic: str = ""

    def equation(self) -> Elastic:
        boundary = tuple("periodic" if a in self.periodic else "zero" for a in "zyx"[-len(self.shape) :])
        spacing = (10.0, 8.0, 9.0)[: len(self.shape)]
        return Elastic(ds.Grid(self.shape, spacing), 1e-3, layer=self.cells, boundary=boundary, **LAYER, **self.options)


def none(ndim: int) -> tuple[tuple[int, int], ...]:
    return ((0, 0),) * ndim


LAYER = {"layer_speed": 3000.0, "layer_frequency": 20.0}
KINDS = [
    Kind("order 2", (11, 13), {"order": 2, "pressure": True}, none(2)),
    Kind("order 6", (14, 17), {"order": 6}, none(2), "x"),
    Kind("order 8", (15, 18), {"order": 8}, none(2), "yx"),
    Kind("layers", (17, 19), {"order": 4}, ((4, 3), (5, 0))),
    Kind("surface, layers", (18, 21), {"order": 4, "surface": True}, ((0, 4), (4, 5))),
    Kind("surface, order 8", (18, 21), {"order": 8, "surface": True, "anisotropy": True}, none(2), "x"),
    Kind("3-D, layers", (9, 10, 11), {"order": 2, "surface": True}, ((0, 2), (0, 0), (2, 3)), "y"),
    Kind("3-D, anisotropy", (9, 10, 11), {"order": 4, "anisotropy": True, "pressure": True}, none(3)),
]


QUICK = ("surface, layers", "3-D, anisotropy")


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name, marks=() if kind.name in QUICK else pytest.mark.slow) for kind in KINDS])
def test_a_run_equals_numpy(kind: Kind) -> None:
    """With a source of each kind, in a medium of random cells with fluid and, where there is a surface, air."""
    rng, steps, equation = np.random.default_rng(3), 6, kind.equation()
    grid = equation.grid
    medium, now = random_medium(rng, equation), random_states(rng, equation)
    cell = tuple(n // 2 for n in kind.shape)
    places, amplitudes = {}, {}
    for name in equation.forcings:
        on = {axis for axis in equation.axes if name[1:].count(axis) == 1}
        places[name] = [[grid.coordinates(i, int(axis in on))[cell[i]] for i, axis in enumerate(equation.axes)]]
        amplitudes[name] = rng.uniform(0.5, 1.0, (steps, 1)) * (1e9 if name[0] == "f" else 1e12)
    medium["rho"][tuple(slice(c - 1, c + 2) for c in cell)] = 2000.0
    final = ds.Simulation(equation, sources=places, precision="f64").run(medium | now | amplitudes, steps).final
    options = {key: value for key, value in kind.options.items() if key == "surface"}
    scheme = Scheme(equation.axes, grid.spacing, 1e-3, kind.options["order"], kind.cells, periodic=kind.periodic, **options)
    built = scheme.medium(medium)
    for n in range(steps):
        density = {name: np.zeros(kind.shape) for name in amplitudes}
        for name, field in density.items():
            field[cell] = amplitudes[name][n, 0] / math.prod(grid.spacing)
        now = scheme.advance(now, built, density)
    assert final.keys() == now.keys()
    for name, expected in now.items():
        assert np.abs(final[name] - expected).max() < ROUND_OFF * np.abs(expected).max(), name


def thomsen_speeds(medium: dict[str, float], angle: float) -> tuple[float, float]:
    """Phase velocities of qP and qSV at an angle from the symmetry axis: Thomsen (1986), equations 10a, 10b and 10d."""
    a, b, epsilon, delta = medium["vp"], medium["vs"], medium["epsilon"], medium["delta"]
    s, c, ratio = math.sin(angle) ** 2, math.cos(angle) ** 2, 1 - b**2 / a**2
    star = ratio * (2 * delta - epsilon)
    D = ratio / 2 * (math.sqrt(1 + 4 * star / ratio**2 * s * c + 4 * (ratio + epsilon) * epsilon / ratio**2 * s**2) - 1)
    return a * math.sqrt(1 + epsilon * s + D), b * math.sqrt(1 + a**2 / b**2 * (epsilon * s - D))


ROCK = {"vp": 2500.0, "vs": 1200.0, "rho": 2100.0}
SHALE = ROCK | {"epsilon": 0.25, "delta": -0.1}


@pytest.mark.parametrize("wave", ["P", "S"])
@pytest.mark.parametrize(
    ("order", "medium"),
    [
        pytest.param(2, ROCK, marks=pytest.mark.slow),
        (4, SHALE),
        pytest.param(6, SHALE, marks=pytest.mark.slow),
        pytest.param(8, ROCK, marks=pytest.mark.slow),
    ],
)
def test_a_plane_wave_obeys_the_discrete_dispersion_relation(order: int, medium: dict[str, float], wave: str) -> None:
    """2 sin(ω dt / 2) / dt = |K| v, with the wave number K of the differences and the phase velocity v of the continuum along K."""
    from tests.steps.elastic_scheme import WEIGHTS

    shape, h, dt, steps = (20, 24), (10.0, 8.0), 1e-3, 150
    grid = ds.Grid(shape, h)
    k = [2 * np.pi * m / (n * d) for m, n, d in zip((2, 3), shape, h, strict=True)]
    K = np.array([2 / d * sum(w * np.sin((i + 0.5) * q * d) for i, w in enumerate(WEIGHTS[order])) for q, d in zip(k, h, strict=True)])
    angle = math.atan2(K[1], K[0])
    full = {"epsilon": 0.0, "delta": 0.0} | medium
    v = thomsen_speeds(full, angle)["PS".index(wave)]
    rate = np.linalg.norm(K) * v
    omega = 2 / dt * math.asin(rate * dt / 2)
    c33, c55 = medium["rho"] * medium["vp"] ** 2, medium["rho"] * medium["vs"] ** 2
    c11 = c33 * (1 + 2 * full["epsilon"])
    c13 = math.sqrt(2 * full["delta"] * c33 * (c33 - c55) + (c33 - c55) ** 2) - c55
    christoffel = np.array([[c33 * K[0] ** 2 + c55 * K[1] ** 2, (c13 + c55) * K[0] * K[1]], [0, c11 * K[1] ** 2 + c55 * K[0] ** 2]])
    motion = np.linalg.eigh(christoffel, "U")[1][:, 1 if wave == "P" else 0]
    pulls = {"yy": c33 * K[0] * motion[0] + c13 * K[1] * motion[1], "xx": c13 * K[0] * motion[0] + c11 * K[1] * motion[1]}
    pulls["xy"] = c55 * (K[0] * motion[1] + K[1] * motion[0])

    def fields(time: float) -> Fields:
        def phase(place: tuple[int, int], t: float) -> np.ndarray:
            y, x = (grid.coordinates(axis, at) for axis, at in enumerate(place))
            return np.cos(k[0] * y[:, None] + k[1] * x[None, :] - omega * t)

        out = {"vy": motion[0] * phase((1, 0), time - dt / 2), "vx": motion[1] * phase((0, 1), time - dt / 2)}
        return out | {f"s{pair}": -value / rate * phase((1, 1) if pair == "xy" else (0, 0), time) for pair, value in pulls.items()}

    equation = Elastic(grid, dt, order, anisotropy="epsilon" in medium, boundary="periodic")
    final = ds.Simulation(equation, precision="f64").run(fields(0.0) | uniform(shape, **medium), steps).final
    for name, expected in fields(steps * dt).items():
        assert np.abs(final[name] - expected).max() < EXACT * np.abs(expected).max(), name


def energy(scheme: Scheme, medium: Fields, before: Fields, now: Fields) -> float:
    """Energy of stresses at t and the product of the velocities half a step before and after."""
    built = scheme.medium(medium)
    total = sum(np.sum(before[v] * now[v] / np.where(built[b] > 0, built[b], np.inf)) for v, b in (("vy", "by"), ("vx", "bx")))
    c33, c11, c13 = (np.where(built["cyy"] > 0, built[name], 1.0) for name in ("cyy", "cxx", "cyx"))
    c13 = np.where(built["cyy"] > 0, c13, 0.0)
    syy, sxx = before["syy"], before["sxx"]
    total += np.sum((c11 * syy**2 + c33 * sxx**2 - 2 * c13 * syy * sxx) / (c33 * c11 - c13**2))
    return float(total + np.sum(before["sxy"] ** 2 / np.where(built["c_xy"] > 0, built["c_xy"], np.inf)))


@pytest.mark.parametrize("order", [pytest.param(2, marks=pytest.mark.slow), 4, pytest.param(8, marks=pytest.mark.slow)])
def test_energy_stays(order: int) -> None:
    """In a medium of random cells, with caves, a surface, a cliff, and anisotropy; no layer."""
    kind = Kind("", (16, 19), {"order": order, "surface": True, "anisotropy": True}, none(2), "x")
    equation, rng = kind.equation(), np.random.default_rng(7)
    medium, start = random_medium(rng, equation), random_states(rng, equation)
    medium["vs"] = np.maximum(medium["vs"], 500.0)  # a fluid bears no stress but pressure
    scheme = Scheme("yx", equation.grid.spacing, 1e-3, order, none(2), surface=True, periodic="x")
    built = scheme.medium(medium)
    for name, there in (("vy", "by"), ("vx", "bx"), ("syy", "cyy"), ("sxx", "cyy"), ("sxy", "c_xy")):
        start[name] = start[name] * (built[there] > 0)
    run = ds.Simulation(equation, precision="f64")

    def at(steps: int) -> float:
        before, now = (run.run(medium | start, n).final for n in (steps - 1, steps))
        return energy(scheme, medium, before, now)

    assert abs(at(400) / at(2) - 1) < 1e-12


def test_a_fluid_is_acoustic() -> None:
    """Where vs = 0, normal stresses are minus the pressure of the acoustic step, and there is no shear stress."""
    grid, dt, steps = ds.Grid((14, 18), 1.0), 0.2, 40
    rng = np.random.default_rng(2)
    c, p, amplitude = rng.uniform(0.7, 1.3, grid.shape), rng.standard_normal(grid.shape), rng.standard_normal((steps, 1))
    place = [[3.0, 4.0]]
    wet = ds.Simulation(StaggeredAcoustic(grid, dt, 4, "zero"), sources={"f": place}, precision="f64")
    expected = wet.run({"c": c, "p": p, "f": amplitude / (c[3, 4]) ** 2}, steps).final
    equation = Elastic(grid, dt, 4, pressure=True)
    solution = ds.Simulation(equation, sources={"myy": place, "mxx": place}, precision="f64").run(
        uniform(grid.shape, 1.0, 0.0, 1.0) | {"vp": c, "syy": -p, "sxx": -p, "myy": amplitude, "mxx": amplitude}, steps
    )
    for name, other, sign in (("syy", "p", -1), ("sxx", "p", -1), ("p", "p", 1), ("vy", "u0", 1), ("vx", "u1", 1)):
        assert np.abs(solution.final[name] - sign * expected[other]).max() < ROUND_OFF * np.abs(expected[other]).max(), name
    assert not solution.final["sxy"].any()


def test_reciprocity() -> None:
    """A force along x at A moves B along y as one along y at B moves A along x: with layers, a surface and a random medium."""
    kind = Kind("", (30, 34), {"surface": True}, ((0, 8), (8, 8)))
    equation, steps = kind.equation(), 120
    medium = random_medium(np.random.default_rng(4), equation)
    here, there = [[73.0, 91.5]], [[144.2, 183.1]]
    amplitude = ricker(1e-3, steps, 40.0)[:, None]
    first = ds.Simulation(equation, sources={"fx": here}, receivers={"vy": there}, precision="f64")
    second = ds.Simulation(equation, sources={"fy": there}, receivers={"vx": here}, precision="f64")
    one = first.run(medium | {"fx": amplitude}, steps).traces["vy"]
    other = second.run(medium | {"fy": amplitude}, steps).traces["vx"]
    assert np.abs(one).max() > 0
    # a receiver at the place of a force has the value of the next step; here both are moved in the same way
    assert np.abs(one - other).max() < ROUND_OFF * np.abs(one).max()


def plane_force(omega: np.ndarray, offset: np.ndarray, vp: float, vs: float, rho: float) -> np.ndarray:
    """Spectrum of the displacement per force along y, shape (2, frequencies): the Green's tensor of the plane, exp(iωt)."""
    r = float(np.linalg.norm(offset))
    ray = offset / r
    out = np.zeros((2, len(omega)), complex)

    def second(k: np.ndarray, i: int) -> np.ndarray:  # ∂ᵢ∂_y of -i/4 H₀⁽²⁾(kr)
        slope = -k * hankel2(1, k * r)
        bend = -(k**2) * hankel2(0, k * r) - slope / r
        return -0.25j * (bend * ray[i] * ray[0] + slope / r * ((i == 0) - ray[i] * ray[0]))

    for i in range(2):
        kp, ks = omega / vp, omega / vs
        out[i] = ((i == 0) * -0.25j * hankel2(0, ks * r) + (second(ks, i) - second(kp, i)) / ks**2) / (rho * vs**2)
    return out


@pytest.mark.parametrize(
    "offset",
    [pytest.param((0.0, 250.0), marks=pytest.mark.slow, id="S"), pytest.param((200.0, -170.0), marks=pytest.mark.slow, id="P and S")],
)
def test_a_force_in_the_plane(offset: tuple[float, float]) -> None:
    """Against the Green's tensor: speeds, amplitudes and radiation of P and S waves, and that layers are still. Across the force only S has
    a far field."""
    h, dt, steps, frequency = 5.0, 8e-4, 450, 16.0
    grid = ds.Grid((111, 141), h)
    place = np.array([252.5, 350.0 if offset[1] > 0 else 450.0])  # a face of y
    equation = Elastic(grid, dt, 8, layer=15, layer_speed=2500.0, layer_frequency=frequency)
    there = place + np.array(offset)
    aside = np.array([2.5, 2.5])  # to a face of x
    run = ds.Simulation(equation, sources={"fy": [place]}, receivers={"vy": [there], "vx": [there + aside]}, precision="f64")
    wavelet = ricker(dt, steps, frequency)
    traces = run.run(uniform(grid.shape, **ROCK) | {"fy": wavelet[:, None]}, steps).traces
    long = 8 * steps
    omega = 2 * np.pi * np.fft.rfftfreq(long, dt)
    green = np.zeros((2, len(omega)), complex)
    for i in range(2):
        green[i, 1:] = 1j * omega[1:] * plane_force(omega[1:], np.array(offset) + i * aside, **ROCK)[i]
    # row n of the force acts at (n + 1) dt, row n of the record is the velocity at (n - 1/2) dt
    moved = np.fft.rfft(wavelet, long) * np.exp(-1j * omega * 1.5 * dt)
    exact = np.fft.irfft(moved * green, long)[:, : steps + 1]
    exact -= exact[:, :1]
    scale = np.abs(exact).max()
    for i, name in enumerate(("vy", "vx")):
        assert np.abs(traces[name][:, 0] - exact[i]).max() < 2e-2 * scale, name


def garvin(times: np.ndarray, rate: Any, depth: float, offset: float, vp: float, vs: float, rho: float) -> np.ndarray:
    """Downward velocity of the surface of a half-space, after a buried line explosion, by Cagniard's method.

    Args:
        times: s.
        rate: function of time, the derivative of the moment rate, N/s².
    """
    r = math.hypot(depth, offset)
    out = np.zeros(len(times))
    for n, time in enumerate(times):
        if time <= r / vp:
            continue
        end = math.acosh(time * vp / r)
        theta = (np.arange(4000) + 0.5) * end / 4000
        p = (offset * np.cosh(theta) + 1j * depth * np.sinh(theta)) / (r * vp)
        slope = (offset * np.sinh(theta) + 1j * depth * np.cosh(theta)) / (r * vp)
        a = 1 / vs**2 - 2 * p**2
        rayleigh = a**2 + 4 * p**2 * np.sqrt(1 / vp**2 - p**2) * np.sqrt(1 / vs**2 - p**2)
        kernel = (a / vs**2 / rayleigh * slope).imag / np.pi
        out[n] = -np.sum(kernel * rate(time - r / vp * np.cosh(theta))) * end / 4000 / (rho * vp**2)
    return out


@pytest.mark.slow
def test_garvins_problem() -> None:
    """An explosion below a free surface, with its Rayleigh wave: amplitude, shape and time at the surface."""
    h, dt, steps, frequency, delay = 4.0, 5e-4, 700, 14.0, 0.09
    medium = {"vp": 2400.0, "vs": 1350.0, "rho": 2000.0}
    grid = ds.Grid((80, 190), h)
    equation = Elastic(grid, dt, 4, layer=15, layer_speed=2400.0, layer_frequency=frequency, surface=True)
    depth, offset = 22.5 * h, 110 * h
    place, there = [[depth + 0.5 * h, 35 * h]], [[0.5 * h, 35 * h + offset]]
    run = ds.Simulation(equation, sources={"myy": place, "mxx": place}, receivers={"vy": there}, precision="f64")
    moment_rate = 1e9 * ricker(dt, steps, frequency, delay - dt / 2)[:, None]  # row n acts at (n + 1/2) dt
    inputs = uniform(grid.shape, **medium) | {"myy": moment_rate, "mxx": moment_rate}
    trace = run.run(inputs, steps).traces["vy"][:, 0]

    def rate(t: np.ndarray) -> np.ndarray:
        a = (np.pi * frequency * (t - delay)) ** 2
        return 1e9 * 2 * (np.pi * frequency) ** 2 * (t - delay) * (2 * a - 3) * np.exp(-a)

    rows = np.arange(0, steps + 1, 7)
    exact = garvin(dt * (rows - 0.5), rate, depth, offset, **medium)
    assert np.abs(exact).max() > 0
    assert np.abs(trace[rows] - exact).max() < 0.04 * np.abs(exact).max()


@pytest.mark.slow
def test_the_rayleigh_wave_has_its_speed() -> None:
    """c_R = 0.9194 c_s where λ = μ; from the spectra at two places, at 20 cells a wavelength."""
    h, vs, frequency, steps = 1.0, 1000.0, 50.0, 1120
    dt = 4e-4 * 0.8
    grid = ds.Grid((70, 330), h)
    equation = Elastic(grid, dt, 4, layer=15, layer_speed=1800.0, layer_frequency=frequency, surface=True)
    places = [[0.5, 130.0], [0.5, 290.0]]
    run = ds.Simulation(equation, sources={"fy": [[0.5, 25.0]]}, receivers={"vy": places}, precision="f64")
    medium = uniform(grid.shape, math.sqrt(3) * vs, vs, 2000.0)
    traces = run.run(medium | {"fy": ricker(dt, steps, frequency)[:, None]}, steps).traces["vy"]
    spectra = np.fft.rfft(traces, 16 * steps, axis=0)
    omega = 2 * np.pi * np.fft.rfftfreq(16 * steps, dt)
    here = np.searchsorted(omega, 2 * np.pi * frequency)
    turns = np.unwrap(np.angle(spectra[:, 1] / spectra[:, 0]))
    late = -turns[here] / omega[here]
    whole = 2 * np.pi / omega[here]  # unwrapped from frequency 0, up to whole periods
    late += whole * round((160.0 / (0.9194 * vs) - late) / whole)
    assert 160.0 / late == pytest.approx(0.9194 * vs, rel=1e-2)


def leaves(frequency: float, place: list[float], there: list[float], surface: bool) -> float:
    """The change of the records by a layer of 20 cells, against a grid where nothing comes back, relative to their largest value."""
    shape, h, dt, steps, far = (70, 90), 5.0, 9e-4, 420, 110
    wavelet = ricker(dt, steps, frequency)[:, None]
    records = []
    for more in (0, far):
        low = 0 if surface else more
        grid = ds.Grid((shape[0] + more + low, shape[1] + 2 * more), h, (-h * low, -h * more))
        equation = Elastic(grid, dt, 4, layer=20, layer_speed=2500.0, layer_frequency=frequency, surface=surface)
        run = ds.Simulation(equation, sources={"fy": [place]}, receivers={"vy": [there], "vx": [there]}, precision="f64")
        traces = run.run(uniform(grid.shape, **ROCK) | {"fy": wavelet}, steps).traces
        records.append(np.concatenate([traces["vy"], traces["vx"]]))
    return float(np.abs(records[0] - records[1]).max() / np.abs(records[1]).max())


@pytest.mark.parametrize(
    ("place", "there", "surface"),
    [
        pytest.param([172.5, 225.0], [172.5, 330.0], False, id="normal", marks=pytest.mark.slow),
        pytest.param([112.5, 120.0], [112.5, 330.0], False, id="grazing", marks=pytest.mark.slow),
        pytest.param([22.5, 120.0], [2.5, 330.0], True, id="along a surface", marks=pytest.mark.slow),
    ],
)
def test_layers_let_waves_out(place: list[float], there: list[float], surface: bool) -> None:
    assert leaves(20.0, place, there, surface) < 1e-3


class Unchecked(Elastic):
    def check(self, parameters: Any) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"order": 4, "surface": True},
        {"order": 2},
        {"order": 8},
        {"order": 4, "anisotropy": True},
        {"order": 2, "ndim": 3, "anisotropy": True},
    ],
    ids=str,
)
def test_the_stable_step_is_sharp(options: dict[str, Any]) -> None:
    """0.99 of the one in the message is stable, 1.05 of it is not."""
    options = dict(options)
    ndim = options.pop("ndim", 2)
    shape = (12, 14, 16)[:ndim]
    surface = "surface" in options
    options["boundary"] = ("zero" if surface else "periodic", "periodic", "periodic")[:ndim]
    grid = ds.Grid(shape, 5.0)
    thomsen = {"epsilon": 0.3, "delta": -0.1, "gamma": 0.1} if "anisotropy" in options else {}
    medium = uniform(shape, **ROCK, **{name: thomsen[name] for name in list(thomsen)[:ndim]})
    with pytest.raises(ds.errors.StabilityError, match="lower dt or coarsen the grid") as caught:
        ds.Simulation(Elastic(grid, 1.0, **options)).run(medium, 2)
    limit = float(str(caught.value).split("stable ")[1].split(" s")[0])
    start = {f"v{axis}": np.random.default_rng(0).standard_normal(shape) for axis in "zyx"[-ndim:]}
    calm = ds.Simulation(Elastic(grid, 0.99 * limit, **options), precision="f64").run(medium | start, 1500).final
    assert max(np.abs(calm[name]).max() for name in start) < 100
    wild = ds.Simulation(Unchecked(grid, 1.05 * limit, **options), precision="f64").run(medium | start, 150).final
    assert max(np.abs(wild[name]).max() for name in start) > 1e6


@pytest.mark.slow
def test_three_dimensions_have_the_waves_of_two() -> None:
    """A field that does not vary along y: z and x take the places of y and x, at a surface and in a layer too."""
    rng, options = np.random.default_rng(6), {"surface": True, "anisotropy": True}
    flat = Elastic(ds.Grid((14, 16), 10.0), 1e-3, layer=((0, 4), (3, 0)), **LAYER, **options)
    deep = Elastic(
        ds.Grid((14, 3, 16), 10.0), 1e-3, layer=((0, 4), (0, 0), (3, 0)), boundary=("zero", "periodic", "zero"), **LAYER, **options
    )
    medium = random_medium(rng, flat)
    start = {name: rng.standard_normal((14, 16)) * (1e6 if name[0] == "s" else 1.0) for name in ("vy", "vx", "syy", "sxx", "sxy")}
    wide = {name: np.repeat(values[:, None], 3, 1) for name, values in (medium | start).items()}
    renamed = {"vy": "vz", "vx": "vx", "syy": "szz", "sxx": "sxx", "sxy": "sxz"}
    wide = {renamed.get(name, name): values for name, values in wide.items()} | {"gamma": np.full((14, 3, 16), 0.1)}
    one = ds.Simulation(flat, precision="f64").run(medium | start, 30).final
    two = ds.Simulation(deep, precision="f64").run(wide, 30).final
    for name, other in renamed.items():
        assert np.abs(two[other] - one[name][:, None]).max() < ROUND_OFF * np.abs(one[name]).max(), name
    assert not two["vy"].any()


def test_the_gradient_is_certified_in_the_layer_at_the_surface_and_at_the_source() -> None:
    kind = Kind("", (18, 20), {"surface": True, "pressure": True}, ((0, 5), (5, 5)))
    equation, steps = kind.equation(), 40
    rng = np.random.default_rng(8)
    medium = {name: rng.uniform(*SIZES[name], kind.shape) for name in equation.parameters}
    medium["vs"][7:9, 12:14] = 0.0
    medium["rho"][:3, 6:9] = 0.0
    sources = {"fy": [[24.0, 88.3]], "mxy": [[64.0, 75.0]], "mxx": [[64.0, 75.0]]}
    receivers = {"vy": [[15.0, 120.0]], "vx": [[93.0, 121.0]], "p": [[93.0, 60.0]]}
    wrt = ["vp", "vs", "rho", *sources]
    run = ds.Simulation(equation, sources=sources, receivers=receivers, wrt=wrt, precision="f64")
    size = {"fy": 1e6, "mxy": 1e9, "mxx": 1e9}
    inputs = medium | {name: size[name] * ricker(1e-3, steps, 60.0)[:, None] for name in sources}

    def loss(found: ds.Solution) -> Any:
        scaled = [1e5 * found.traces["vy"] / 100, 1e5 * found.traces["vx"] / 100, found.traces["p"] / 1e4]
        return sum(ds.numpy.sum(0.5 * part**2 + 0.1 * part**3) for part in scaled)

    def cell(name: str, at: tuple[int, int]) -> Fields:
        change = np.zeros(kind.shape)
        change[at] = 0.1 * inputs[name][at]
        return {name: change}

    places = {"layer": (9, 18), "surface": (1, 12), "cliff": (3, 7), "source": (6, 9)}
    own = [{name: 0.1 * inputs[name] * rng.standard_normal(inputs[name].shape) for name in wrt} for _ in range(3)]
    own += [cell(name, at) for at in places.values() for name in ("vp", "vs", "rho")]
    assert (report := ds.certify(run, loss, inputs, steps, directions=own)).passed, str(report)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rho": 0.0}, "give surface=True"),
        ({"vs": -1.0}, "speed of S waves"),
        ({"vp": 0.0}, "speed of P waves"),
        ({"vs": 2300.0}, "vs / vp reaches 0.92"),
        ({"delta": -0.6}, "to -2.69e\\+06"),
        ({"epsilon": -0.2, "delta": 0.4}, "no elastic medium"),
        ({"vs": 0.0, "epsilon": 0.05, "delta": 0.1}, "no elastic medium"),
    ],
)
def test_media_that_are_not_elastic_are_refused(change: dict[str, float], match: str) -> None:
    grid = ds.Grid((8, 9), 10.0)
    medium = uniform(grid.shape, **SHALE)
    for name, value in change.items():
        medium[name][3, 4] = value
    with pytest.raises(ds.errors.ParameterError, match=match):
        ds.Simulation(Elastic(grid, 1e-3, anisotropy=True)).run(medium, 2)


@pytest.mark.parametrize(
    ("grid", "options", "match"),
    [
        ((20,), {}, "take Acoustic"),
        ((20, 20), {"order": 10}, "order"),
        ((20, 20), {"boundary": ("periodic", "zero"), "surface": True}, "axis 0 is periodic"),
        ((20, 20), {"boundary": "periodic", "layer": (0, (0, 4))}, "axis 1 is periodic"),
        ((20, 20), {"boundary": "mirror"}, "boundary"),
        ((20, 20), {"layer": 10, **LAYER}, "narrow it"),
        ((20, 20), {"layer": 4}, "layer_speed = None and layer_frequency = None, expected"),
    ],
)
def test_wrong_arguments_are_refused(grid: tuple[int, ...], options: dict[str, Any], match: str) -> None:
    with pytest.raises(ds.errors.ParameterError, match=match):
        Elastic(ds.Grid(grid, 10.0), 1e-3, **options)
