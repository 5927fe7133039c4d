"""Acoustics of variable density and with attenuation against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr.weights import staggered
from diffsim.solvers import Acoustic, ViscoAcoustic
from tests.solvers.test_acoustic import ricker

F0, C, RHO = 25.0, 2000.0, 2200.0
EDGE = {"layer": 20, "layer_speed": C, "layer_frequency": F0}


def modulus(frequency: np.ndarray, Q: float) -> np.ndarray:
    """M / (rho c²) of one standard linear solid by its relaxation times (Robertsson et al. 1994); Q and c are those at F0."""
    omega, omega0 = 2 * np.pi * frequency, 2 * np.pi * F0
    strain, stress = (np.sqrt(1 + 1 / Q**2) + 1 / Q) / omega0, (np.sqrt(1 + 1 / Q**2) - 1 / Q) / omega0
    relaxed = (1 + 1j * omega * strain) / (1 + 1j * omega * stress)
    at_f0 = (1 + 1j * omega0 * strain) / (1 + 1j * omega0 * stress)
    return relaxed * np.real(np.sqrt(1 / at_f0)) ** 2


def spectra(Q: float, h: float, dt: float, order: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies, and the spectrum of the record after 600 m over that at the start of them."""
    n, steps = round(2200 / h), round(1.0 / dt)
    equation = ViscoAcoustic(ds.Grid((n,), h), dt, order, Q=Q, frequency=F0, **EDGE | {"layer": round(150 / h)})
    simulation = ds.Simulation(equation, sources={"q": [[600.0]]}, receivers={"p": [[800.0], [1400.0]]})
    inputs = {"c": np.full(n, C), "rho": np.full(n, RHO), "q": ricker(dt * np.arange(steps), F0, 0.06)[:, None]}
    traces = simulation.run(inputs, steps).traces["p"][:-1]
    padded = 4 * steps
    near, far = np.fft.rfft(traces, padded, axis=0).T
    return np.fft.rfftfreq(padded, dt), far / near


@pytest.mark.parametrize("Q", [20.0, 80.0])
def test_amplitude_and_phase_of_waves_that_are_absorbed(Q: float) -> None:
    """At three frequencies over 600 m: exp(-pi f x / (Q c)) and the phase speed, of the solid that the parameters stand for."""
    frequencies, ratio = spectra(Q, 5.0, 2.5e-4)
    for f in (F0 / 2, F0, 1.6 * F0):
        k = np.argmin(np.abs(frequencies - f))
        f = frequencies[k]
        number = 2 * np.pi * f / (C * np.sqrt(modulus(f, Q)))  # complex
        assert np.abs(ratio[k]) == pytest.approx(np.exp(600 * number.imag), rel=5e-3)
        assert np.angle(ratio[k] / np.exp(-600j * number.real)) == pytest.approx(0, abs=2e-2)
    k = np.argmin(np.abs(frequencies - F0))
    assert np.abs(ratio[k]) == pytest.approx(np.exp(-np.pi * F0 * 600 / (Q * C)), rel=1e-2)
    speeds = [C * np.real(np.sqrt(1 / modulus(f, Q))) ** -1 for f in (F0 / 2, F0, 2 * F0)]
    assert speeds[0] < speeds[1] < speeds[2] and speeds[1] == pytest.approx(C)


def test_a_density_contrast_reflects_and_transmits() -> None:
    """R = (Z2 - Z1) / (Z2 + Z1) and T = 1 + R of pressure, with another wave speed on the other side as well."""
    n, h, dt, steps = 600, 5.0, 1e-3, 700
    x = h * np.arange(n)
    beyond = x > 1502.5 - 1e-9  # the contrast lies on a face
    for rho2, c2 in ((1000.0, 2000.0), (3300.0, 2600.0)):
        c, rho = np.where(beyond, c2, C), np.where(beyond, rho2, RHO)
        equation = ViscoAcoustic(ds.Grid((n,), h), dt, 8, layer=30, layer_speed=2600.0, layer_frequency=15.0)
        simulation = ds.Simulation(equation, sources={"q": [[700.0]]}, receivers={"p": [[1100.0], [1902.5]]})
        record = {}
        for name, density in (("there", rho), ("same", np.full(n, RHO))):
            speed = c if name == "there" else np.full(n, C)
            inputs = {"c": speed, "rho": density, "q": ricker(dt * np.arange(steps), 15, 0.08)[:, None]}
            record[name] = simulation.run(inputs, steps).traces["p"]
        incident = record["same"][:, 0]
        expected = (rho2 * c2 - RHO * C) / (rho2 * c2 + RHO * C)
        reflected = record["there"][:, 0] - incident
        size = np.abs(incident).max()
        assert reflected[np.abs(reflected).argmax()] / incident[np.abs(incident).argmax()] == pytest.approx(expected, abs=1e-2)
        passed = record["there"][:, 1]
        assert passed[np.abs(passed).argmax()] / incident[np.abs(incident).argmax()] == pytest.approx(1 + expected, abs=1e-2)
        assert size > 0


