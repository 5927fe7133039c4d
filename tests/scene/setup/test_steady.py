"""Scenes of steady problems: one step, of which the solution alone is compared with records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import SceneError
from diffsim.expr import laplacian
from diffsim.scene import Scene
from diffsim.scene.shots.truth import observe
from diffsim.scene.shots.workers import HERE

ROD: dict[str, Any] = {
    "name": "rod",
    "seed": 3,
    "grid": {"shape": [20], "spacing": 0.05, "axes": ["x"]},
    "time": {"dt": 1.0, "steps": 1},
    "equation": {"type": "heat", "method": "steady", "boundary": "zero", "heated": True},
    "fields": {"s": {"constant": 2.0}, "T": {"constant": 0.3}},
    "receivers": {"T": {"points": [[0.2], [0.5], [0.75]]}},
    "unknowns": {"kappa": {"start": {"constant": 1.0}, "transform": "log", "regions": {"constant": 0.0}}},
    "truth": {"noise": 0.1, "refine": 1.0, "fields": {"kappa": {"constant": 2.0}}},
    "misfit": [{"of": "traces", "state": "T"}],
    "optimise": {"iterations": 8},
}


def test_noise_is_that_of_the_solution_and_the_guess_is_not_compared() -> None:
    scene = Scene(**ROD)
    observed = observe(scene, scene.problem("f64").setup, HERE)
    (data,) = observed.traces["T"]
    assert data.shape == (2, 3) and np.isnan(data[0]).all() and np.isfinite(data[1]).all()
    clean = Scene(**ROD | {"truth": {**ROD["truth"], "noise": 0.0}})
    (solution,) = observe(clean, clean.problem("f64").setup, HERE).traces["T"]
    assert observed.noise["traces", "T"] == pytest.approx(0.1 * np.sqrt(np.mean(solution[1] ** 2)), rel=1e-12)


@pytest.mark.parametrize("kind", ["one row", "a row for the guess", "times"])
def test_a_record_is_of_the_solution(kind: str, tmp_path: Path) -> None:
    clean = Scene(**ROD | {"truth": {**ROD["truth"], "noise": 0.0}})
    (solution,) = observe(clean, clean.problem("f64").setup, HERE).traces["T"]
    rows = solution[1:] if kind != "a row for the guess" else np.stack([np.full(3, 7.0), solution[1]])
    if kind == "times":
        table = "\n".join(f"{k},1.0,{value}" for k, value in enumerate(rows[0]))
        (tmp_path / "T.csv").write_text(f"receiver,time,value\n{table}\n")
        data: dict[str, Any] = {"path": str(tmp_path / "T.csv")}
    else:
        np.save(tmp_path / "T.npy", rows)
        data = {"path": str(tmp_path / "T.npy"), "dt": 1.0}
    tables = {key: value for key, value in ROD.items() if key != "truth"}
    outcome = Scene(**tables | {"data": {"T": data}}).run(precision="f64")
    assert outcome.unknowns["kappa"].answer[0] == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_one_row_of_receivers_is_no_trace(count: int, tmp_path: Path) -> None:
    """A file of the shape (receivers,), which is that of one trace."""
    points = np.linspace(0.1, 0.8, count)
    receivers = {"T": {"points": [[float(x)] for x in points]}}
    np.save(tmp_path / "T.npy", points * (1 - points))
    tables = {key: value for key, value in ROD.items() if key != "truth"} | {"receivers": receivers}
    data = {"path": str(tmp_path / "T.npy"), "dt": 1.0}
    expected = rf"data.T: .*T.npy: expected {count} traces, one for each point of receivers, found as many samples of one trace; if these"
    with pytest.raises(SceneError, match=expected):
        Scene(**tables | {"data": {"T": data}}).problem("f64")
    np.save(tmp_path / "T.npy", (points * (1 - points))[None, :])
    scene = Scene(**tables | {"data": {"T": data}})
    (values,) = observe(scene, scene.problem("f64").setup, HERE).traces["T"]
    np.testing.assert_array_equal(values[-1], points * (1 - points))


def test_an_equation_that_lacks_inputs_names_those() -> None:
    tables = ROD | {"equation": {"type": Exchange}, "receivers": {"a": ROD["receivers"]["T"]}, "misfit": [{"of": "traces", "state": "a"}]}
    inputs = {"rate": {"constant": 1.0}, "left": {"constant": 0.5}}
    for unknown in inputs:
        (other,) = inputs.keys() - {unknown}
        case = tables | {"fields": {}, "unknowns": {unknown: {"start": inputs[unknown]}}}
        case |= {"truth": {"noise": 0.1, "refine": 1.0, "fields": {unknown: {"constant": 2.0}}}}
        with pytest.raises(
            SceneError, match=rf"^fields.{other}: expected a field, for the equation needs {other}, found none; add \[fields.{other}\]$"
        ):
            Scene(**case).problem("f64")


def test_more_steps_are_refused() -> None:
    with pytest.raises(SceneError, match=r"^time: expected one step, .* steady equation heat, found 3; write dt = 1.0 and steps = 1$"):
        Scene(**ROD | {"time": {"dt": 1.0, "steps": 3}}).problem("f64")


class Exchange(ds.Steady):
    """Two temperatures that exchange heat by the product of them."""

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid = grid
        self.states = {"a": ds.Variable(((ds.Dirichlet("left"), ds.Dirichlet(0.0)),)), "b": ds.Variable("zero")}
        self.parameters = {"rate": ds.Variable("mirror"), "left": ds.Variable(axes=())}

    def residual(self, a: Any, b: Any, rate: Any, **sides: Any) -> dict[str, Any]:
        return {"b": 2.0 * laplacian(b) - b**2 + rate * a, "a": laplacian(a) - rate * a}


def test_a_system_of_several_fields_gives_up_its_inputs() -> None:
    """A number and a field of two regions from both fields at three points, the gradient certified."""
    scene = Scene(
        **ROD
        | {
            "grid": {"shape": [20], "spacing": 0.1, "axes": ["x"]},
            "equation": {"type": Exchange},
            "fields": {"a": {"constant": 0.5}, "b": {"constant": 0.5}},
            "receivers": {state: {"points": [[0.3], [0.9], [1.5]]} for state in ("a", "b")},
            "unknowns": {
                "rate": {
                    "start": {"constant": 1.0},
                    "transform": "log",
                    "regions": {"layers": {"axis": "x", "tops": [0.95], "values": [0.0, 1.0]}},
                },
                "left": {"start": {"constant": 0.5}},
            },
            "truth": {
                "noise": 1e-6,
                "refine": 1.0,
                "fields": {"rate": {"layers": {"axis": "x", "tops": [0.95], "values": [2.0, 0.7]}}, "left": {"constant": 1.5}},
            },
            "misfit": [{"of": "traces", "state": "a"}, {"of": "traces", "state": "b"}],
            "optimise": {"iterations": 40},
        }
    )
    outcome = scene.run(precision="f64")
    assert outcome.unknowns["left"].answer == pytest.approx(1.5, rel=1e-3)
    assert outcome.unknowns["rate"].answer[[2, 17]] == pytest.approx([2.0, 0.7], rel=1e-2)
    report = scene.gradcheck()
    assert report.passed, str(report)
