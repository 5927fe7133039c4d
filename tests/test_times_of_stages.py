"""The time in rates, operators and projections of a method is that of each stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim import expr, integrators
from diffsim.errors import TraceError
from diffsim.expr import cos, laplacian, sin
from diffsim.integrators import TABLEAUX
from tests.sampled import sampled

EXACT = {"u": 0.07260899019667393, "v": -0.058442213375209315}
"""The solution of `Driven` from u = 1, v = 0.5 after 2 units of time, by DOP853 of SciPy with a tolerance of 1e-13."""
BOUND = {"u": 1.3763498222270978, "v": 0.07829889118574329}
"""The same with u + v = 1 + sin(t) / 2, by the equation of u - v, and cos(3 t) - 1 as the linear part of both."""


class Driven(ds.Equation):
    """u' = 0.3 v² + a cos(3 t) u + (sin(t) - 2) u and v' = sin(2 t + 1) v - u - v by several methods.

    The last terms are the linear part; that of exponential methods has constants alone. If `bound`, u + v is a function of time.
    """

    def __init__(self, methods: Sequence[str], dt: float, bound: bool = False) -> None:
        self.grid, self.dt, self.methods, self.bound = ds.Grid((1,), 1.0), dt, methods, bound
        self.states = {f"{field}_{method}": ds.Variable("mirror") for method in methods for field in "uv"}
        self.parameters = {"a": ds.Variable(axes=())}

    def step(self, t: Any, a: Any, **states: Any) -> dict[str, Any]:
        shared = cos(3.0 * t) - 1.0
        linear = {"u": shared, "v": shared} if self.bound else {"u": sin(t) - 2.0, "v": -1.0}

        def driven(now: Any) -> dict[str, Any]:
            push = ds.stage(ds.stage(sin(2.0 * t + 1.0) * now["v"]) - now["u"])  # the second one reads the first, and no time
            return {"u": 0.3 * now["v"] ** 2 + a * cos(3.0 * t) * now["u"], "v": push}

        def whole(now: Any) -> dict[str, Any]:
            return {name: rate + linear[name] * now[name] for name, rate in driven(now).items()}

        def project(now: Any, dt: Any) -> dict[str, Any]:
            excess = ds.stage(now["u"] + now["v"] - 1.0 - 0.5 * sin(t))
            return {"u": now["u"] - 0.5 * excess, "v": now["v"] - 0.5 * excess}

        later = {}
        for method in self.methods:
            one = {field: states[f"{field}_{method}"] for field in "uv"}
            function, tableau = getattr(integrators, method), TABLEAUX[method]
            parts: list[Any] = [driven, {name: (lambda x, c=c: c * x) for name, c in linear.items()}] if tableau.implicit else [whole]
            if tableau.exponential:
                parts = [lambda now: {name: rate + 2.0 * now[name] for name, rate in whole(now).items()}, {"u": -2.0, "v": -2.0}]
            ends = function(*parts, one, self.dt, **({"project": project} if self.bound else {}))
            later |= {f"{field}_{method}": value for field, value in ends.items()}
        return later


class Lapped(ds.Equation):
    """A rate with a loop that reads the time."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((3,), 1.0), 0.1
        self.states = {"u": ds.Variable("mirror")}

    def step(self, u: Any, t: Any) -> dict[str, Any]:
        return integrators.midpoint(lambda now: {"u": ds.repeat(2, lambda x: 0.5 * x + sin(t) * u, now["u"])}, {"u": u}, self.dt)


def test_a_loop_in_a_rate_that_reads_the_time_is_refused() -> None:
    with pytest.raises(TraceError, match=r"reads t, expected .* store what depends on t with stage\(\) first"):
        ds.Simulation(Lapped())


class Varying(ds.Equation):
    """An exponential method with a linear part that reads the time."""

    def __init__(self, linear: Callable[[Any, Any], Any]) -> None:
        self.grid, self.dt, self._linear = ds.Grid((3,), 1.0), 0.1, linear
        self.states = {"u": ds.Variable("mirror")}

    def step(self, u: Any, t: Any) -> dict[str, Any]:
        return integrators.etdrk2(lambda now: {"u": 0.1 * now["u"] ** 2}, {"u": self._linear(t, u)}, {"u": u}, self.dt)


LINEAR: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda t, u: -sin(t),
    "a stage": lambda t, u: ds.stage(-sin(t) + 0 * u, "mirror"),
    "a stage of a stage": lambda t, u: -2.0 * ds.stage(ds.stage(-sin(t) + 0 * u, "mirror") * u, "mirror"),
    "a number of all cells": lambda t, u: expr.mean(sin(t) + 0 * u),
    "a host stage": lambda t, u: ds.host_stage(lambda x: 1.0 * x, sin(t) + 0 * u, boundary="mirror"),
}