@pytest.mark.parametrize(("order", "shape"), [(2, (24, 24)), (4, (24, 24)), (6, (24,)), (8, (24, 24)), (4, (10, 12, 14))])
def test_a_mode_obeys_the_discrete_dispersion_relation(order: int, shape: tuple[int, ...]) -> None:
    """sin²(w dt / 2) = (c dt)² / 4 times the eigenvalue of the staggered operator."""
    h, dt, steps = 10.0, 1.5e-3, 200
    grid = ds.Grid(shape, h)
    k = [2 * np.pi / (n * h) * waves for n, waves in zip(shape, (2, 3, 1), strict=False)]
    phase = sum(ka * x for ka, x in zip(k, np.meshgrid(*(h * np.arange(n) for n in shape), indexing="ij"), strict=True))
    places = np.arange(order) - (order - 1) / 2
    eigenvalue = sum((np.array(staggered(1, order)) @ np.sin(ka * h * places) / h) ** 2 for ka in k)
    omega = 2 / dt * np.arcsin(0.5 * C * dt * np.sqrt(eigenvalue))
    simulation = ds.Simulation(ViscoAcoustic(grid, dt, order, "periodic"))
    inputs = {"c": np.full(shape, C), "rho": np.full(shape, RHO), "p": np.cos(phase), "p_prev": np.cos(phase) * np.cos(omega * dt)}
    pressure = simulation.run(inputs, steps).final["p"]
    assert np.abs(pressure - np.cos(phase) * np.cos(omega * dt * steps)).max() < 1e-10


def test_with_one_density_and_no_attenuation_it_is_acoustic() -> None:
    """To the bit of rounding at order 2, where both operators are one; at higher orders their difference falls as the order says."""
    rng = np.random.default_rng(0)
    grid = ds.Grid((31, 27), 10.0)
    c, f = rng.uniform(1500, 2500, grid.shape), rng.normal(size=(80, 1))
    points = {"receivers": {"p": [[200.0, 150.0]]}}
    one = ds.Simulation(Acoustic(grid, 1e-3, 2), sources={"f": [[61.0, 83.0]]}, **points).run({"c": c, "f": f}, 80).traces["p"]
    rho = np.full(grid.shape, RHO)
    other = ds.Simulation(ViscoAcoustic(grid, 1e-3, 2), sources={"q": [[61.0, 83.0]]}, **points)
    two = other.run({"c": c, "rho": rho, "q": f / RHO}, 80).traces["p"]
    assert np.abs(one - two).max() < 1e-11 * np.abs(one).max()
    differences = []
    for n in (32, 48):
        line = ds.Grid((n,), 1 / n)
        p = np.exp(np.sin(2 * np.pi * line.coordinates(0)))
        start = {"c": np.ones(n), "p": p, "p_prev": p}
        same = ds.Simulation(Acoustic(line, 5e-4, 4, "periodic")).run(start, 400).final["p"]
        pressure = ds.Simulation(ViscoAcoustic(line, 5e-4, 4, "periodic")).run(start | {"rho": np.ones(n)}, 400).final["p"]
        differences.append(np.abs(pressure - same).max())
    assert np.log(differences[0] / differences[1]) / np.log(1.5) == pytest.approx(4, abs=0.25)


