"""Values that a scene leaves out: the time step, the speed and the frequency of its layer, and the cells around the model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.scene import Scene
from diffsim.scene.notes import notes_of
from diffsim.scene.schema.parts import Sampled
from diffsim.scene.setup.resolved import resolved, stable_step
from diffsim.scene.setup.wavelets import wavelet_values
from diffsim.solvers import Acoustic, Elastic, Heat, ViscoAcoustic
from tests.scene.tiny import ACOUSTIC, HEAT

SURFACE = {"type": "acoustic", "order": 4, "boundary": {"z": ["odd_image", "zero"]}, "layer": 4}


def tables(base: dict[str, Any] = ACOUSTIC, **changes: Any) -> dict[str, Any]:
    """A small scene with other tables, where keys of a nested one have __ between them; None takes one out."""
    table = copy.deepcopy(base)
    for key, value in changes.items():
        *path, last = key.split("__")
        place = table
        for name in path:
            place = place[name]
        place[last] = value
        if value is None:
            del place[last]
    return table


def test_a_time_step_is_stable_for_the_upper_bound_and_the_truth() -> None:
    scene = Scene(**tables(time={"duration": 0.05}))
    case = resolved(scene).scene
    grid = scene.problem("f64").setup.grid
    limit = 10.0 / (2600.0 * np.sqrt(8 / 3))  # of order 4 in two dimensions: h / c sqrt(3 / 8)
    assert case.time.dt == pytest.approx(0.9 * limit, rel=1e-2) and case.time.count == int(np.ceil(0.05 / case.time.step))
    assert stable_step(Acoustic(grid, 1.0, order=4), {"c": np.full(grid.shape, 2600.0)}) == pytest.approx(limit)
    faster = resolved(Scene(**tables(time={"duration": 0.05}, truth__fields={"c": {"constant": 5200.0}}))).scene
    assert faster.time.dt == pytest.approx(case.time.step / 2, rel=1e-2)
    assert resolved(Scene(**tables())).scene.time.dt == ACOUSTIC["time"]["dt"]


@pytest.mark.parametrize(
    ("equation", "fields"),
    [(ViscoAcoustic, {"c": 2000.0, "rho": 1000.0}), (Elastic, {"vp": 2000.0, "vs": 1000.0, "rho": 1000.0}), (Heat, {"kappa": 2.0})],
)
def test_equations_name_their_stable_step(equation: type, fields: dict[str, float]) -> None:
    grid = Grid((8, 9), 10.0)
    solver = equation(grid, 1e-9)
    values = {name: np.full(grid.shape, value) for name, value in fields.items()}
    limit = stable_step(solver, values)
    assert limit is not None and solver.dt == 1e-9
    equation(grid, 0.999 * limit).check(values)
    with pytest.raises(ValueError, match="exceeds the stable"):
        equation(grid, 1.001 * limit).check(values)


def test_diffusion_takes_half_of_its_stable_step() -> None:
    case = resolved(Scene(**tables(HEAT, time={"duration": 2.0}))).scene
    assert case.time.dt == pytest.approx(0.5 * 2 / (0.5 * 8.0))


def test_a_layer_is_tuned_for_the_start_and_the_wavelet() -> None:
    case = resolved(Scene(**tables(equation=SURFACE))).scene
    assert (case.equation.layer_speed, case.equation.layer_frequency) == (2000.0, 40.0)  # type: ignore[attr-defined]
    stated = resolved(Scene(**tables(equation=SURFACE | {"layer_speed": 1234.0}))).scene
    assert (stated.equation.layer_speed, stated.equation.layer_frequency) == (1234.0, 40.0)  # type: ignore[attr-defined]
    pulse = {"type": "pulse", "delay": 0.02, "width": 0.004}
    case = resolved(Scene(**tables(equation=SURFACE, sources__f__wavelet=pulse))).scene
    assert case.equation.layer_frequency == pytest.approx(1 / (2 * np.pi * 0.004))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"time": {"duration": 0.05}, "unknowns__c__upper": None}, "unknowns.c.upper: expected a bound"),
        ({"equation": SURFACE, "sources": {}}, "equation.layer_frequency: expected the dominant frequency"),
        ({"grid__around": True, "equation": {"type": "acoustic"}}, "grid.around: expected an equation with a layer or a sponge"),
        ({"sources__f__dipole": [1.0]}, "sources.f.dipole: expected 2 numbers"),
    ],
)
def test_values_that_cannot_be_derived_are_asked_for(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(SceneError) as caught:
        Scene(**tables(**changes)).problem("f64")
    assert str(caught.value).startswith(expected)


def test_a_layer_around_the_model(tmp_path: Path) -> None:
    """Numbers of files continue there, unknowns keep their start, and a free surface has no layer."""
    model = 2000.0 + 10.0 * np.arange(15)[:, None] + np.arange(16.0)  # over (x, z)
    model.astype("<f4").tofile(tmp_path / "model.bin")
    start = {"file": {"path": str(tmp_path / "model.bin"), "axes": ["x", "z"]}}
    mask = {"field": "start", "above": 2020.0}
    problem = Scene(**tables(grid__around=True, equation=SURFACE, unknowns__c={"start": start, "mask": mask})).problem("f64")
    assert problem.setup.grid.shape == (20, 23) and problem.setup.grid.origin == (0.0, -40.0)
    expected = np.pad(model.T, ((0, 4), (4, 4)), mode="edge")
    np.testing.assert_allclose(problem.start["c"], expected)
    inside = np.pad(np.ones((16, 15), bool), ((0, 4), (4, 4)))
    np.testing.assert_array_equal(problem.free["c"], inside & (expected >= 2020.0))


def test_the_order_of_the_axes_of_a_file(tmp_path: Path) -> None:
    model = 2000.0 + np.arange(240.0).reshape(15, 16)
    np.save(tmp_path / "model.npy", model)
    file = {"path": str(tmp_path / "model.npy")}
    with pytest.raises(SceneError, match=r'axes = \["x", "z"\]'):
        Scene(**tables(unknowns__c__start={"file": file})).problem("f64")
    problem = Scene(**tables(unknowns__c__start={"file": file | {"axes": ["x", "z"]}})).problem("f64")
    np.testing.assert_array_equal(problem.start["c"], model.T)
    (tmp_path / "model.bin").write_bytes(b"\0" * 44)
    with pytest.raises(SceneError, match=r"expected 240 numbers of 4 bytes .*found 11; give the shape"):
        Scene(**tables(unknowns__c__start={"file": {"path": str(tmp_path / "model.bin")}})).problem("f64")


def test_records_of_bare_numbers(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2, 5, 30)).astype("<f4")  # shot, receiver, time
    values.tofile(tmp_path / "records.bin")
    data = {
        "path": str(tmp_path / "records.bin"),
        "dt": 2e-3,
        "allow": ["outside"],
        "axes": ["shot", "receiver", "time"],
        "shape": [2, 5, 30],
    }
    table = tables(data={"p": data}, truth=None, accept=[])
    recorded = Scene(**table).problem("f64").setup.data["p"]
    np.testing.assert_array_equal(recorded.values, values.transpose(0, 2, 1))
    with pytest.raises(SceneError, match="expected an order of shot, time, receiver"):
        Scene(**tables(data={"p": data | {"axes": ["shot", "time", "time"]}}, truth=None, accept=[])).problem("f64")


def test_a_wavelet_from_a_file(tmp_path: Path) -> None:
    t = 1e-3 * np.arange(60)
    a = (np.pi * 40.0 * (t - 0.03)) ** 2
    np.save(tmp_path / "wavelet.npy", (1 - 2 * a) * np.exp(-a))
    wavelet = {"type": "file", "path": str(tmp_path / "wavelet.npy"), "dt": 1e-3}
    scene = Scene(**tables(sources__f__wavelet=wavelet, equation=SURFACE))
    times = 0.7e-3 * np.arange(100)
    b = (np.pi * 40.0 * (times - 0.03)) ** 2
    ricker = np.where(times <= t[-1], (1 - 2 * b) * np.exp(-b), 0.0)
    np.testing.assert_allclose(wavelet_values(scene.sources["f"].wavelet, times, "f"), ricker, atol=1e-3)
    assert resolved(scene).scene.equation.layer_frequency == pytest.approx(40.0, rel=0.03)  # type: ignore[attr-defined]
    later = Sampled(type="file", path=wavelet["path"], dt=1e-3, start=0.01, amplitude=2.0)
    np.testing.assert_allclose(wavelet_values(later, np.array([0.02]), "f"), 2.0)
    with pytest.raises(SceneError, match=r"sources.f.wavelet.path: .*found no"):
        Scene(**tables(sources__f__wavelet=wavelet | {"path": str(tmp_path / "none.npy")})).problem("f64")


def test_dipoles_and_sincs_reach_the_simulation() -> None:
    table = tables(sources__f__dipole=[1.0, 0.0], receivers__p__dipole=[0.0, 2.0])
    table["sources"]["f"] |= {"interpolation": "sinc", "points": [[70.0, 70.0]]}
    setup = Scene(**table).problem("f64").setup
    sources, receivers = setup.placed({"f": np.zeros((1, 2))})["f"], setup.placed({"p": np.zeros((1, 2))})["p"]
    assert sources.interpolation == "sinc" and np.array_equal(sources.dipole, [[1.0, 0.0]])
    assert receivers.interpolation == "linear" and np.array_equal(receivers.dipole, [[0.0, 2.0]])


def test_density_and_attenuation_are_known_or_sought() -> None:
    """A directional source in a medium whose speed, density and quality factor are found together, at the time step that follows."""
    table = tables(
        time={"duration": 0.05},
        equation={"type": "visco_acoustic", "order": 4, "Q": "given", "frequency": 40.0},
        sources={"q": ACOUSTIC["sources"]["f"] | {"dipole": [0.0, 1.0]}},
        unknowns={
            "c": ACOUSTIC["unknowns"]["c"],
            "rho": {"start": {"constant": 2000.0}, "scale": 100.0},
            "Q": {"start": {"constant": 30.0}, "transform": "log", "scale": 0.3},
        },
    )
    truth = {"rho": {"constant": 2100.0}, "Q": {"constant": 40.0}}
    table["truth"]["fields"] |= truth
    table["accept"] = []
    outcome = Scene(**table).run(precision="f64")
    assert outcome.times[-1] == pytest.approx(0.05, abs=outcome.times[1]) and outcome.settings["time"]["dt"] == outcome.times[1]
    assert all(np.abs(outcome.unknowns[name].gradient_first).max() > 0 for name in ("c", "rho", "Q"))
    first, last = (sum(parts[k] for parts in outcome.loss_parts.values()) for k in (0, 1))
    assert last < 0.5 * first


def test_receivers_beside_a_source_are_noted() -> None:
    table = tables(receivers__p={"points": [[40.0, 39.0], [100.0, 110.0]]})
    (note,) = (line for line in notes_of(Scene(**table).problem("f64")) if line.startswith("misfit"))
    assert (
        note.startswith("misfit[0]: receivers of p within a cell of the source in 1 shot (shot 0 is one)")
        and "offset = [50, 1.0e6]" in note
    )
    far = tables(receivers__p=table["receivers"]["p"], misfit=[{"of": "traces", "state": "p", "offset": [20.0, 1e6]}])
    assert not any(line.startswith("misfit") for line in notes_of(Scene(**far).problem("f64")))


def test_a_coarse_grid_is_noted_with_the_spacing_that_it_needs() -> None:
    case = Scene(**tables(sources__f__wavelet={"type": "ricker", "frequency": 40.0}))
    (note,) = (line for line in notes_of(case.problem("f64")) if line.startswith("grid"))
    assert note.startswith("grid: 2 cells of 10 in the shortest wave of sources.f (2000 m/s at 2.5 times 40 Hz)")
    assert note.endswith("cells of 5, or a frequency of 20 Hz")
    fine = Scene(**tables(sources__f__wavelet={"type": "ricker", "frequency": 20.0}))
    assert not any(line.startswith("grid") for line in notes_of(fine.problem("f64")))


@pytest.mark.parametrize(
    "wavelet",
    [
        {"type": "ricker", "frequency": 0.5},
        {"type": "ricker", "frequency": 40.0, "delay": -0.01},
        {"type": "pulse", "width": 0.01, "delay": 3.0},
        {"type": "packet", "frequency": 40.0, "width": 0.5},
    ],
    ids=["slow ricker", "ricker before", "late pulse", "long packet"],
)
def test_a_wavelet_that_peaks_outside_of_the_run_is_noted(wavelet: dict[str, Any]) -> None:
    peak = wavelet.get("delay", 5 * wavelet["width"] if "width" in wavelet else 1.2 / wavelet["frequency"])
    (note,) = (line for line in notes_of(Scene(**tables(sources__f__wavelet=wavelet)).problem("f64")) if "its peak" in line)
    assert note.startswith(f"sources.f.wavelet: its peak at {peak:.3g} s lies outside of the run (0 to ")
    assert note.endswith("take more steps, or give a shorter delay" if peak > 0 else "give a later delay")
    good = Scene(**tables(sources__f__wavelet={"type": "ricker", "frequency": 40.0, "delay": 0.03}))
    assert not any("its peak" in line for line in notes_of(good.problem("f64")))


def test_amplitudes_like_a_fill_value_may_be_allowed(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", [0.0, 0.5e20, 1e20, 0.5e20, 0.0])
    wavelet: dict[str, Any] = {"type": "file", "path": str(tmp_path / "w.npy"), "dt": 0.1}
    with pytest.raises(SceneError, match=r'which looks like a fill value; fill it, or allow = \["fill"\]'):
        wavelet_values(Sampled(**wavelet), 0.1 * np.arange(5), "w")
    values = wavelet_values(Sampled(**wavelet, allow=["fill"]), 0.1 * np.arange(5), "w")
    np.testing.assert_allclose(values, np.load(tmp_path / "w.npy"), rtol=1e-12, atol=1e7)


def test_a_start_that_is_refused_is_named_by_its_key_without_a_time_step_too() -> None:
    parts = {"c": {"start": {"constant": -1.0}, "upper": 3000.0, "lower": 1000.0}}
    for time in ({"dt": 1e-3, "steps": 5}, {"duration": 0.05}):
        with pytest.raises(SceneError, match=r"unknowns\.c\.start"):
            Scene(**tables(time=time, unknowns=parts)).problem("f64")
