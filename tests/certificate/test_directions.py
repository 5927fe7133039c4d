"""Directions of the user's, scales, bounds, kinks, and simulations that nothing comes out of or that blow up in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.certificate import Line
from diffsim.errors import DivergenceError, ParameterError, ShapeError
from diffsim.expr import maximum, sqrt
from diffsim.solvers import Acoustic, Heat

SHAPE = (7, 9)
Fields = dict[str, np.ndarray]


class Pointwise(ds.Equation):
    """A step without neighbours: u after the step is a function of u and k."""

    def __init__(self, step: Callable[[Any, Any], Any]) -> None:
        self.grid, self.dt, self._step = ds.Grid(SHAPE, 1.0), 1.0, step
        self.states = {"u": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: Any, k: Any) -> dict[str, Any]:
        return {"u": self._step(u, k)}


def simulation(step: Callable[[Any, Any], Any]) -> ds.Simulation:
    return ds.Simulation(Pointwise(step))


def squares(solution: ds.Solution) -> Any:
    return 0.5 * (solution.final["u"] ** 2).sum()


def total(solution: ds.Solution) -> Any:
    return solution.final["u"].sum()


def fields(seed: int = 0) -> Fields:
    rng = np.random.default_rng(seed)
    return {"u": rng.uniform(0.5, 1.5, SHAPE), "k": rng.uniform(0.5, 1.5, SHAPE)}


def taylor_lines(certificate: ds.certificate.Certificate) -> list[Line]:
    return [line for line in certificate if "Taylor" in line.name or "by differences" in line.name]


def wrong(factor: float, of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient for one input that is off by a factor, whichever schedule it is computed by."""
    right = ds.Simulation.value_and_grad

    def planted(*arguments: Any, **named: Any) -> tuple[float, Fields]:
        value, gradient = right(*arguments, **named)
        return value, {**gradient, of: factor * gradient[of]}

    monkeypatch.setattr(ds.Simulation, "value_and_grad", planted)


smooth = pytest.fixture(lambda: simulation(lambda u, k: u + 0.1 * k * u * u))


def test_directions_of_ones_own_take_the_place_of_others(smooth: ds.Simulation) -> None:
    bump = np.exp(-((np.indices(SHAPE) - 3.0) ** 2).sum(axis=0))
    for own, names in (({"u": bump}, 1), ([{"u": bump}, {"u": -1e9 * bump, "k": 1e9 * bump}], 2)):
        certificate = ds.certify(smooth, squares, fields(), 4, directions=own)  # type: ignore[arg-type]
        assert certificate.passed, str(certificate)
        labels = [line.name.rpartition(", ")[2] for line in taylor_lines(certificate)]
        assert labels == [f"directions[{k}]" for k in range(names) for _ in range(2)]


