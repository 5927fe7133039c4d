"""Maxwell's equations against NumPy, exact solutions of the grid and of the continuum, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, ParameterError, ShapeError, StabilityError
from diffsim.solvers import Maxwell
from tests.layers.plane_waves import WAVELENGTH, Packet
from tests.solvers.plain_maxwell import Plain, at_edges

ROUND_OFF = 1e-12

SETTINGS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "TM": ((9, 13), {"layer": ((2, 3), 3), "conductivity": True, "poles": ("drude", "lorentz")}),
    "TE": ((8, 11), {"polarisation": "TE", "layer": 3, "boundary": ("periodic", "pec"), "poles": ("lorentz",)}),
    "TE anisotropic": ((7, 9), {"polarisation": "TE", "anisotropic": True, "boundary": ("pec", "periodic")}),
    "1-D": ((15,), {"layer": ((0, 4),), "poles": ("drude",), "regions": ((np.arange(15) > 3) & (np.arange(15) < 9),)}),
    "3-D": ((6, 5, 7), {"layer": (2, 0, (0, 2)), "boundary": ("pec", "periodic", "pec"), "conductivity": True}),
}


def equation_of(shape: tuple[int, ...], options: dict[str, Any], h: float = 0.1) -> Maxwell:
    """An equation at 0.8 of the stable step of the vacuum; media in these tests have eps of at least 1.3."""
    return Maxwell(ds.Grid(shape, h), 0.8 * h / math.sqrt(len(shape)), layer_frequency=0.7, **options)


def random_inputs(rng: np.random.Generator, equation: Maxwell) -> dict[str, Any]:
    """Media, and initial fields where they exist."""
    shape, inputs = equation.grid.shape, {}
    for name, state in equation.states.items():
        inputs[name] = rng.standard_normal(shape) * (1.0 if state.region is None else state.region)
        for axis, (low, _) in enumerate(zip(state.boundary, state.location, strict=True) if name[0] == "E" else ()):
            if not low.joins and equation.axes[axis] != name[1]:
                inputs[name][(slice(None),) * axis + (-1,)] = 0.0  # on a conductor
    for name, parameter in equation.parameters.items():
        if parameter.axes == ():
            inputs[name] = rng.uniform(0.2, 0.5)
        else:
            inputs[name] = rng.uniform(1.3, 2.0, shape) if name.startswith("eps") else rng.uniform(0.3, 0.6, shape)
    for pole in equation.poles:
        inputs[pole.wp] = inputs[pole.wp] * (1.0 if pole.region is None else pole.region)
    return inputs


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_equals_numpy(name: str) -> None:
    shape, options = SETTINGS[name]
    equation, steps = equation_of(shape, options), 7
    inputs = random_inputs(np.random.default_rng(3), equation)
    final = ds.Simulation(equation, precision="f64").run(inputs, steps).final
    axes, periodic = equation.axes, [wall == "periodic" for wall in equation.walls]
    fields = {name: inputs[name] for name in equation.states}
    plain = Plain(axes, equation.grid.spacing, equation.dt, periodic, equation.layer.cells, 0.7, fields)

    def there(name: str) -> dict[str, np.ndarray]:
        return {c: at_edges(inputs[name], axes, c, periodic) for c in equation.electric}

    eps = {c: inputs[f"eps_{c}"] for c in equation.electric} if "eps" not in inputs else there("eps")
    poles = []
    for k, kind in enumerate(options.get("poles", ()), 1):
        wp2 = {c: at_edges(inputs[f"wp{k}"] ** 2, axes, c, periodic) for c in equation.electric}
        poles.append({"wp2": wp2, "gamma": inputs[f"gamma{k}"], "w": inputs[f"w{k}"] if kind == "lorentz" else 0.0})
    for _ in range(steps):
        plain.advance(eps, there("sigma") if "sigma" in inputs else {}, poles)
    assert set(final) == set(plain.fields)
    for state, values in final.items():
        assert np.abs(values - plain.fields[state]).max() < ROUND_OFF * max(1.0, np.abs(values).max()), state


def test_a_source_is_a_current_density() -> None:
    """One step from rest: E = -dt/eps a / (cell volume), next to a conductor as well."""
    equation = equation_of((6, 7), {})
    at = [equation.grid.coordinates(0, 1)[2], equation.grid.coordinates(1, 1)[4]]
    solution = ds.Simulation(equation, sources={"Jz": [at]}, precision="f64").run({"eps": np.full((6, 7), 2.0), "Jz": [[3.0]]}, 1)
    expected = np.zeros((6, 7))
    expected[2, 4] = -equation.dt / 2.0 * 3.0 / 0.01
    assert np.allclose(solution.final["Ez"], expected, rtol=ROUND_OFF)


BOXES = {"TM": ("Ez", (8, 12), (2, 3)), "TE": ("Ex", (8, 12), (2, 0)), "3-D": ("Ey", (6, 5, 8), (1, 0, 3))}
"""Component, cells, and half waves along each axis, none along the component's own."""


