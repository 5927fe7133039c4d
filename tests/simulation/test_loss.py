"""Losses that are programs, and losses that give their cotangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import DerivativeError, MissingError, ParameterError
from diffsim.losses import L2Misfit, Tikhonov
from diffsim.solvers import Heat

STEPS = 6
PLACES = [[1.0, 1.5], [2.0, 0.5]]


@pytest.fixture(scope="module")
def heat() -> ds.Simulation:
    return ds.Simulation(Heat(ds.Grid((7, 9), 0.5), 0.1), receivers={"T": PLACES}, precision="f64")


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"kappa": rng.uniform(0.2, 0.4, (7, 9)), "T": rng.normal(size=(7, 9))}


def program(solution: ds.Solution) -> Any:
    """A number of both parts, with functions of NumPy, slices and control flow."""
    traces = solution.traces["T"]
    total = dnp.sum(dnp.log(1 + traces[1:] ** 2))
    for row in range(3):
        total = total + dnp.max(solution.final["T"][row]) * row
    return total / 2


def pair(solution: ds.Solution) -> tuple[float, ds.Solution]:
    """The same, by hand."""
    traces, final = np.asarray(solution.traces["T"]), np.asarray(solution.final["T"])
    bars = {"T": np.zeros_like(final)}, {"T": traces / (1 + traces**2)}
    bars[1]["T"][0] = 0
    for row in range(3):
        bars[0]["T"][row, final[row].argmax()] = row / 2
    value = np.log(1 + traces[1:] ** 2).sum() + sum(final[row].max() * row for row in range(3))
    return float(value) / 2, ds.Solution(*bars)


def test_a_program_has_the_gradient_of_its_cotangents(heat: ds.Simulation, inputs: dict[str, np.ndarray]) -> None:
    (value, gradient), (expected, wanted) = (heat.value_and_grad(loss, inputs, STEPS, 2) for loss in (program, pair))
    assert type(value) is float and value == pytest.approx(expected, rel=1e-14)
    for name in wanted:
        np.testing.assert_allclose(gradient[name], wanted[name], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_misfits_and_penalties_are_losses(precision: str, inputs: dict[str, np.ndarray]) -> None:
    """The losses take both parts of a solution, with gaps in the records that reach no gradient."""
    heat = ds.Simulation(Heat(ds.Grid((7, 9), 0.5), 0.1), receivers={"T": PLACES}, precision=precision)
    counts = np.ones((STEPS + 1, len(PLACES)), bool)
    counts[2:4, 1] = False
    records = np.where(counts, np.random.default_rng(1).normal(size=counts.shape), np.nan)
    misfit, penalty = L2Misfit(records, 0.7, counts), Tikhonov(0.2, 0.5, order=0, reference=0.1)

    def loss(solution: ds.Solution) -> Any:
        return misfit(solution.traces["T"]) + penalty(solution.final["T"])

    def by_hand(solution: ds.Solution) -> tuple[float, ds.Solution]:
        residual = np.where(counts, solution.traces["T"].astype(float) - records, 0.0)
        departure = solution.final["T"].astype(float) - 0.1
        value = 0.5 * 0.7 * np.sum(residual**2) + 0.5 * 0.2 * 0.25 * np.sum(departure**2)
        bars = {"T": (0.2 * 0.25 * departure).astype(heat.dtype)}, {"T": (0.7 * residual).astype(heat.dtype)}
        return float(value), ds.Solution(*bars)

    (value, gradient), (expected, wanted) = (heat.value_and_grad(f, inputs, STEPS, 2) for f in (loss, by_hand))
    assert value == pytest.approx(expected, rel=1e-13)
    for name in wanted:
        round_off = 1e-6 if precision == "f32" else 1e-12
        np.testing.assert_allclose(gradient[name], wanted[name], rtol=0, atol=round_off * np.abs(wanted[name]).max())


def test_a_program_is_called_once(heat: ds.Simulation, inputs: dict[str, np.ndarray]) -> None:
    seen = []
    heat.value_and_grad(lambda solution: (seen.append(1), (solution.final["T"] ** 2).sum())[1], inputs, STEPS)
    assert len(seen) == 1


def test_both_kinds_are_certified(heat: ds.Simulation, inputs: dict[str, np.ndarray]) -> None:
    smooth = {"kappa": inputs["kappa"], "T": np.linspace(0, 1, 63).reshape(7, 9)}
    for loss in (program, pair):
        assert ds.certify(heat, loss, smooth, STEPS, directions=1).passed


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        (lambda solution: float((solution.final["T"] ** 2).sum()), DerivativeError, "float"),
        (lambda solution: 3.0, ParameterError, r"loss gave 3.0, expected a number computed from the solution with diffsim.numpy, or"),
        (lambda solution: solution.final["T"], ParameterError, r"loss gave .*, expected a number computed"),
        (lambda solution: (1.0, solution.final), ParameterError, r"loss gave .*, expected a number computed"),
        (lambda solution: None, ParameterError, r"loss gave None, expected a number computed"),
        (lambda solution: solution.nothing, AttributeError, "nothing"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Any, error: type[Exception], message: str, heat: ds.Simulation, inputs: Any) -> None:
    with pytest.raises(error, match=message):
        heat.value_and_grad(loss, inputs, STEPS)


def test_the_value_is_in_the_precision_of_the_simulation() -> None:
    single = ds.Simulation(Heat(ds.Grid((7, 9), 0.5), 0.1), precision="f32")
    fields = {"kappa": np.full((7, 9), 0.3), "T": np.ones((7, 9))}
    value, gradient = single.value_and_grad(lambda solution: (solution.final["T"] ** 2).sum(), fields, STEPS)
    assert value == pytest.approx(63, rel=1e-5) and gradient["T"].dtype == np.float32


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (
            lambda s: s.traces["w"].sum(),
            r"^traces\['w'\] was read, expected one of .*; give receivers of the state to the simulation, or",
        ),
        (
            lambda s: s.final["kapa"].sum(),
            r"^final\['kapa'\] was read, expected one of T; name a state of the equation, or correct the name",
        ),
    ],
)
def test_a_name_that_the_solution_does_not_have(loss: Any, text: str, heat: ds.Simulation, inputs: dict[str, np.ndarray]) -> None:
    with pytest.raises(MissingError, match=text):
        heat.value_and_grad(loss, inputs, 4)
    with pytest.raises(KeyError, match=text):
        loss(heat.run(inputs, 4))


def test_a_key_error_of_the_loss_itself_stays(heat: ds.Simulation, inputs: dict[str, np.ndarray]) -> None:
    with pytest.raises(KeyError, match="mine"):
        heat.value_and_grad(lambda s: s.final["T"].sum() * {}["mine"], inputs, 4)