def test_a_direction_of_ones_own_sees_only_its_own_changes(smooth: ds.Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(1.001, "k", monkeypatch)
    ones = np.ones(SHAPE)
    for own, passed in (({"u": ones}, True), ({"k": ones}, False), ({"u": ones, "k": ones}, False)):
        lines = taylor_lines(ds.certify(smooth, squares, fields(), 4, directions=own))
        assert all(line.passed is passed for line in lines) and lines, lines


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"directions": {"q": np.ones(SHAPE)}}, ParameterError, r"directions\[0\] names q, expected some of the inputs k, u"),
        ({"directions": [{"u": np.ones(3)}]}, ShapeError, r"directions\[0\], u: expected shape \(7, 9\)"),
        ({"directions": {"u": np.zeros(SHAPE)}}, ParameterError, "got zeros"),
        ({"directions": {"u": np.full(SHAPE, np.nan)}}, ParameterError, "expected finite numbers"),
        ({"directions": "u"}, ParameterError, "write it like {'"),
        ({"directions": 0}, ParameterError, "expected at least 1"),
        ({"directions": []}, ParameterError, "expected at least 1"),
        ({"scale": {"q": 1.0}}, ParameterError, "scale names q"),
        ({"scale": 0.0}, ParameterError, "scale of k = 0.0, expected finite numbers > 0"),
        ({"scale": {"u": np.ones(3)}}, ShapeError, "scale of u: expected a number or a shape that broadcasts"),
        ({"bounds": {"q": (0, 1)}}, ParameterError, "bounds names q"),
        ({"bounds": {"u": 0}}, ParameterError, r"write it like \(0, None\)"),
        ({"bounds": {"u": (1.0, None)}}, ParameterError, "bounds of u: expected inputs within them"),
    ],
)
def test_wrong_arguments_are_named(smooth: ds.Simulation, more: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ds.certify(smooth, squares, fields(), 4, **more)


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1.0, 1e9, 1e12])
@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_units_of_every_size(unit: float, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is 0 at the start, in a unit that only `scale` tells."""
    wrong(factor, "u", monkeypatch)
    run = simulation(lambda u, k: k * u + unit * 0.1 * (1 + u / unit) / (1 + (u / unit) ** 2))
    inputs = {"k": fields()["k"]}
    lines = taylor_lines(ds.certify(run, lambda s: ((s.final["u"] / unit) ** 2).sum(), inputs, 3, scale={"u": unit}))
    assert {line.passed for line in lines if "u at" in line.name} == {factor == 1.0}, lines
    assert {line.passed for line in lines if "random" in line.name} == {factor == 1.0}, lines


def test_zeros_change_by_the_scale_and_not_otherwise(smooth: ds.Simulation) -> None:
    """A kink at 0 is met only where entries that are 0 change."""
    run = simulation(lambda u, k: k * u + maximum(u, 0.0))
    inputs = fields()
    inputs["u"][2:4] = 0.0
    assert ds.certify(run, squares, inputs, 1, directions={"k": np.ones(SHAPE)}).verdict == "pass"
    moved = ds.certify(run, total, inputs, 1, scale={"u": 0.1})
    kinks = [line for line in moved if "a kink at this point" in line.note]
    assert moved.verdict == "cannot judge" and {line.name for line in kinks} >= {f"Taylor with gradient, random {k}" for k in (1, 2, 3)}


@pytest.mark.parametrize("factor", [1.001, 0.999, 2.0, -1.0])
def test_a_wrong_gradient_fails_beside_a_kink(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kink is in one cell, and the part that it leaves open is far less than the error."""
    wrong(factor, "u", monkeypatch)
    run = simulation(lambda u, k: k * u + maximum(u, 0.0))
    inputs = fields()
    inputs["u"][3, 4] = 0.0
    moves = np.ones(SHAPE)
    moves[3, 4] = 1e-5
    lines = taylor_lines(ds.certify(run, total, inputs, 1, directions={"u": moves}))
    assert [line.passed for line in lines] == [False], lines
    assert "both sides of a kink" in lines[0].note


def test_bounds_keep_changes_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A root of a value that is almost 0 in some cells: with bounds no direction leaves its domain."""
    seen: list[float] = []
    right = ds.Simulation.run

    def watched(self: ds.Simulation, inputs: Fields, steps: int) -> ds.Solution:
        seen.append(float(inputs["u"].min()))
        return right(self, inputs, steps)

    monkeypatch.setattr(ds.Simulation, "run", watched)
    run = simulation(lambda u, k: u * sqrt(u) + k)
    inputs = fields()
    inputs["u"][1, 1:5] = 1e-7
    inputs["u"][0] = inputs["u"][-1] = inputs["u"][:, 0] = inputs["u"][:, -1] = 0.3
    certificate = ds.certify(run, total, inputs, 1, scale={"u": 1e-2}, bounds={"u": (0.0, None), "k": (0.0, 10.0)})
    assert certificate.passed, str(certificate)
    assert len(seen) > 20 and min(seen) >= 0.0


def test_an_entry_at_its_bound_moves_inwards() -> None:
    run = simulation(lambda u, k: (1 + u) * k + u * u)
    inputs = {"k": fields()["k"], "u": np.zeros(SHAPE)}
    certificate = ds.certify(run, total, inputs, 2, scale={"u": 1e-2}, bounds={"u": (0.0, None)})
    assert certificate.verdict == "pass", str(certificate)
    assert len([line for line in taylor_lines(certificate) if "u at the edge" in line.name]) >= 1


def test_a_change_of_dry_cells_that_has_no_value_loses_no_line() -> None:
    """Depths of 0 change by ±1, and the root of a negative depth is not a number."""
    run = simulation(lambda u, k: u + 0.1 * k * (1.0 + u) * sqrt(1e-12 + u))
    certificate = ds.certify(run, total, {"k": fields()["k"], "u": np.zeros(SHAPE)}, 2)
    assert certificate.verdict == "cannot judge", str(certificate)
    assert {line.name: line.passed for line in certificate}["dot product, u"] is True
    open_ = [line for line in certificate if "random" in line.name]
    assert open_ and all(line.passed is None and "give `bounds`" in line.note for line in open_), str(certificate)


def test_where_the_loss_is_not_finite_steps_are_shorter() -> None:
    run = simulation(lambda u, k: u * sqrt(u) + k)
    inputs = fields()
    inputs["u"][3, 4] = 1e-3
    certificate = ds.certify(run, squares, inputs, 1, scale={"u": 1.0, "k": 0.1})
    assert certificate.verdict != "fail", str(certificate)
    assert any(line.passed for line in taylor_lines(certificate))


def test_the_loss_of_a_wave_that_has_not_arrived_is_not_judged() -> None:
    grid = ds.Grid((60, 60), 10.0)
    run = ds.Simulation(Acoustic(grid, 1e-3, 4), sources={"f": [[50.0, 50.0]]}, receivers={"p": [[550.0, 550.0]]})
    inputs = {"c": np.full((60, 60), 2000.0), "f": np.ones((60, 1))}

    def records(solution: ds.Solution) -> Any:
        return (solution.traces["p"] ** 2).sum()

    certificate = ds.certify(run, records, inputs, 60)
    open_ = [line for line in certificate if line.passed is None]
    assert certificate.verdict == "cannot judge", str(certificate)
    assert {line.name for line in open_} >= {f"jvp against vjp of the loss, {name}" for name in ("c", "f")}
    assert all("nothing has reached" in line.note for line in open_ if line.name.endswith((", c", ", f")))
    assert all("take more steps, or put receivers nearer" in line.note for line in open_ if "jvp" in line.name)


def test_a_run_of_one_step_has_no_schedule_to_try(smooth: ds.Simulation) -> None:
    certificate = ds.certify(smooth, squares, fields(), 1)
    assert certificate.passed and "cannot judge  checkpoints: a run of 1 step keeps no states" in str(certificate)


def test_a_gradient_of_zeros_is_no_proof() -> None:
    run = ds.Simulation(Heat(ds.Grid(SHAPE, 0.5), 0.1))
    certificate = ds.certify(run, lambda s: (s.final["T"] ** 2).sum(), {"kappa": np.full(SHAPE, 0.3), "T": np.zeros(SHAPE)}, 4)
    assert certificate.verdict == "cannot judge", str(certificate)
    assert {"dot product, kappa", "1 slot against all stored"} <= {line.name for line in certificate if line.passed is None}


@pytest.mark.parametrize("error", [ValueError("of the loss"), MemoryError(), DivergenceError("too far")])
@pytest.mark.parametrize("call", [2, 4, 9])
def test_measured_lines_are_kept_when_something_fails(smooth: ds.Simulation, error: Exception, call: int) -> None:
    calls: list[int] = []

    def loss(solution: ds.Solution) -> Any:
        calls.append(1)
        if len(calls) >= call:
            raise error
        value = 0.5 * sum(float(np.sum(np.asarray(v) ** 2)) for v in solution.final.values())
        return value, ds.Solution({name: np.asarray(v) for name, v in solution.final.items()})

    if call == 2:  # the loss is called again as it is, after the one that records
        calls.append(1)
    try:
        certificate = ds.certify(smooth, loss, fields(), 4)
    except ValueError:
        assert call == 2
        return
    assert certificate.verdict != "pass"
    stops = [line for line in certificate if type(error).__name__ in str(line) or "loss cannot be computed" in str(line)]
    assert stops and all(line.passed is None for line in stops), str(certificate)
    assert call == 2 or any(line.passed for line in certificate)


def test_a_run_that_blows_up_says_so_in_a_line() -> None:
    run = simulation(lambda u, k: 1e200 * u * u * k)
    certificate = ds.certify(run, squares, fields(), 5)
    assert certificate.verdict == "cannot judge" and len(certificate) == 1
    assert "stopped by DivergenceError" in str(certificate) and "time step may be too large" in " ".join(str(certificate).split())


def test_receivers_that_nothing_has_reached_do_not_fail_a_right_adjoint() -> None:
    """The derivative of a pressure in gas at rest is round-off of 1e5 Pa before the blast is there: it does not count as a signal."""
    grid = ds.Grid((40,), 0.05)
    gas = ds.Simulation(
        ds.solvers.Euler(grid, 1e-5, fastest=800.0, scale=(1.2, 300.0, 1e5)), receivers={"p": [[1.95]]}, wrt=["rho"], precision="f64"
    )
    start = {"rho": np.full(40, 1.2), "p": np.where(np.abs(grid.coordinates(0) - 0.8) < 0.3, 5e5, 1e5)}
    report = ds.certify(gas, lambda solution: solution.traces["p"][-1, 0], start, 20, directions=1)
    assert all(line.passed for line in report.lines if line.name.startswith("dot product"))