@pytest.mark.parametrize("name", BOXES)
def test_a_box_of_conductors_resonates_as_yee_says(name: str) -> None:
    """sin²(ω dt/2) / dt² = Σ sin²(k h/2) / h²: after 400 steps the phase is right to 1e-10."""
    state, shape, orders = BOXES[name]
    h = tuple(0.1 + 0.02 * axis for axis in range(len(shape)))
    dt, steps = 0.9 / math.sqrt(sum(s**-2 for s in h)), 400
    equation = Maxwell(ds.Grid(shape, h), dt, "TE" if name == "TE" else None)
    angles = [math.pi * order / n for order, n in zip(orders, shape, strict=True)]  # k h
    wave = np.ones(shape)
    for axis, (angle, n) in enumerate(zip(angles, shape, strict=True)):
        if angle:
            wave = wave * np.sin(angle * np.arange(1, n + 1)).reshape([-1 if axis == each else 1 for each in range(len(shape))])
    omega = 2 / dt * math.asin(dt * math.sqrt(sum((math.sin(angle / 2) / s) ** 2 for angle, s in zip(angles, h, strict=True))))
    at = [[equation.grid.coordinates(axis, place)[1] for axis, place in enumerate(equation.states[state].location)]]
    box = ds.Simulation(equation, receivers={state: at}, precision="f64")
    trace = box.run({"eps": np.ones(shape), state: wave}, steps).traces[state][:, 0]
    expected = np.cos(omega * dt * (np.arange(steps + 1) + 0.5)) / math.cos(omega * dt / 2)  # since H is 0 half a step before
    assert np.abs(trace / trace[0] - expected).max() < 1e-10


