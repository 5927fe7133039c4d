"""Inputs that live on faces have the values of their place: of formulas, of files, on finer grids, and in data."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.mesh.grid import Grid
from diffsim.scene import Scene
from diffsim.scene.setup.grids import refined
from diffsim.scene.setup.setup import Setup
from diffsim.scene.shots.truth import averaged, prepared

PLACES = {"c": (0, 0), "u": (0, 1), "k": (1, 1), "e": (1,)}
"""Location of each input along the axes along which it varies, the last ones."""
GRID = Grid((8, 9), (0.7, 2.0), (3.0, -1.0), ("y", "x"))


class Faces(ds.Equation):
    """States and parameters at several places of the cells."""

    def __init__(self, grid: Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"c": ds.Variable("mirror"), "u": ds.Variable("mirror", location=(0, 1))}
        self.parameters = {"k": ds.Variable("mirror", location=(1, 1)), "e": ds.Variable(axes=(1,), location=(0, 1))}

    def step(self, c: Any, u: Any, k: Any, e: Any) -> dict[str, Any]:
        return {"c": 1.0 * c, "u": 1.0 * u + 0 * e}


def scene_of(fields: dict[str, Any], refine: float) -> Scene:
    return Scene(
        name="faces",
        grid={"shape": GRID.shape, "spacing": GRID.spacing, "origin": GRID.origin, "axes": GRID.axes},
        time={"dt": 0.1, "steps": 1},
        equation={"type": Faces},
        fields={name: fields[name] for name in ("u", "k", "e")},
        unknowns={"c": {"start": {"constant": 0.0}}},
        truth={"refine": refine, "noise": 0.0, "fields": {"c": fields["c"]}},
        misfit=[{"of": "final", "state": "u"}, {"of": "final", "state": "c"}],
    )


def coordinates(grid: Grid, name: str, at: tuple[int, ...]) -> list[np.ndarray]:
    axes = range(2 - len(at), 2)
    return list(np.meshgrid(*(grid.coordinates(axis, place) for axis, place in zip(axes, at, strict=True)), indexing="ij"))


def plane(places: list[np.ndarray]) -> np.ndarray:
    """A function that linear interpolation keeps."""
    return np.asarray(1 + sum((0.1 + 0.2 * number) * x for number, x in enumerate(reversed(places))))


def built(scene: Scene) -> tuple[Setup, dict[str, np.ndarray]]:
    return prepared(scene, scene.objective("f64").problem.setup)


@pytest.mark.parametrize("refine", [1.0, 1.5, 2.0])
def test_formulas_are_evaluated_where_values_live(refine: float) -> None:
    fields = {name: {"gaussians": [{"centre": [5.0, 6.0][2 - len(at) :], "width": 2.0, "amplitude": 1.0}]} for name, at in PLACES.items()}
    setup, inputs = built(scene_of(copy.deepcopy(fields), refine))
    for name, at in PLACES.items():
        y_x = coordinates(setup.grid, name, at)
        square = sum(((x - c) / 2.0) ** 2 for x, c in zip(y_x, [5.0, 6.0][2 - len(at) :], strict=True))
        np.testing.assert_allclose(inputs[name], np.exp(-0.5 * square), rtol=1e-12)


@pytest.mark.parametrize("refine", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("kind", ["cell by cell", "with coordinates"])
def test_files_hold_values_where_they_live_or_at_their_coordinates(kind: str, refine: float, tmp_path: Path) -> None:
    fields = {}
    for name, at in PLACES.items():
        path = str(tmp_path / f"{name}.npz")
        if kind == "cell by cell":
            np.savez(path, values=plane(coordinates(GRID, name, at)))
        else:  # those of centres
            axes = range(2 - len(at), 2)
            known = {GRID.axes[axis]: GRID.coordinates(axis) for axis in axes}
            np.savez(path, values=plane(coordinates(GRID, name, (0,) * len(at))), **known)
        fields[name] = {"file": {"path": path, "key": "values"}}
    setup, inputs = built(scene_of(fields, refine))
    for name, at in PLACES.items():
        edge = coordinates(GRID, name, at if kind == "cell by cell" else (0,) * len(at))
        inside = [np.clip(x, one.min(), one.max()) for x, one in zip(coordinates(setup.grid, name, at), edge, strict=True)]
        np.testing.assert_allclose(inputs[name], plane(inside), rtol=1e-12)


@pytest.mark.parametrize(("factor", "bound"), [(1.5, 0.05), (2.0, 1e-12), (3.0, 1e-12)])
def test_data_on_faces_are_means_around_them(factor: float, bound: float) -> None:
    """The mean of places along x is the place. Means over whole cells would be wrong by 0.2 to 0.3 cells. The last face is at the end."""
    fine = refined(GRID, factor)
    values = averaged(np.broadcast_to(fine.coordinates(1, 1), fine.shape), fine, GRID, (0, 1))
    assert np.abs(values - GRID.coordinates(1, 1))[:, :-1].max() < bound * GRID.spacing[1]
