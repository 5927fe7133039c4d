"""The figures of a layer, its arguments, and how it is called in a step."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, ShapeError, TraceError
from diffsim.expr import Symbol, diff, diff_centred
from diffsim.layers import CPML
from tests.steps.acoustic_cpml import AcousticCPML
from tests.steps.layer import figures

GRID = ds.Grid((31, 44), (2.0, 0.5))
DT = 0.1


OUTSIDE = {"a": 0.0, "b": 1.0, "per_kappa": 1.0, "gain": 0.0, "decay": 0.0}


def layer(cells=5, **settings) -> CPML:
    return CPML(GRID, DT, cells, **{"speed": 3.0, "frequency": 0.4, **settings})


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("settings", [{}, {"reflection": 1e-3, "grading": 2.0, "kappa": 5.0}], ids=["default", "other"])
def test_figures_are_those_of_the_paper(settings: dict[str, float], axis: int, place: int) -> None:
    cells = ((5, 9), (12, 0))
    profile = layer(cells, **settings).profile(axis, place)
    wanted = figures(GRID.shape[axis], GRID.spacing[axis], DT, cells[axis], place, 3.0, 0.4, **settings)
    np.testing.assert_allclose(profile["a"], wanted["a"], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(profile["b"], wanted["b"], rtol=1e-12)
    np.testing.assert_allclose(1 / profile["per_kappa"], wanted["kappa"], rtol=1e-12)
    np.testing.assert_allclose(1 - profile["decay"] * DT, wanted["b"], rtol=1e-12)
    np.testing.assert_allclose(profile["gain"] * DT, wanted["a"], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("cells", [(5, 5), ((5, 5), 5), [[5, 5], [5, 5]], np.int64(5)], ids=str)
def test_cells_are_given_for_all_sides_axes_or_each_side(cells: object) -> None:
    assert layer(cells).cells == layer(5).cells == ((5, 5), (5, 5))


@pytest.mark.parametrize(("inside", "cell", "cells"), [(1.0, 0.5, 10), (0.5, 1.0, 5)])
def test_the_figures_of_a_stretched_axis_follow_its_coordinates(inside: float, cell: float, cells: int) -> None:
    """At the same depth of a layer of the same thickness they are those of an even axis."""
    faces = np.concatenate([np.arange(0.0, 15.0, inside), np.arange(15.0, 20.25, cell)])
    even, stretched = (
        CPML(ds.Grid.from_faces((x,)), DT, ((0, n),), 3.0, 0.4, 1e-6, 3.0) for x, n in ((np.arange(21.0), 5), (faces, cells))
    )
    every = round(1 / cell)
    for name, values in even.profile(0, 1).items():
        np.testing.assert_allclose(stretched.profile(0, 1)[name][-cells:][every - 1 :: every], values[-5:], rtol=1e-12)
        assert (stretched.profile(0, 1)[name][:-cells] == OUTSIDE[name]).all()


class Waves(ds.Equation):
    """Pressure and velocity along one axis, with a stretched derivative of each."""

    def __init__(self, *layers: CPML, dt: float = DT, location: tuple[int, ...] = (1,)) -> None:
        self.grid, self.dt, self.layers = ds.Grid((40,), 1.0), dt, layers
        self.states = {"p": ds.Variable(), "v": ds.Variable("zero", (1,))}
        self.states |= {"psi_p": layers[0].memory(0, location), "psi_v": layers[-1].memory(0)}

    def step(self, p: Symbol, v: Symbol, psi_p: Symbol, psi_v: Symbol) -> dict[str, Symbol]:
        p_x, psi_p = self.layers[0].stretch(diff(p, 0), 0, psi_p)
        v = ds.stage(v - self.dt * p_x)
        v_x, psi_v = self.layers[-1].stretch(diff(v, 0), -1, psi_v)
        return {"p": p - self.dt * v_x, "v": v, "psi_p": psi_p, "psi_v": psi_v}


def on_a_line(cells: object, dt: float = DT) -> CPML:
    return CPML(ds.Grid((40,), 1.0), dt, cells, 1.0, 0.1)


def final(*layers: CPML) -> np.ndarray:
    start = {"p": np.exp(-0.1 * (np.arange(40) - 20.0) ** 2)}
    return ds.Simulation(Waves(*layers), precision="f64").run(start, 150).final["p"]


def test_without_cells_a_derivative_stays_as_it_is() -> None:
    class Plain(Waves):
        def step(self, p: Symbol, v: Symbol, psi_p: Symbol, psi_v: Symbol) -> dict[str, Symbol]:
            v = ds.stage(v - self.dt * diff(p, 0))
            return {"p": p - self.dt * diff(v, 0), "v": v, "psi_p": psi_p, "psi_v": psi_v}

    start = {"p": np.exp(-0.1 * (np.arange(40) - 20.0) ** 2)}
    plain = ds.Simulation(Plain(on_a_line(0)), precision="f64").run(start, 150).final["p"]
    assert final(on_a_line(0)).tobytes() == plain.tobytes()
    assert np.abs(final(on_a_line(10)) - plain).max() > 0.1


class Transport(ds.Equation):
    """Two fields that know nothing of each other, each with a layer of its own, whose derivatives lie at the same place."""

    def __init__(self, *layers: CPML) -> None:
        self.grid, self.dt, self.layers = ds.Grid((40,), 1.0), DT, layers
        self.states = {"p": ds.Variable(), "q": ds.Variable(), "psi": layers[0].memory(0), "chi": layers[1].memory(0)}

    def step(self, p: Symbol, q: Symbol, psi: Symbol, chi: Symbol) -> dict[str, Symbol]:
        p_x, psi = self.layers[0].stretch(diff_centred(p, 0), 0, psi)
        q_x, chi = self.layers[1].stretch(diff_centred(q, 0), 0, chi)
        return {"p": p - self.dt * p_x, "q": q - self.dt * q_x, "psi": psi, "chi": chi}


def test_layers_of_one_step_have_figures_of_their_own() -> None:
    low, high = on_a_line(((10, 0),)), on_a_line(((0, 10),))
    start = {name: np.random.default_rng(0).standard_normal(40) for name in ("p", "q")}
    runs = [ds.Simulation(Transport(*layers), precision="f64").run(start, 20).final for layers in ((low, high), (low, low), (high, high))]
    assert runs[0]["p"].tobytes() == runs[1]["p"].tobytes()
    assert runs[0]["q"].tobytes() == runs[2]["q"].tobytes()
    assert np.abs(runs[1]["q"] - runs[2]["q"]).max() > 0.1


def test_steps_with_a_layer_are_computed_backwards() -> None:
    """Tiles of the layer are kept, the others undone."""
    grid = ds.Grid((23, 60), 1.0)
    equation = AcousticCPML(grid, 0.3, CPML(grid, 0.3, ((5, 4), (7, 6)), 1.5, 0.1, kappa=3.0))
    run, rng = ds.Simulation(equation, precision="f64"), np.random.default_rng(1)
    inputs = {name: rng.uniform(0.8, 1.2, grid.shape) for name in ("K", "b", "p", "vy", "vx")}
    gradients = []
    for schedule in (40, ds.checkpoint.Reversible(40)):
        solution, pullback = run.vjp(inputs, 40, schedule)
        gradients.append(pullback(ds.Solution(final={"p": np.cos(np.arange(grid.size)).reshape(grid.shape)})))
        assert solution.final["p"].any()
    for name, values in gradients[0].items():
        assert np.abs(gradients[1][name] - values).max() < 1e-12 * np.abs(values).max(), name


WRONG = [
    ({"cells": 16}, ParameterError, "cells = 16 cells, expected 0 to 15 along axis 0"),
    ({"cells": (3, (40, 4))}, ParameterError, r"cells = \(40, 4\) cells, expected a sum of at most 43 along axis 1"),
    ({"cells": (1, 2, 3)}, ParameterError, r"cells = \(1, 2, 3\) has length 3, expected one number of cells, or 2 entries"),
    ({"cells": (1, (2, 3, 4))}, ParameterError, "along axis 1, expected a number of cells or a pair"),
    ({"cells": -1}, ParameterError, "cells = -1, expected a whole number of at least 0"),
    ({"cells": 2.5}, ParameterError, "cells = 2.5, expected a whole number"),
    ({"speed": 0.0}, ParameterError, "speed = 0.0, expected a positive"),
    ({"frequency": -1.0}, ParameterError, "frequency = -1.0, expected a positive"),
    ({"reflection": 1.0}, ParameterError, "reflection = 1.0, expected a number between 0 and 1"),
    ({"grading": 0.5}, ParameterError, "grading = 0.5, expected a number of at least 1"),
    ({"kappa": 0.9}, ParameterError, "kappa = 0.9, expected a number of at least 1"),
]


@pytest.mark.parametrize(("settings", "error", "message"), WRONG, ids=[next(iter(w[0])) for w in WRONG])
def test_wrong_arguments_are_refused(settings, error, message) -> None:
    with pytest.raises(error, match=message):
        layer(**settings)


def test_a_memory_variable_elsewhere_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"a memory variable at the centre, expected it .* at the face of axis 0; declare it by memory\(0"):
        ds.Simulation(Waves(on_a_line(5), location=(0,)))


def test_a_layer_of_another_time_step_is_refused() -> None:
    with pytest.raises(TraceError, match=r"dt = 0.2 s in a step of .* dt = 0.1 s, expected the same"):
        ds.Simulation(Waves(on_a_line(5, 0.2)))


def test_a_layer_outside_a_step_is_refused() -> None:
    class Early(Waves):
        def coefficients(self, **given: Symbol) -> dict[str, Symbol]:
            return {"m": self.layers[0].stretch(given["c"], 0, given["c"])[0]}

    early = Early(on_a_line(5))
    early.parameters = {"c": ds.Variable()}
    with pytest.raises(TraceError, match=r"stretch\(\) was called outside a step"):
        ds.Simulation(early)


def test_profiles_of_an_axis_without_a_layer_are_refused() -> None:
    with pytest.raises(ShapeError, match="a profile along axis 1, which has no layer"):
        layer((5, 0)).profile(1)