def energy(equation: Maxwell, given: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> float:
    """½ (E·εE + H⁻·H⁺ + (w P)²/ωp² + J⁻·J⁺/ωp²), from the states at a step and one step later."""
    periodic, total = [wall == "periodic" for wall in equation.walls], 0.0
    for c in equation.electric:
        eps, wp2 = (at_edges(v, equation.axes, c, periodic) for v in (given["eps"], given["wp1"] ** 2))
        total += (eps * before[f"E{c}"] ** 2).sum()
        total += ((given["w1"] * before[f"P1{c}"]) ** 2 / wp2).sum() + (before[f"J1{c}"] * after[f"J1{c}"] / wp2).sum()
    return 0.5 * float(total + sum((before[f"H{c}"] * after[f"H{c}"]).sum() for c in equation.magnetic))


def test_energy_stays_without_losses() -> None:
    """With conductors, a period, a medium that varies, and a Lorentz pole without damping."""
    equation = equation_of((9, 12), {"polarisation": "TE", "boundary": ("periodic", "pec"), "poles": ("lorentz",)})
    inputs = random_inputs(np.random.default_rng(4), equation) | {"gamma1": 0.0, "w1": 3.0}
    light = ds.Simulation(equation, precision="f64")
    early, late = (energy(equation, inputs, light.run(inputs, n).final, light.run(inputs, n + 1).final) for n in (1, 1000))
    assert early > 0 and late == pytest.approx(early, rel=1e-12)


MEDIA = {"vacuum": (), "metal": ("drude",), "dye": ("lorentz",)}


class Unchecked(Maxwell):
    """Steps of any size."""

    def check(self, parameters: Any) -> None:
        pass


@pytest.mark.parametrize("name", MEDIA)
def test_the_stable_step(name: str) -> None:
    """Waves as short as the grid stay bounded at 0.99 of it and grow at 1.05; the message has the limit."""
    shape, h, eps, wp, w = (16,), 0.1, 1.5, 12.0, 8.0
    curl, s = 4 / h**2 / eps, wp**2 / eps
    coupled = 0.5 * (curl + s + w**2) + math.sqrt(0.25 * (curl + s - w**2) ** 2 + s * w**2)
    limit = 2 / math.sqrt({"vacuum": curl, "metal": curl + s, "dye": coupled}[name])
    inputs: dict[str, Any] = {"eps": np.full(shape, eps), "Ez": np.random.default_rng(5).standard_normal(shape)}
    inputs |= {"wp1": np.full(shape, wp), "gamma1": 0.0} if name != "vacuum" else {}
    inputs |= {"w1": w} if name == "dye" else {}

    def largest(kind: type[Maxwell], share: float) -> float:
        equation = kind(ds.Grid(shape, h), share * limit, boundary="periodic", poles=MEDIA[name])
        return float(np.abs(ds.Simulation(equation, precision="f64").run(inputs, 400).final["Ez"]).max())

    assert largest(Maxwell, 0.99) < 100
    with pytest.raises(StabilityError, match=f"{limit:.4g}".replace(".", r"\.")):
        largest(Maxwell, 1.05)
    assert largest(Unchecked, 1.05) > 1e6


def spectra(n2: np.ndarray, cells: int, at: tuple[int, int], **others: Any) -> tuple[complex, complex, complex]:
    """Amplitudes at frequency 1 of a pulse on a line: that sent, that reflected, and that behind.

    Args:
        n2: permittivity over the line.
        cells: a wavelength.
        at: cells of the receivers before and behind.
        others: options of the equation, and its inputs.
    """
    h, (before, behind) = 1 / cells, at
    dt, steps = 0.95 * h, 40 * cells
    inputs = {name: others.pop(name) for name in list(others) if name in ("wp1", "gamma1", "sigma")}
    line = Maxwell(ds.Grid((len(n2),), h), dt, layer=20, layer_frequency=1.0, **others)
    x = line.grid.coordinates(0, 1)
    light = ds.Simulation(line, sources={"Jz": [[x[22]]]}, receivers={"Ez": [[x[before]], [x[behind]]]}, precision="f64")
    t = dt * np.arange(steps) - 4.0
    pulse = (np.sin(2 * np.pi * t) * np.exp(-(t**2) / 2))[:, None]
    empty = {"wp1": np.zeros(len(n2)), "gamma1": 0.0, "sigma": np.zeros(len(n2))}
    vacuum = {name: empty[name] for name in inputs}
    wave = np.exp(2j * np.pi * dt * np.arange(steps + 1))
    free = wave @ light.run({"eps": np.ones(len(n2)), "Jz": pulse} | vacuum, steps).traces["Ez"]
    full = wave @ light.run({"eps": n2, "Jz": pulse} | inputs, steps).traces["Ez"]
    return complex(free[0]), complex(full[0] - free[0]), complex(full[1])


def test_fresnel_at_a_half_space() -> None:
    """R = 1/9 and T = 8/9 at n = 2, of second order in the cells of a wavelength."""
    errors = []
    for cells in (40, 80):
        medium = np.where(np.arange(200) < 100, 1.0, 4.0)
        sent, back, through = spectra(medium, cells, (60, 140))
        errors.append((9 * abs(back / sent) ** 2 - 1, 9 / 4 * abs(through / sent) ** 2 - 1))
    (back_40, through_40), (back_80, through_80) = errors
    assert abs(back_80) < 1e-2 and abs(through_80) < 5e-3
    assert math.log2(back_40 / back_80) == pytest.approx(2.0, abs=0.2)
    assert math.log2(through_40 / through_80) == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize(("part", "expected"), [(4, 0.64), (2, 1.0)])
def test_slabs(part: int, expected: float) -> None:
    """Slabs of n = 2 of a quarter and of half a wavelength."""
    thickness = 80 // 2 // part
    medium = np.ones(260)
    medium[120 : 120 + thickness] = 4.0
    sent, _, through = spectra(medium, 80, (60, 200))
    assert abs(through / sent) ** 2 == pytest.approx(expected, rel=5e-3)


def test_a_conductor_damps_as_its_skin_depth_says() -> None:
    """exp(-κ x), κ = Im(ω sqrt(1 + iσ/ω))."""
    cells, sigma = 60, 20.0
    medium, loss = np.ones(200), np.where(np.arange(200) < 100, 0.0, sigma)
    kappa = np.sqrt(1 + 1j * sigma / (2 * np.pi)).imag * 2 * np.pi
    near, far = (abs(spectra(medium, cells, (60, at), conductivity=True, sigma=loss)[2]) for at in (104, 112))
    assert math.log(near / far) == pytest.approx(kappa * 8 / cells, rel=2e-2)


def test_a_metal_reflects_as_drude_says() -> None:
    """Amplitude (1 - n)/(1 + n), n² = 1 - ωp²/(ω² + iγω)."""
    cells, wp, gamma = 60, 12.0, 3.0
    metal = np.where(np.arange(200) < 100, 0.0, wp)
    sent, back, _ = spectra(np.ones(200), cells, (60, 110), poles=("drude",), regions=[metal > 0], wp1=metal, gamma1=gamma)
    omega = 2 * np.pi
    n = np.sqrt(1 - wp**2 / (omega**2 + 1j * gamma * omega))
    assert abs(back / sent) == pytest.approx(abs((1 - n) / (1 + n)), rel=1e-2)


COMES_BACK = {0: 1e-5, 60: 1e-3}
"""Angle -> bound of the wave between 20 cells of layer, at ten cells a wavelength; measured 6.3e-6, and 6.1e-4 still on its way."""


@pytest.mark.parametrize("angle", COMES_BACK)
def test_plane_waves_do_not_come_back(angle: int) -> None:
    packet, cells = Packet(angle), 20
    grid = packet.grid(cells)
    light = Maxwell(grid, packet.dt(grid), layer=cells, layer_frequency=1 / WAVELENGTH, boundary=("periodic", "pec"))
    ky, kx = (k / math.hypot(*packet.k) for k in packet.k)

    def at(name: str, t: float) -> np.ndarray:
        y, x = (grid.coordinates(axis, place) for axis, place in enumerate(light.states[name].location))
        return packet.pressure(y[:, None], x, t)

    half = -0.5 * light.dt
    start = {"eps": np.ones(grid.shape), "Ez": at("Ez", 0.0), "Hx": ky * at("Hx", half), "Hy": -kx * at("Hy", half)}
    final = ds.Simulation(light, precision="f64").run(start, round(packet.back(cells) / light.dt)).final["Ez"]
    assert 0 < np.abs(final[:, cells:-cells]).max() < COMES_BACK[angle]


def certified(equation: Maxwell, given: dict[str, Any], sources: Any, steps: int, places: dict[str, tuple[Any, ...]]) -> None:
    """Certify a loss of final fields and a trace along a random direction, and along changes of single cells of inputs."""
    state = f"E{equation.electric[0]}"
    middle = [[equation.grid.coordinates(axis)[n // 2] for axis, n in enumerate(equation.grid.shape)]]
    light = ds.Simulation(equation, sources=sources, receivers={state: middle}, wrt=[*places, state], precision="f64")

    def loss(found: ds.Solution) -> Any:
        final = sum((found.final[name] ** 2).sum() for name in equation.states if name[0] in "EH")
        return 0.5 * ((found.traces[state] ** 2).sum() + final)

    inputs = {name: given[name] for name in light.inputs}
    rng = np.random.default_rng(8)
    directions = [{name: 0.1 * inputs[name] * rng.standard_normal(np.shape(inputs[name])) for name in light.wrt}]
    for name, cell in places.items():
        directions.append({name: np.zeros(np.shape(inputs[name]))})
        directions[-1][name][cell] = 0.1
    report = ds.certify(light, loss, inputs, steps, directions=directions)
    assert report.passed, report


def test_gradients_are_certified() -> None:
    """In the layer, at an interface, at a source, and in a metal that is a part of the grid."""
    metal = np.zeros((12, 17), bool)
    metal[4:8, 9:12] = True
    options = {"layer": 3, "conductivity": True, "poles": ("drude",), "regions": (metal,)}
    equation = equation_of((12, 17), options)
    rng = np.random.default_rng(6)
    inputs = random_inputs(rng, equation)
    inputs["wp1"] = inputs["wp1"] * metal
    inputs["Jz"] = rng.standard_normal((14, 1))
    places = {"eps": (1, 8), "sigma": (6, 9), "wp1": (5, 10), "Jz": (3, 0)}
    certified(equation, inputs, {"Jz": [[0.52, 0.61]]}, 14, places)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TE", "3-D"])
def test_gradients_are_certified_for_other_components(name: str) -> None:
    shape, options = SETTINGS[name]
    equation = equation_of(shape, options)
    inputs = random_inputs(np.random.default_rng(7), equation)
    certified(equation, inputs, None, 12, {"eps": tuple(n // 2 for n in shape)})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"polarisation": "TEM"}, ParameterError, "polarisation = 'TEM' is unknown"),
        ({"boundary": ("pec",)}, ParameterError, "expected 'pec' or 'periodic', or 2 of them"),
        ({"boundary": "pmc"}, ParameterError, "boundary = 'pmc' is unknown"),
        ({"poles": "drude"}, ParameterError, "expected a kind for each pole"),
        ({"poles": ("debye",)}, ParameterError, r"poles\[0\] = 'debye' is unknown"),
        ({"poles": ("drude",), "regions": ()}, ParameterError, "regions of 0 poles, expected 1"),
        ({"poles": ("drude",), "regions": (np.ones((3, 3), bool),)}, ShapeError, r"expected True or False for each cell of \(8, 9\)"),
        ({"layer": 4}, ParameterError, "layer|cells"),
        ({"layer_frequency": 0.0}, ParameterError, "layer_frequency = 0.0, expected a positive"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[DiffsimError], words: str) -> None:
    with pytest.raises(error, match=words):
        Maxwell(ds.Grid((8, 9), 0.1), 0.05, **options)


def test_components_are_not_chosen_in_three_dimensions() -> None:
    with pytest.raises(ParameterError, match="on a grid with 3 axes, expected None"):
        Maxwell(ds.Grid((4, 4, 4), 0.1), 0.05, "TM")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"eps": np.zeros((8, 9))}, "permittivity eps has a value of 0"),
        ({"sigma": np.full((8, 9), -1.0)}, "conductivity sigma has a value of -1"),
        ({"wp1": np.ones((8, 9))}, "wp1 has values outside of the region of pole 1"),
        ({"gamma1": -1.0}, "gamma1 has a value of -1"),
    ],
)
def test_media_that_are_not_physical(changes: dict[str, Any], words: str) -> None:
    region = np.zeros((8, 9), bool)
    region[3:5] = True
    equation = Maxwell(ds.Grid((8, 9), 0.1), 0.05, conductivity=True, poles=("drude",), regions=(region,))
    medium = {"eps": np.ones((8, 9)), "sigma": np.zeros((8, 9)), "wp1": 1.0 * region, "gamma1": 0.1}
    with pytest.raises(ParameterError, match=words):
        equation.check({name: np.asarray(value) for name, value in (medium | changes).items()})