@pytest.mark.parametrize("way", LINEAR)
def test_the_linear_part_of_an_exponential_method_rests_within_a_step(way: str) -> None:
    with pytest.raises(TraceError, match=r"linear\['u'\] reads t, expected .* add what depends on t to the rate"):
        ds.Simulation(Varying(LINEAR[way]))


FREE, BOUND_ONE, ALL = "midpoint etdrk2", "imex_ars222", " ".join(TABLEAUX)


@pytest.mark.parametrize(
    ("names", "bound"),
    sampled([(FREE, False), (BOUND_ONE, True), (ALL, False), (ALL, True)], gate=((FREE, False), (BOUND_ONE, True))),
    ids=["some", "one bound", "all", "all bound"],
)
def test_a_part_of_a_method_that_reads_the_time_is_that_of_each_stage(names: str, bound: bool) -> None:
    """With the time at the beginning of the step in all rates, operators or projections, every method would be of first order."""
    methods = names.split()
    start = {
        f"{field}_{method}": [value]
        for method in methods
        for field, value in (("u", 0.75 if bound else 1.0), ("v", 0.25 if bound else 0.5))
    }

    def after(steps: int, a: float) -> dict[str, float]:
        final = runs[steps].run({**start, "a": a}, steps).final
        return {name: float(value[0]) for name, value in final.items()}

    counts = (40, 80) if bound else (20, 40)
    runs = {steps: ds.Simulation(Driven(methods, 2.0 / steps, bound), wrt=["a"], precision="f64") for steps in counts}
    coarse, fine = (after(steps, 0.8) for steps in counts)
    for method in methods:
        exact = BOUND if bound else EXACT
        errors = [math.hypot(*(run[f"{field}_{method}"] - value for field, value in exact.items())) for run in (coarse, fine)]
        assert math.log2(errors[0] / errors[1]) == pytest.approx(TABLEAUX[method].order, abs=0.4), method
    name = f"u_{methods[-1]}"
    few = counts[0]
    _, gradient = runs[few].value_and_grad(lambda found: found.final[name].sum(), {**start, "a": 0.8}, few)
    assert gradient["a"] == pytest.approx((after(few, 0.8 + 1e-5)[name] - after(few, 0.8 - 1e-5)[name]) / 2e-5, rel=1e-7)


STORED: dict[str, Callable[[Any], Any]] = {
    "mean": expr.mean,
    "max": expr.max,
    "sum": lambda f: ds.stage(0.2 * f * expr.sum(f) / expr.mean(f), "mirror"),
    "host": lambda f: ds.host_stage(lambda x: 1.0 * x, f, boundary="mirror"),
    "solve": lambda f: ds.solve(lambda x: x - 0.1 * laplacian(x), f, boundary="mirror"),
    "newton": lambda f: ds.newton(lambda x: x**3 - f * f * f, f + 0.1, boundary="mirror"),
    "running": lambda f: (
        ds.running_sum(f, 0, boundary="mirror").shifted(0, 1) / ds.running_sum(0 * f + 1, 0, boundary="mirror").shifted(0, 1)
    ),
}
"""Functions that keep a field which is the same in all cells, or a number of them. They store what they read by themselves."""


class Kept(ds.Equation):
    """u' = cos t in each state, of a field that a function keeps in the rate, once before the method too."""

    def __init__(self, steps: int) -> None:
        self.grid, self.dt = ds.Grid((5,), 1.0), 1.0 / steps
        self.states = {name: ds.Variable("mirror") for name in STORED}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, k: Any, t: Any, **states: Any) -> dict[str, Any]:
        early = expr.mean(k * cos(t)) - cos(t)  # 0

        def rate(now: dict[str, Any]) -> dict[str, Any]:
            return {name: keep(k * cos(t)) + 0.0 * now[name] for name, keep in STORED.items()}

        return {name: u + early * k for name, u in integrators.rk4(rate, states, self.dt).items()}


def test_what_a_rate_stores_without_being_told_has_the_time_of_its_stage_too() -> None:
    """The expressions are the same in all stages but for the time, and so was what was kept of them."""
    final = ds.Simulation(Kept(10), wrt=[], precision="f64").run({"k": np.ones(5)}, 10).final
    for name in STORED:
        np.testing.assert_allclose(final[name], math.sin(1.0), rtol=1e-6, err_msg=name)
