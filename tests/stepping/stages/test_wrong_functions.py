"""Functions of users that take or return something else than expected: each caller of one refuses each wrong form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators
from diffsim.errors import DiffsimError, MissingError, ShapeError, SingularError, TraceError
from diffsim.expr import laplacian, log, sqrt

GRID = ds.Grid((6,), 1.0)
Fields = dict[str, Any]


def stepped(step: Callable[..., Fields], *states: str) -> None:
    """Trace a step with these states."""

    class Slip(ds.Equation):
        grid, dt = GRID, 0.1

        def __init__(self) -> None:
            self.states = {name: ds.Variable("mirror") for name in states}

    Slip.step = step  # type: ignore[method-assign]
    Slip.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    ds.Simulation(Slip(), precision="f64")


def steady_of(residual: Callable[..., Any], *states: str) -> Any:
    """The simulation of a steady problem with these states and the parameter k."""
    declared = {"states": {name: ds.Variable("zero") for name in states}, "parameters": {"k": ds.Variable("mirror")}}
    return ds.steady(type("Wall", (ds.Steady,), {"residual": residual, "grid": GRID, **declared})(), precision="f64")


def decay(now: Fields) -> Fields:
    return {name: -u for name, u in now.items()}


CALLERS: dict[str, tuple[int, Callable[[Any], None]]] = {
    "newton": (1, lambda f: stepped(lambda self, u: {"u": ds.newton(f, u)}, "u")),
    "newton of two": (2, lambda f: stepped(lambda self, u, v: dict(zip("uv", ds.newton(f, (u, v)), strict=True)), "u", "v")),
    "newton of a dict": (1, lambda f: stepped(lambda self, u, v: ds.newton(f, {"u": u, "v": v}), "u", "v")),
    "solve": (1, lambda f: stepped(lambda self, u: {"u": ds.solve(f, u)}, "u")),
    "solve of two": (2, lambda f: stepped(lambda self, u, v: dict(zip("uv", ds.solve(f, (u, v)), strict=True)), "u", "v")),
    "repeat": (1, lambda f: stepped(lambda self, u: {"u": ds.repeat(3, f, u)}, "u")),
    "repeat of two": (2, lambda f: stepped(lambda self, u, v: dict(zip("uv", ds.repeat(3, f, u, v), strict=True)), "u", "v")),
    "rk4": (1, lambda f: stepped(lambda self, u: integrators.rk4(f, {"u": u}, 0.1), "u")),
    "project": (2, lambda f: stepped(lambda self, u: integrators.rk4(decay, {"u": u}, 0.1, project=f), "u")),
    "operator": (1, lambda f: stepped(lambda self, u: integrators.imex_euler(decay, {"u": f}, {"u": u}, 0.1), "u")),
}
"""Callers of a function, with its number of arguments."""


@pytest.mark.parametrize("caller", CALLERS)
def test_a_function_of_another_number_of_arguments(caller: str) -> None:
    count, call = CALLERS[caller]
    for names in ([], ["a"], ["a", "b"], ["a", "b", "c"]):
        if len(names) == count:
            continue
        with pytest.raises(
            TraceError, match=rf"takes \({', '.join(names)}\), expected a function of {count} arguments?, \(.*\); write one"
        ):
            call(eval(f"lambda {', '.join(names)}: None"))


RESULTS: dict[str, Any] = {"nothing": None, "a text": "u", "an array": np.ones(6), "a set": {1.0}, "an object": object()}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("result", RESULTS)
def test_a_function_that_returns_no_expression(caller: str, result: str) -> None:
    _, call = CALLERS[caller]
    value = RESULTS[result]
    for wrong in (value, {"u": value}, {"u": value, "v": value}, (value,), (value, value), (value,) * 3, {"w": value}):
        with pytest.raises(DiffsimError, match=r"expected .*; \w+"):
            call(lambda *arguments, wrong=wrong: wrong)


@pytest.mark.parametrize("residual", [lambda x, y: (x, y), lambda T, U, q: (T, U), lambda T, U, *rest: (T, U)], ids=["x y", "q", "rest"])
def test_a_residual_that_asks_for_other_fields(residual: Callable[..., Any]) -> None:
    names = [*residual.__code__.co_varnames[: residual.__code__.co_argcount]]
    wrong = [name for name in names if name not in ("T", "U", "k")] or ["rest"]
    text = f"lambda self, {', '.join([*names, *(['*rest'] if wrong == ['rest'] else [])])}: (T, U)"
    with pytest.raises(TraceError, match=rf"Wall.residual\(\) (asks for {', '.join(wrong)}|has \*rest), expected .*T.*U|names of fields"):
        steady_of(eval(text), "T", "U")


def test_names_that_are_asked_for_one_by_one() -> None:
    """In a dict of fields, or in `**others`."""
    for call in (
        lambda f: stepped(lambda self, u: integrators.rk4(f, {"u": u}, 0.1), "u"),
        lambda f: stepped(lambda self, u: ds.newton(f, {"u": u}), "u"),
        lambda f: stepped(lambda self, u: integrators.rk4(decay, {"u": u}, 0.1, project=lambda now, dt: f(now)), "u"),
    ):
        with pytest.raises(MissingError, match="asks for 'w', expected one of u; correct the name"):
            call(lambda now: {"u": now["w"]})
        with pytest.raises(KeyError):  # as Python's own
            call(lambda now: {"u": now["w"]})
    with pytest.raises(TraceError, match=r"step\(\) raised KeyError: 'w'; if it asks \*\*others for this field, expected some of u, which"):
        stepped(lambda self, **others: {"u": others["w"]}, "u")
    with pytest.raises(TraceError, match=r"Wall.residual\(\) raised KeyError: 'w'; .* expected some of k, T, which the equation has"):
        steady_of(lambda self, T, **others: others["w"] * T, "T")
    with pytest.raises(KeyError, match="mine"):  # of no field that the function could have meant
        stepped(lambda self, u: {"u": u * {}["mine"]}, "u")


def test_rates_of_an_ode() -> None:
    x, y = "x", "y"
    slips: list[tuple[Callable[..., Any], str]] = [
        (lambda x, y: {"x": y, "y": x}, "rates returned a dict of x, y, expected 2 rates, of x, y; return a tuple"),
        (lambda x, y: (y,), "rates returned 1 rate, expected 2 rates, of x, y"),
        (lambda x, y: (y, x, x), "rates returned 3 rates, expected 2 rates, of x, y"),
        (lambda x, y: y, "rates returned one expression, expected 2 rates, of x, y"),
        (lambda x, y: None, "rates returned None, expected 2 rates"),
        (lambda x, y: (y, None), "the rate of y is None, expected an expression of the step"),
        (lambda x, y: ("a", x), "the rate of x is 'a', expected an expression of the step"),
    ]
    for rates, message in slips:
        for method in ("rk4", "euler", "dopri5"):
            with pytest.raises(DiffsimError, match=message):
                ds.Simulation(ds.ODE(rates, 0.1, method=method)).run({x: 1.0, y: 2.0}, steps=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "number", [3, 3.0, *(kind(3) for kind in (np.float64, np.float32, np.int64, np.uint8)), np.array(3.0), np.array(3)], ids=repr
)
def test_any_number_may_be_a_result(number: Any) -> None:
    """A rate, an operator and a step may return one of Python, of NumPy, or an array of NumPy without an axis."""
    for method in ("rk4", "euler", "dopri5"):
        run = ds.Simulation(ds.ODE(lambda x, y: (number, x), 0.25, method=method), precision="f64")
        assert run.run({"x": 1.0, "y": 2.0}, steps=4).final["x"] == pytest.approx(4.0, rel=1e-14)
    stepped(lambda self, u: {"u": number}, "u")
    with pytest.raises(TraceError, match="has a part without its argument"):  # which is said of an operator that is read
        stepped(lambda self, u: integrators.imex_euler(lambda now: {"u": number}, {"u": lambda u: number}, {"u": u}, 0.1), "u")


@pytest.mark.parametrize("wrong", [np.array([3.0]), np.array("3"), np.array(True), np.bool_(True), np.array(3j)], ids=repr)
def test_what_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(TraceError, match=r"the rate of x is .*, expected an expression"):
        ds.Simulation(ds.ODE(lambda x: wrong, 0.25))
    with pytest.raises(TraceError, match=r"u is a .*, expected an expression"):
        stepped(lambda self, u: {"u": wrong}, "u")


@pytest.mark.parametrize("shape", [(6,), (5, 6), (4, 5, 6)])
@pytest.mark.parametrize("fields", [2, 3])
def test_a_tuple_of_rules_is_for_axes(shape: tuple[int, ...], fields: int) -> None:
    """A tuple of as many rules as fields is refused, unless there are as many axes; the message has the list to write."""
    names = "uvw"[:fields]
    rules = ["mirror", "zero", "mirror"][:fields]

    def step(self: Any, boundary: Any, keyed: bool, now: Fields) -> Fields:
        if keyed:
            return ds.newton(lambda x: {name: x[name] - now[name] for name in names}, now, boundary=boundary)
        results = ds.newton(
            lambda *x: tuple(a - now[name] for a, name in zip(x, names, strict=True)), tuple(now.values()), boundary=boundary
        )
        return dict(zip(names, results, strict=True))

    def traced(boundary: Any, keyed: bool) -> None:
        states = {name: ds.Variable("mirror") for name in names}
        attributes = {
            "grid": ds.Grid(shape, 1.0),
            "dt": 0.1,
            "states": states,
            "step": lambda self, **now: step(self, boundary, keyed, now),
        }
        ds.Simulation(type("Two", (ds.Equation,), attributes)(), precision="f64")

    for keyed in (False, True):
        if len(shape) != fields:
            remedy = "a dict with these keys" if keyed else re.escape(f"a list, {rules}")
            with pytest.raises(
                ShapeError, match=rf"has {fields} entries.*A tuple has an entry for each axis; .* each of .*write {remedy}$"
            ):
                traced(tuple(rules), keyed)
        else:
            traced(tuple(rules), keyed)
        traced(dict(zip(names, rules, strict=True)) if keyed else rules, keyed)
    with pytest.raises(TraceError, match=r"boundary of newton\(\) is a dict, expected a rule or a list with one for each of"):
        traced(dict(zip(names, rules, strict=True)), keyed=False)


STEADY_SLIPS: dict[str, tuple[Callable[..., Any], tuple[str, ...], str]] = {
    "log": (lambda self, T, k: log(T) + laplacian(T) + k, ("T",), r"the log of T = 0, which is -inf, in cell \(0,\), in the residual of T"),
    "log of one of two": (
        lambda self, T, U, k: (laplacian(T) - k, log(U) + T),
        ("T", "U"),
        r"the log of U = 0, which is -inf, in cell \(0,\), in the residual of U",
    ),
    "quotient": (lambda self, T, k: 1 / T + k, ("T",), r"the quotient of 1 and T = 0, which is inf, in cell \(0,\), in the residual of T"),
    "root": (
        lambda self, T, k: sqrt(T) + k,
        ("T",),
        r"which is inf, where T = 0, in cell \(0,\), in the derivative of the residual of T for T",
    ),
    "neighbour": (
        lambda self, T, k: log(T.shifted(0, 1)) + k,
        ("T",),
        r"the log of T of a neighbour = 0, which is -inf, in cell \(0,\), in the residual of T",
    ),
}


@pytest.mark.parametrize("slip", STEADY_SLIPS)
def test_an_operation_without_a_value_at_the_guess(slip: str) -> None:
    residual, states, message = STEADY_SLIPS[slip]
    simulation = steady_of(residual, *states)
    with pytest.raises(
        ds.errors.ConvergenceError, match=rf"in the steady problem Wall, newton for .*{message}; give another initial state"
    ):
        simulation.run({"k": np.ones(6)})


def test_a_part_of_the_inputs_alone_is_no_matter_of_the_guess() -> None:
    simulation = steady_of(lambda self, T, k: T**3 * log(k - 1) + T, "T")
    with pytest.raises(
        ds.errors.ConvergenceError, match=r"a part without T = -inf in cell \(0,\).*; correct the fields that it is computed"
    ):
        simulation.run({"k": np.ones(6)})


SCALES: dict[str, tuple[Callable[..., Any], str, str]] = {
    "of a field": (lambda u, lam: lam * u, "zero", "an operator"),
    "of a Laplacian": (lambda u, lam: lam * laplacian(u), "zero", "an operator"),
    "of a Laplacian that leaves constants": (lambda u, lam: lam * laplacian(u), "mirror", "an operator"),
    "of all terms": (lambda u, lam: lam * (u - laplacian(u)), "periodic", "an operator"),
}


@pytest.mark.parametrize("method", ["auto", "direct", "cg", "bicgstab", "lu"])
@pytest.mark.parametrize("case", SCALES)
def test_a_coefficient_of_0_that_leaves_no_operator(case: str, method: Any) -> None:
    """It is named as the cause, in place of sides and means, in one system and as one equation of two."""
    operator, boundary, what = SCALES[case]

    class Scaled(ds.Equation):
        grid, dt = ds.Grid((6, 7), 1.0), 0.1
        states = {"u": ds.Variable("mirror")}  # noqa: RUF012
        parameters = {"lam": ds.Variable(axes=())}  # noqa: RUF012

        def step(self, u: Any, lam: Any) -> Fields:
            return {"u": ds.solve(lambda x: operator(x, lam), u, boundary, method)}

    class Both(Scaled):
        def step(self, u: Any, lam: Any) -> Fields:
            x, _ = ds.solve(lambda x, y: (operator(x, lam), y - x), (u, u), boundary, "lu" if method == "direct" else method)
            return {"u": x}

    inputs = {"u": np.random.default_rng(0).normal(size=(6, 7)), "lam": 0.0}
    for equation, name in ((Scaled(), what), (Both(), "an equation of x")):
        with pytest.raises(
            SingularError, match=rf"in step 0, solve for .*: expected {name} with weights that are not all 0, got 0 everywh"
        ):
            ds.Simulation(equation, precision="f64").run(inputs, steps=1)


def test_a_steady_problem_has_no_steps() -> None:
    """Whatever fails in it: a linear system, Newton's method, and their transposes; of one field and of two."""
    open_ = lambda self, T, k: laplacian(T) + k  # noqa: E731
    declared = {"states": {"T": ds.Variable("mirror")}, "parameters": {"k": ds.Variable("mirror")}, "grid": GRID}
    cases = [
        (ds.steady(type("Wall", (ds.Steady,), {"residual": open_, **declared})(), precision="f64"), "solve for T"),
        (steady_of(lambda self, T, k: T * T + k, "T"), "newton for T"),
        (steady_of(lambda self, T, U, k: (T * U + k, T + U - k), "T", "U"), "newton for T, U"),
        (steady_of(lambda self, T, U, k: (T - U + k, T - U), "T", "U"), "solve for T, U"),
    ]
    for simulation, name in cases:
        with pytest.raises(DiffsimError) as caught:
            simulation.run({"k": np.ones(6)})
        text = str(caught.value)
        assert text.startswith(f"in the steady problem Wall, {name}: ") and "step" not in text.replace("in steps", ""), text
