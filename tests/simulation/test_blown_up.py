"""Messages about the cause of a run that is no longer finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DivergenceError
from diffsim.expr import laplacian, log, sqrt, where
from tests.sampled import sampled

SHAPE = (6, 8)


class Named(ds.Equation):
    """The rate of a state, by a name."""

    def __init__(self, rate: Any, dt: float) -> None:
        self.grid, self.dt, self._rate = ds.Grid(SHAPE, 1.0), dt, rate
        self.states = {"T": ds.Variable("mirror")}

    def step(self, T: Any) -> dict[str, Any]:
        return {"T": T + self.dt * self._rate(T)}


def message(rate: Any, dt: float, steps: int, start: float, receivers: bool = True) -> str:
    run = ds.Simulation(Named(rate, dt), receivers={"T": [[2.0, 3.0]]} if receivers else None)
    inputs = {"T": start + 0.1 * np.random.default_rng(0).uniform(0, 1, SHAPE)}
    with pytest.raises(DivergenceError) as caught:
        run.run(inputs, steps)
    return str(caught.value)


def test_growth_from_step_to_step_asks_for_a_smaller_dt() -> None:
    text = message(laplacian, 1.0, 2000, 1.0)
    assert "T is no longer finite after 2000 steps" in text and "lower dt" in text
    factor = float(text.partition("grew by a factor ")[2].partition(" ")[0])
    assert 5.5 < factor < 7.0  # 1 - 8 dt, but for the sides


@pytest.mark.parametrize("rate", [lambda T: sqrt(T - 1.05), lambda T: log(T - 1.05)], ids=["root", "logarithm"])
@pytest.mark.parametrize("steps", [1, 40])
def test_an_operation_without_a_value_is_named(rate: Any, steps: int) -> None:
    text = message(rate, 1e-3, steps, 1.0)
    assert "grew by" not in text and "root, a logarithm or a power of a negative number, a division by 0, as in a dry cell" in text
    assert "NaN and 0 infinite of 48" in text and "lower dt" in text


def test_records_that_do_not_grow_make_an_operation_without_a_value_more_probable() -> None:
    text = message(lambda T: -sqrt(T - 0.95), 1e-3, 2000, 1.0)
    assert "The traces did not grow" in text and text.index("a negative number") < text.index("lower dt")


def test_without_records_both_causes_are_named() -> None:
    text = message(laplacian, 1.0, 2000, 1.0, receivers=False)
    assert "grow" not in text.partition("time step may be too large")[0] and "lower dt. Or an operation had no value" in text


@pytest.mark.parametrize("receivers", [True, False])
def test_growth_that_is_faster_than_exponential_may_come_from_dt(receivers: bool) -> None:
    """Too few steps are finite to judge their growth: the size of a cubic term is cubed from step to step."""
    text = message(lambda T: -(T**3), 20.0, 10, 1.0, receivers)
    assert "did not grow" not in text and text.index("lower dt") < text.index("a negative number")


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_a_gradient_that_is_not_finite_beside_a_run_that_is(precision: Any) -> None:
    run = ds.Simulation(Named(sqrt, 0.1), precision=precision)
    with pytest.raises(DivergenceError, match=r"the gradient for T is no longer finite after 1 steps.*The run ends with finite") as caught:
        run.value_and_grad(lambda s: s.final["T"].sum(), {"T": np.zeros(SHAPE)}, 1)
    assert "dt" not in str(caught.value) and ("compute in f64" in str(caught.value)) == (precision == "f32")


class Reservoir(ds.Equation):
    """A head that falls where water is taken, and a flow that is a root, a logarithm, a power or a quotient of it; as a stage, or not."""

    def __init__(self, law: Any, stored: bool) -> None:
        self.grid, self.dt, self.law, self.stored = ds.Grid(SHAPE, 1.0), 0.1, law, stored
        self.states = {"flow": ds.Variable("mirror"), "head": ds.Variable("mirror")}
        self.parameters = {"taken": ds.Variable("mirror"), "part": ds.Variable(axes=())}
        self.series = {"demand": ds.Variable()}

    def step(self, flow: Any, head: Any, taken: Any, part: Any, demand: Any, t: Any) -> dict[str, Any]:
        law = self.law(head - 0.001 * t)
        law = ds.stage(law, boundary="mirror") if self.stored else law
        return {"flow": flow + self.dt * part * laplacian(law), "head": head - demand * taken}


LAWS: dict[str, tuple[str, Any]] = {
    "root": ("sqrt", sqrt),
    "logarithm": ("log", log),
    "power": ("power", lambda h: h**1.5),
    "choice": ("log", lambda h: where(h > 5.0, sqrt(-1 - h), log(h))),  # the root has no value either, and is not taken
}
"""The name of the operation that has no value, and the law."""


@pytest.mark.parametrize(
    ("kind", "precision", "stored"),
    sampled(
        [(kind, precision, stored) for kind in LAWS for precision in ("f32", "f64") for stored in (False, True)],
        gate=(("root", "f64", False), ("choice", "f32", True)),
    ),
)
def test_the_step_the_cell_and_the_operation_are_those_of_numpy(kind: str, precision: Any, stored: bool) -> None:
    name, law = LAWS[kind]
    rng = np.random.default_rng(len(name) + stored)
    head, demand, steps = rng.uniform(1.0, 1.5, SHAPE), rng.uniform(0.9, 1.1, 40), 40
    taken = rng.uniform(0.01, 0.06, SHAPE)
    bad = np.array([head - demand[:n].sum() * taken - 0.0001 * n < 0 for n in range(steps)])
    first = int(np.argmax(bad.any(axis=(1, 2))))
    inputs = {"head": head, "taken": taken, "part": 0.1, "demand": demand}
    run = ds.Simulation(Reservoir(law, stored), precision=precision)
    cell = ", ".join(map(str, np.unravel_index(int(np.argmax(bad[first])), SHAPE)))
    place = rf", in a stage at \({cell}\)" if stored else ""  # flow reads the cell above; its own one is not repeated
    message = (
        rf"It began in step {first + 1}, where flow\[\d, \d\] became nan by the {name} of -\S+.*, "
        rf"which is nan, where head(?:(?!, in )[^(])*{place}\. The"
    )
    with pytest.raises(DivergenceError, match=message):
        run.run(inputs, steps)
    with pytest.raises(DivergenceError, match=message):
        run.value_and_grad(lambda found: found.final["head"].sum() + found.final["flow"].sum(), inputs, steps, checkpoint=3)
    assert np.isfinite(run.run(inputs | {"demand": demand[:first]}, first).final["flow"]).all()


def test_a_run_that_took_long_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.simulation.prepared.beginnings.LONGEST", -1.0)
    text = message(sqrt, 1.0, 3, -1.0)
    assert "It began" not in text and "Run fewer steps to see where it begins" in text
