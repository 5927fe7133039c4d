"""Sources, monitors, modes and permittivities: against exact solutions of the grid, and analytic ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import DiffsimError, ParameterError, ShapeError
from diffsim.photonics import (
    Density,
    Monitors,
    Plane,
    Source,
    feature_size,
    gaussian_beam,
    gaussian_pulse,
    line_source,
    mode_source,
    permittivity,
    plane_wave,
    projected,
    slab_mode,
)
from diffsim.solvers import Maxwell
from tests.photonics.mie import scattering

LEAK = 1e-12
"""Leak of a plane wave of amplitude 1; measured 3e-15."""

BOXES: dict[str, tuple[tuple[int, ...], str, str | None, dict[str, Any]]] = {
    "TM +x": ((18, 22), "+x", None, {}),
    "TE -y": ((20, 18), "-y", None, {"polarisation": "TE"}),
    "3-D -x, Ey": ((12, 13, 14), "-x", "y", {}),
}


@pytest.mark.parametrize("name", BOXES)
def test_a_plane_wave_stays_in_its_box(name: str) -> None:
    """Outside of the box there is round-off, and inside it every component across the direction is the wave on a line."""
    shape, direction, component, options = BOXES[name]
    h, steps = 0.1, 60
    light = Maxwell(ds.Grid(shape, h), 0.8 * h / math.sqrt(len(shape)), **options)
    t = light.dt * np.arange(steps)
    box = [0.4] * len(shape), [h * (n - 5) for n in shape]
    wave = plane_wave(light, direction, *box, np.sin(8 * t) ** 2, component)
    final = ds.Simulation(light, sources=wave.places, precision="f64").run({"eps": np.ones(shape), **wave.amplitudes}, steps).final
    strongest = 0.0
    for c in light.electric:
        field, inside = final[f"E{c}"], np.ones(shape, bool)
        for axis, place in enumerate(light.states[f"E{c}"].location):
            at = light.grid.coordinates(axis, place)
            inside &= ((at > box[0][axis] - 1e-9) & (at < box[1][axis] + 1e-9)).reshape([-1 if axis == k else 1 for k in range(len(shape))])
        assert np.abs(field[~inside]).max() < LEAK
        along = light.axes.index(direction[1])
        middle = field[tuple(slice(5, -6) if k == along else slice(5, 7) for k in range(len(shape)))]
        spread = np.ptp(middle, axis=tuple(k for k in range(len(shape)) if k != along))
        assert spread.max() < LEAK
        strongest = max(strongest, float(np.abs(field).max()))
    assert strongest > 0.5


def test_a_slab_in_the_box_scatters_as_the_closed_form() -> None:
    """Between periodic sides a plane wave hits a quarter-wave slab: the power before the box is R, that behind the box is 1 - T of it."""
    cells = 40
    h = 1 / cells
    light = Maxwell(ds.Grid((4, 240), h), 0.68 * h, layer=20, boundary=("periodic", "pec"), layer_frequency=1.0)
    steps = 24 * cells
    t = light.dt * np.arange(steps) - 4.0
    wave = plane_wave(light, "+x", (-1.0, 1.0), (1.0, 5.0), np.sin(2 * np.pi * t) * np.exp(-(t**2) / 2))
    watch = Monitors(light, [1.0], behind=Plane("x", 4.5), before=Plane("x", 0.8))
    eps = np.ones(light.grid.shape)
    run = ds.Simulation(light, sources=wave.places, receivers=watch.receivers, precision="f64")
    sent = watch.flux(run.run({"eps": eps, **wave.amplitudes}, steps), "behind")[0]
    eps[:, 120:125] = 4.0
    solution = run.run({"eps": eps, **wave.amplitudes}, steps)
    assert watch.flux(solution, "behind")[0] / sent == pytest.approx(0.64, rel=2e-2)
    assert -watch.flux(solution, "before")[0] / sent == pytest.approx(0.36, rel=4e-2)
    assert watch.flux(solution, "behind")[0] - watch.flux(solution, "before")[0] == pytest.approx(sent, rel=1e-3)


def test_sources_add_up() -> None:
    one = Source({"Jz": np.zeros((2, 1))}, {"Jz": np.ones((5, 2))})
    two = Source({"Jz": np.ones((1, 1)), "Jy": np.ones((1, 1))}, {"Jz": np.zeros((5, 1)), "Jy": np.ones((5, 1))})
    both = one + two
    assert both.places["Jz"].shape == (3, 1) and both.amplitudes["Jz"].shape == (5, 3) and both.amplitudes["Jy"].shape == (5, 1)
    with pytest.raises(ShapeError, match="sources of 3 and 5 steps"):
        one + Source({}, {"Jz": np.ones((3, 1))})


def analytic_index(n: float, half_width: float, frequency: float, polarisation: str) -> float:
    """Effective index of the even mode of a slab in vacuum: κ tan(κ d) = γ, for H across the plane times ε."""
    from scipy.optimize import brentq

    k0 = 2 * math.pi * frequency
    factor = 1.0 if polarisation == "TM" else n**2
    most = min(math.pi / 2 / half_width, k0 * math.sqrt(n**2 - 1))

    def mismatch(kappa: float) -> float:
        return kappa * math.sin(kappa * half_width) - factor * math.sqrt(k0**2 * (n**2 - 1) - kappa**2) * math.cos(kappa * half_width)

    kappa = brentq(mismatch, 1e-9, most * (1 - 1e-12))
    return math.sqrt(n**2 - (kappa / k0) ** 2)


@pytest.mark.parametrize("polarisation", ["TM", "TE"])
def test_modes_have_the_index_of_a_slab_to_second_order(polarisation: str) -> None:
    errors = []
    for cells in (20, 40):
        grid = ds.Grid((6 * cells, 8), 1 / cells)
        light = Maxwell(grid, 0.5 / cells, polarisation)
        eps = np.where(np.abs(grid.coordinates(0) + 0.5 / cells - 3.0) < 0.25, 4.0, 1.0)
        errors.append(slab_mode(light, "x", eps, 1.0).index - analytic_index(2.0, 0.25, 1.0, polarisation))
    assert abs(errors[1]) < 1e-2
    assert math.log2(abs(errors[0] / errors[1])) == pytest.approx(2.0, abs=0.3)


def source_spectrum(light: Maxwell, width: float, steps: int) -> float:
    """Spectrum of the real part of a pulse, at its frequency of 1."""
    t = light.dt * (np.arange(steps) + 0.5)
    return float(abs(light.dt * (gaussian_pulse(1.0, width, light.dt, steps).real @ np.exp(2j * np.pi * t))))


@pytest.mark.parametrize("polarisation", ["TM", "TE"])
def test_a_mode_keeps_its_shape(polarisation: str) -> None:
    """Sent into its waveguide, it arrives as itself, its power is the flux, and nothing comes back."""
    grid = ds.Grid((50, 90), 0.05)
    light = Maxwell(grid, 0.034, polarisation, layer=12, layer_frequency=1.0)
    eps = np.where(np.abs(grid.coordinates(0) - 1.25) < 0.26, 4.0, 1.0)[:, None] * np.ones(grid.shape)
    mode = slab_mode(light, "x", eps[:, 0], 1.0)
    source = mode_source(light, "x", 1.0, mode, gaussian_pulse(1.0, 2.0, light.dt, 800))
    watch = Monitors(light, [1.0], near=Plane("x", 1.8), far=Plane("x", 3.3))
    solution = ds.Simulation(light, sources=source.places, receivers=watch.receivers, precision="f64").run(
        {"eps": eps, **source.amplitudes}, 800
    )
    near, far = watch.flux(solution, "near")[0], watch.flux(solution, "far")[0]
    assert near == pytest.approx(far, rel=2e-4) and far > 0
    forward, backward = watch.amplitudes(solution, "far", mode)
    assert abs(forward) ** 2 == pytest.approx(far, rel=1e-3) and abs(backward) < 1e-3 * abs(forward)
    assert abs(forward) == pytest.approx(0.5 * source_spectrum(light, 2.0, 800), rel=1e-3)
    ((e, _),) = watch.spectrum(solution, "far").values()
    assert np.abs(e[0] / forward - mode.electric).max() < 5e-3 * np.abs(mode.electric).max()
    phase = watch.amplitudes(solution, "far", mode)[0] / watch.amplitudes(solution, "near", mode)[0]
    assert np.angle(phase * np.exp(-1j * mode.wave_number * 1.5)) == pytest.approx(0.0, abs=1e-3)


def test_power_of_a_dipole() -> None:
    """A line current in two dimensions radiates P = ω |I|² / 8 in vacuum, as much through each closed surface; here 2 P by Re E H*."""
    grid, frequency = ds.Grid((61, 61), 0.05), 1.0
    light = Maxwell(grid, 0.034, layer=12, layer_frequency=frequency)
    middle = grid.coordinates(0, 1)[30]
    pulse = gaussian_pulse(frequency, 1.5, light.dt, 500)
    low, high = middle - 0.5, middle + 0.5
    sides = {name: Plane(axis, at, low, high) for axis in "xy" for name, at in ((f"{axis}low", low), (f"{axis}high", high))}
    watch = Monitors(light, [frequency], **sides)
    run = ds.Simulation(light, sources={"Jz": [[middle, middle]]}, receivers=watch.receivers, precision="f64")
    solution = run.run({"eps": np.ones(grid.shape), "Jz": pulse.real[:, None]}, 500)
    power = sum((1 if name.endswith("high") else -1) * watch.flux(solution, name)[0] for name in sides)
    assert power == pytest.approx(2 * np.pi * frequency * source_spectrum(light, 1.5, 500) ** 2 / 4, rel=1.5e-2)


def test_flux_has_a_gradient() -> None:
    grid = ds.Grid((60,), 0.1)
    light = Maxwell(grid, 0.09, layer=8)
    watch = Monitors(light, [0.8, 1.0], out=Plane("x", 4.5))
    run = ds.Simulation(light, sources={"Jz": [[1.05]]}, receivers=watch.receivers, wrt=["eps"], precision="f64")
    pulse = gaussian_pulse(1.0, 0.6, light.dt, 150).real[:, None]
    eps = np.ones(60)
    eps[25:30] = 2.5

    def power(eps: Any) -> Any:
        return dnp.sum(watch.flux(run.run({"eps": eps, "Jz": pulse}, 150), "out"))

    gradient = ds.grad(power)(eps)
    change = np.zeros(60)
    change[25:30] = np.random.default_rng(1).standard_normal(5)
    difference = (power(eps + 1e-5 * change) - power(eps - 1e-5 * change)) / 2e-5
    assert float(gradient @ change) == pytest.approx(float(difference), rel=1e-6)


def test_the_absorption_of_a_metal_has_a_gradient() -> None:
    """The absorption of a film of a Drude metal, 1 - R - T, by its plasma frequency and collision rate."""
    grid = ds.Grid((120,), 0.025)
    metal = (np.arange(120) >= 60) & (np.arange(120) < 64)
    light = Maxwell(grid, 0.02, layer=12, layer_frequency=1.0, poles=("drude",), regions=(metal,))
    watch = Monitors(light, [1.0], before=Plane("x", 1.2), behind=Plane("x", 2.0))
    run = ds.Simulation(light, sources={"Jz": [[0.6125]]}, receivers=watch.receivers, wrt=["wp1", "gamma1"], precision="f64")
    pulse = gaussian_pulse(1.0, 0.8, light.dt, 600).real[:, None]

    def absorbed(wp: Any, gamma: Any) -> Any:
        solution = run.run({"eps": np.ones(120), "wp1": dnp.array(metal * 1.0) * wp, "gamma1": gamma, "Jz": pulse}, 600)
        return (watch.flux(solution, "before") - watch.flux(solution, "behind"))[0]

    by_wp, by_gamma = ds.grad(absorbed, (0, 1))(9.0, 2.0)
    assert absorbed(9.0, 2.0) > 0
    h = 1e-4
    assert float(by_wp) == pytest.approx(float(absorbed(9.0 + h, 2.0) - absorbed(9.0 - h, 2.0)) / (2 * h), rel=1e-6)
    assert float(by_gamma) == pytest.approx(float(absorbed(9.0, 2.0 + h) - absorbed(9.0, 2.0 - h)) / (2 * h), rel=1e-6)


def test_a_border_across_a_field_is_averaged_by_its_inverse() -> None:
    """Across a border 1 / <1/ε>, along it <ε>, and between both where it is inclined: around each place of its own."""
    grid = ds.Grid((6, 6), 1.0)
    light = Maxwell(grid, 0.5, "TE", anisotropic=True)
    eps = permittivity(light, lambda y, x: np.where(y < 2.25, 1.0, 9.0) + 0 * x)
    assert np.allclose(eps["eps_y"][2], 1 / (0.75 + 0.25 / 9)) and np.allclose(eps["eps_x"][2], 0.25 + 0.75 * 9)  # at y = 2 and 2.5
    assert np.allclose(eps["eps_x"][1], 1.0) and np.allclose(eps["eps_y"][[1, 3]], [[1.0], [9.0]])
    inclined = permittivity(light, lambda y, x: np.where(x + y < 4.0, 1.0, 9.0), samples=32)["eps_x"][2, 2]  # at y = 2.5, x = 2
    mean, inverse = 9 - 8 * 0.125, 1 / 9 + 8 / 9 * 0.125
    assert inclined == pytest.approx(1 / (0.5 * inverse + 0.5 / mean), rel=0.03)
    oblong = Maxwell(ds.Grid((6, 12), (1.0, 0.5)), 0.3, "TE", anisotropic=True)
    halved = permittivity(oblong, lambda y, x: np.where(x + y < 4.5, 1.0, 9.0), samples=32)["eps_x"][2, 4]  # at y = 2.5, x = 2
    assert halved == pytest.approx(1 / (0.5 * (1 + 1 / 9) / 2 + 0.5 / 5), rel=0.2)  # the first moments are not quite along the normal
    cell = permittivity(Maxwell(grid, 0.5), np.kron(np.eye(6) + 1.0, np.ones((2, 2))), samples=2)["eps"]
    assert np.allclose(cell, np.eye(6) + 1.0)


def test_a_design_becomes_binary() -> None:
    rho = np.random.default_rng(2).random((12, 15))
    assert np.allclose(projected(rho, 0.0, 1e-6), rho, atol=1e-6)
    assert np.allclose(projected(rho, 0.0, 1e4, 0.3), rho > 0.3, atol=1e-6)
    assert np.allclose(projected(np.array([[0.0, 1.0]]), 0.0, 3.0, 0.4), [[0.0, 1.0]])


FREE = np.zeros((14, 16), bool)
FREE[4:10, 5:12] = True
GUIDE = np.where(np.arange(14)[:, None] // 3 == 2, 4.0, 1.0) * np.ones((14, 16))
DENSITY = Density((14, 16), np.float64, FREE, GUIDE, 1.0, 4.0, radius=1.2, steepness=6.0)


def test_a_density_joins_the_structures_there() -> None:
    """It is the projected density of all cells; those that are not free keep their values, and act through the filter."""
    rho = np.random.default_rng(4).random(DENSITY.size)
    whole = (GUIDE - 1) / 3
    whole[FREE] = rho
    expected = np.where(FREE, 1 + 3 * projected(whole, 1.2, 6.0), GUIDE)
    assert np.allclose(DENSITY.to_field(rho), expected, atol=1e-14)
    bar = np.random.default_rng(5).standard_normal(GUIDE.shape)
    gradient = ds.grad(lambda theta: (bar * DENSITY.to_field(theta)).sum())(rho)
    direction, h = np.random.default_rng(6).standard_normal(rho.size), 1e-6
    ends = [(bar * DENSITY.to_field(rho + sign * h * direction)).sum() for sign in (1, -1)]
    assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-7)


def test_a_density_goes_on_where_a_stage_ended() -> None:
    start = DENSITY.from_field(GUIDE)
    assert np.array_equal(start, ((GUIDE - 1) / 3)[FREE]) and np.array_equal(DENSITY.from_field(DENSITY.to_field(start)), start)
    rho = np.random.default_rng(4).random(DENSITY.size)
    later = DENSITY.at(rho, 32.0)
    assert later.steepness == 32.0 and np.array_equal(later.from_field(later.to_field(rho)), rho)
    built = later.built(rho).to_field(rho)
    assert np.array_equal(built, np.where(FREE, np.where(later.to_field(rho) > 2.5, 4.0, 1.0), GUIDE))
    assert (ds.grad(lambda theta: later.built(rho).to_field(theta).sum())(rho) == 0).all()
    with pytest.raises(ParameterError, match="the filter cannot be undone"):
        DENSITY.from_field(GUIDE + 0.1)


@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_the_smallest_feature_is_the_width_of_a_bar_or_of_a_gap(width: int) -> None:
    solid = np.zeros((40, 40), bool)
    solid[12 : 12 + width] = True
    assert feature_size(solid) == feature_size(~solid) == feature_size(solid.T) == width
    corner = solid.copy()
    corner[12:, 20 : 20 + width] = True
    assert feature_size(corner) == width
    solid[2, 3] = True  # a speck
    assert feature_size(solid) == 1 and feature_size(solid, np.arange(40)[:, None] > 6 + np.zeros(40)) == width


def test_the_smallest_feature_of_a_disc_is_its_diameter() -> None:
    y, x = np.mgrid[:60, :60] - 30
    for radius in (4, 7):
        assert abs(feature_size(y**2 + x**2 <= radius**2) - (2 * radius + 1)) <= 2


def efficiency(cells: int) -> float:
    """Q_sca on a grid with so many cells a wavelength: the power through a square around the box of the plane wave."""
    h, radius, half, ring = 1 / cells, 0.175, 0.5, 0.75
    n = 2 * cells + 40
    light = Maxwell(ds.Grid((n, n), h, origin=-h * (n / 2 - 0.5)), 0.68 * h, layer=16, anisotropic=True, layer_frequency=1.0)
    steps = 20 * cells
    t = light.dt * np.arange(steps) - 4.0
    wave = plane_wave(light, "+x", (-half, -half), (half, half), np.sin(2 * np.pi * t) * np.exp(-(t**2) / 2))
    sides = {f"{axis}{'high' if at > 0 else 'low'}": Plane(axis, at, -ring, ring) for axis in "xy" for at in (-ring, ring)}
    watch = Monitors(light, [1.0], middle=Plane("x", 0.0, -0.01, 0.01), **sides)
    run = ds.Simulation(light, sources=wave.places, receivers=watch.receivers, precision="f64")
    vacuum = permittivity(light, lambda y, x: 1.0 + 0 * (x + y), 1)
    intensity = watch.flux(run.run(vacuum | dict(wave.amplitudes), steps), "middle")[0] / 0.02
    cylinder = permittivity(light, lambda y, x: np.where(y**2 + x**2 < radius**2, 4.0, 1.0), 16)
    solution = run.run(cylinder | dict(wave.amplitudes), steps)
    return sum((1 if name.endswith("high") else -1) * watch.flux(solution, name)[0] for name in sides) / intensity / (2 * radius)


@pytest.mark.slow
def test_a_cylinder_scatters_as_mie_says() -> None:
    """Q_sca = 3.788 of ε = 4, radius 0.175, wavelength 1, E along the cylinder; 0.9 % at a radius of 7 cells."""
    exact = scattering(2.0, 0.175, 1.0)
    assert exact == pytest.approx(3.788, abs=1e-3)
    coarse, fine = (efficiency(cells) / exact - 1 for cells in (40, 80))
    assert abs(coarse) < 1e-2
    assert math.log2(coarse / fine) == pytest.approx(2.0, abs=0.3)


LIGHT = Maxwell(ds.Grid((12, 14), 0.1), 0.06)
ONE = ds.Solution(traces={"Ez": np.ones((3, 1)), "Hy": np.ones((3, 1))})


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: plane_wave(LIGHT, "x", (0.3, 0.3), (0.8, 0.8), [1.0]), ParameterError, "direction = 'x' is unknown"),
        (lambda: plane_wave(LIGHT, "+x", (0.3, 0.0), (0.8, 1.0), [1.0]), ShapeError, "leave a cell free"),
        (lambda: plane_wave(LIGHT, "+x", (0.3,), (0.8,), [1.0]), ShapeError, "expected 2 coordinates each"),
        (lambda: plane_wave(LIGHT, "+x", (0.3, 0.3), (0.8, 0.8), [1.0], "y"), ParameterError, "component = 'y' is unknown"),
        (lambda: plane_wave(LIGHT, "+x", (0.3, 0.3), (0.8, 0.8), [[1.0]]), ShapeError, r"signal of shape \(1, 1\)"),
        (lambda: line_source(LIGHT, "z", 0.5, np.ones(12), [1.0]), ParameterError, "axis = 'z', expected one of y, x"),
        (lambda: line_source(LIGHT, "x", 9.0, np.ones(12), [1.0]), ShapeError, "at = 9, expected 0.05 to 1.35"),
        (lambda: line_source(LIGHT, "x", 0.5, np.ones(14), [1.0]), ShapeError, "profile of shape"),
        (lambda: slab_mode(LIGHT, "x", np.ones(12), 1.0), ParameterError, "order = 0, expected a guided mode"),
        (lambda: slab_mode(LIGHT, "x", np.ones(14), 1.0), ShapeError, r"expected \(12,\)"),
        (lambda: Monitors(LIGHT, [1.0]), ParameterError, "no plane or no frequency"),
        (lambda: Monitors(LIGHT, [1.0], a=Plane("x", 0.5, 3.0, 4.0)), ShapeError, "plane from 3 to 4"),
        (lambda: Monitors(LIGHT, [1.0], a=Plane("x", 0.5)).flux(ds.Solution(), "a"), ShapeError, "with 0 receivers of Ez, expected the 12"),
        (lambda: Monitors(LIGHT, [1.0], a=Plane("x", 0.5)).flux(ONE, "a"), ShapeError, "with 1 receivers of Ez, expected the 12"),
        (lambda: permittivity(LIGHT, np.ones((13, 14))), ShapeError, "expected a multiple"),
        (lambda: permittivity(LIGHT, lambda y, x: 0 * (x + y)), ParameterError, "expected positive everywhere"),
        (lambda: gaussian_beam(LIGHT, "x", 0.5, 0.6, 0.0, 1.0, [1.0]), ParameterError, "waist = 0.0"),
        (lambda: projected(np.ones((2, 2)), 1.0, 0.0), ParameterError, "steepness = 0.0"),
        (lambda: Density((14, 16), float, FREE, GUIDE, 4.0, 1.0), ParameterError, "expected lower < upper"),
        (lambda: Density((14, 16), float, FREE, GUIDE, 1.0, 3.0), ParameterError, "got 1 to 4"),
        (lambda: Density((14, 16), float, FREE, GUIDE, 1.0, 4.0, steepness=-1.0), ParameterError, "steepness = -1"),
        (lambda: DENSITY.from_field(GUIDE[1:]), ShapeError, r"expected shape \(14, 16\)"),
    ],
)
def test_wrong_arguments(call: Any, error: type[DiffsimError], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