def medium(grid: ds.Grid, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    ranges = {"c": (1500, 2500), "rho": (1000, 3000), "Q": (10, 100)}
    return {name: rng.uniform(*limits, grid.shape) for name, limits in ranges.items()}


@pytest.mark.parametrize("order", [2, 8])
def test_reciprocity(order: int) -> None:
    """Source and receiver change places in a random medium that absorbs, below a free surface."""
    grid = ds.Grid((31, 27), 10.0)
    equation = ViscoAcoustic(grid, 1e-3, order, (("odd_image", "zero"), "mirror"), Q="given", frequency=F0)
    a, b = ds.Points([[-2.0, 61.3]], "sinc"), ds.Points([[241.0, 187.7]], "sinc")
    wavelet, traces = np.random.default_rng(1).normal(size=(150, 1)), []
    for source, receiver in ((a, b), (b, a)):
        simulation = ds.Simulation(equation, sources={"q": source}, receivers={"p": receiver})
        traces.append(simulation.run(medium(grid) | {"q": wavelet}, 150).traces["p"])
    assert np.abs(traces[0] - traces[1]).max() < 1e-12 * np.abs(traces[0]).max()


def test_energy_is_kept_without_attenuation_and_falls_with_it() -> None:
    """||v||² / K + (p, -div(grad p / rho)) between two steps, from the steps themselves."""
    grid, steps = ds.Grid((20, 22), 10.0), 60
    start = medium(grid) | {"p": np.random.default_rng(2).normal(size=grid.shape)}
    for Q in ("none", 20.0):
        equation = ViscoAcoustic(grid, 1e-3, 4, Q=Q, frequency=F0)
        simulation = ds.Simulation(equation)
        inputs = {name: value for name, value in start.items() if name in simulation.inputs} | {"p_prev": start["p"]}
        states = [inputs["p"], *(simulation.run(inputs, k).final["p"] for k in (1, 2, 3, steps, steps + 1, steps + 2))]
        kept = start["rho"] * start["c"] ** 2

        def energy(before: np.ndarray, now: np.ndarray, after: np.ndarray, kept: np.ndarray = kept) -> float:
            push = (after - 2 * now + before) / (1e-6 * kept)  # div(grad p / rho) where nothing is absorbed
            return float(((now - before) ** 2 / (1e-6 * kept)).sum() - (before * push).sum())

        early, late = energy(*states[1:4]), energy(*states[4:])
        if Q == "none":
            assert late == pytest.approx(early, rel=1e-11)
        else:
            assert 0 < late < 0.9 * early


@pytest.mark.parametrize("Q", ["none", "given"])
def test_the_stable_step_is_sharp(Q: str) -> None:
    grid = ds.Grid((16, 18), 5.0)
    inputs = {"c": np.full(grid.shape, 3000.0), "rho": np.full(grid.shape, RHO)} | (
        {"Q": np.full(grid.shape, 30.0)} if Q == "given" else {}
    )
    noise = {name: np.random.default_rng(0).normal(size=grid.shape) for name in ("p", "p_prev")}

    def largest(dt: float, steps: int, check: bool = True) -> float:
        equation = ViscoAcoustic(grid, dt, 8, "periodic", Q, F0)
        if not check:
            equation.check = lambda parameters: None  # type: ignore[method-assign]
        return float(np.abs(ds.Simulation(equation).run(inputs | noise, steps).final["p"]).max())

    with pytest.raises(ds.errors.StabilityError, match="lower dt or coarsen the grid") as raised:
        largest(1.0, 2)
    limit = float(str(raised.value).split("stable ")[1].split(" s")[0])
    assert largest(0.99 * limit, 1500) < 200
    assert largest(1.05 * limit, 200, check=False) > 1e6
    if Q == "none":
        assert limit == pytest.approx(0.5497 * 5.0 / 3000.0, rel=1e-3)


@pytest.mark.parametrize("boundary", ["zero", "periodic"])
def test_contrasts_of_density_are_stable_up_to_the_limit(boundary: str) -> None:
    """The limit is a bound for any medium; here the fast waves are in a block that is a thousand times lighter than the rest."""
    grid, rng = ds.Grid((16, 18), 5.0), np.random.default_rng(3)
    light = np.zeros(grid.shape, bool)
    light[9:, 6:13] = True  # up to a side, beyond which there is the rest of the medium if it is periodic
    c = np.where(light, rng.uniform(2500, 3000, grid.shape), 500.0)
    inputs = {"c": c, "rho": np.where(light, rng.uniform(1, 4, grid.shape), 4000.0)}
    for order in (2, 8):
        with pytest.raises(ds.errors.StabilityError) as raised:
            ds.Simulation(ViscoAcoustic(grid, 1.0, order, boundary)).run(inputs, 1)
        dt = 0.999 * float(str(raised.value).split("stable ")[1].split(" s")[0])
        noise = rng.normal(size=grid.shape)
        assert (
            np.abs(
                ds.Simulation(ViscoAcoustic(grid, dt, order, boundary)).run(inputs | {"p": noise, "p_prev": noise}, 1500).final["p"]
            ).max()
            < 1e3
        )


def test_a_shot_in_the_layer_is_that_in_an_endless_medium() -> None:
    """With attenuation and a free surface."""
    dt, steps, wide, traces = 2e-3, 190, 34, []
    for extra in (0, wide):
        grid = ds.Grid((50 + extra, 60 + 2 * extra), 10.0, (0.0, -10.0 * extra))
        edge = {} if extra else {"layer": ((0, 15), 15), "layer_speed": C, "layer_frequency": 12.0}
        equation = ViscoAcoustic(grid, dt, 8, (("odd_image", "zero"), "zero"), Q=40.0, frequency=12.0, **edge)
        simulation = ds.Simulation(equation, sources={"q": [[160.0, 230.0]]}, receivers={"p": [[70.0, 420.0], [280.0, 180.0]]})
        inputs = {"c": np.full(grid.shape, C), "rho": np.full(grid.shape, RHO), "q": ricker(dt * np.arange(steps), 12, 0.1)[:, None]}
        traces.append(simulation.run(inputs, steps).traces["p"])
    assert np.abs(traces[0] - traces[1]).max() < 3e-4 * np.abs(traces[1]).max()


@pytest.mark.parametrize("Q", ["none", "given"])
def test_the_layer_stays_calm(Q: str) -> None:
    """Noise of all wavelengths in a random medium between layers of unlike width and a free surface, 4000 steps close to the limit."""
    grid = ds.Grid((40, 44), 10.0)
    edges = {"boundary": (("odd_image", "zero"), "zero"), "layer": ((0, 9), (12, 7)), "layer_speed": 2500.0, "layer_frequency": 20.0}

    def equation(dt: float) -> ViscoAcoustic:
        return ViscoAcoustic(grid, dt, 8, Q=Q, frequency=F0, **edges)

    inputs = {name: value for name, value in medium(grid).items() if name != "Q" or Q == "given"}
    with pytest.raises(ds.errors.StabilityError) as raised:
        ds.Simulation(equation(1.0)).run(inputs, 1)
    dt = 0.99 * float(str(raised.value).split("stable ")[1].split(" s")[0])
    noise = dict.fromkeys(("p", "p_prev"), np.random.default_rng(1).normal(size=grid.shape))
    assert np.abs(ds.Simulation(equation(dt)).run(inputs | noise, 4000).final["p"]).max() < 3.0


@pytest.mark.parametrize("Q", ["none", "given"])
def test_the_gradient_is_certified(Q: str | float) -> None:
    grid = ds.Grid((22, 24), 10.0)
    edge = {"layer": ((0, 5), (5, 6)), "layer_speed": 2500.0, "layer_frequency": F0}
    equation = ViscoAcoustic(grid, 1e-3, 2, (("odd_image", "zero"), "zero"), Q, None if Q == "none" else F0, **edge)
    points = {"sources": {"q": [[45.0, 104.0]]}, "receivers": {"p": ds.Points([[-1.0, 55.0], [120.0, 150.0]], "sinc")}}
    simulation = ds.Simulation(equation, precision="f64", **points)
    inputs = {name: value for name, value in medium(grid).items() if name in simulation.inputs}
    inputs |= {
        "rho": inputs["rho"] / 1000,
        "q": ricker(1e-3 * np.arange(40), F0, 0.02)[:, None],
    }  # memories of 1 are not large beside waves
    report = ds.certify(simulation, lambda solution: (solution.traces["p"] ** 2).sum(), inputs, steps=40, seed=1, directions=2)
    assert report.passed, report


def test_wrong_options_are_refused() -> None:
    grid = ds.Grid((20, 20), 10.0)
    for options, message in (
        ({"Q": 30.0}, "Q = 30.0 without a frequency, expected"),
        ({"Q": "some", "frequency": 20.0}, "Q = 'some' is unknown; choose one of none, given"),
        ({"Q": -3.0, "frequency": 20.0}, "Q = -3"),
        ({"Q": 30.0, "frequency": 0.0}, "frequency = 0"),
    ):
        with pytest.raises(ds.errors.ParameterError, match=message):
            ViscoAcoustic(grid, 1e-3, **options)
    inputs = {"c": np.full(grid.shape, C), "rho": np.full(grid.shape, -1.0)}
    with pytest.raises(ds.errors.ParameterError, match="density rho has a value of -1"):
        ds.Simulation(ViscoAcoustic(grid, 1e-3)).run(inputs, 1)
