"""Results of diffsim can be copied; pickled they are the same again, or name the parts to pickle instead."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.checkpoint import Binomial, Policy
from diffsim.solvers import Heat

X = np.array([0.5, -1.0, 2.0])
GRID = ds.Grid((8, 9), 1.0)
INPUTS = {"kappa": np.full((8, 9), 0.1), "T": np.random.default_rng(1).normal(size=(8, 9))}


def f(x: Any) -> Any:
    return dn.sum(x**3)


def g(x: Any, y: Any) -> Any:
    return dn.sum(x**2 * y), x


def heat() -> ds.Simulation:
    return ds.Simulation(Heat(GRID, 0.1), wrt=("kappa",))


FUNCTIONS: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
    "grad": (lambda: ds.grad(f), (X,)),
    "grad with options": (lambda: ds.grad(g, 1, has_aux=True), (X, X)),
    "value_and_grad": (lambda: ds.value_and_grad(f), (X,)),
    "hessian": (lambda: ds.hessian(f), (X,)),
    "jacobian": (lambda: ds.jacobian(ds.grad(f), mode="columns"), (X,)),
    "jacfwd": (lambda: ds.jacfwd(f), (X,)),
    "jacrev": (lambda: ds.jacrev(f), (X,)),
    "remat": (lambda: ds.remat(f), (X,)),
}


def same(a: Any, b: Any) -> None:
    parts = (a, b) if isinstance(a, tuple) else ((a,), (b,))
    for one, other in zip(*parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_made_of_others(name: str) -> None:
    make, args = FUNCTIONS[name]
    function = make()
    for again in (pickle.loads(pickle.dumps(function)), copy.copy(function), copy.deepcopy([function])[0]):
        same(again(*args), function(*args))


def pullback_of_simulation() -> Any:
    pullback = heat().vjp(INPUTS, 4)[1]
    return lambda: pullback(ds.Solution(final={"T": np.ones((8, 9))}))["kappa"], pullback


def pullback_of_function() -> Any:
    pullback = ds.vjp(f, X)[1]
    return lambda: pullback(1.0)[0], pullback


def linearised() -> Any:
    derivative = ds.linearize(f, X)[1]
    return lambda: derivative(np.ones(3)), derivative


BOUND: dict[str, tuple[Callable[[], Any], str]] = {
    "vjp": (pullback_of_function, "a pullback cannot be pickled.*pickle the function and its arguments, and call ds.vjp there"),
    "linearize": (linearised, "a linearised function cannot be pickled.*pickle the function and its arguments instead"),
    "simulation.vjp": (pullback_of_simulation, "a pullback cannot be pickled.*pickle the simulation and its inputs, and call vjp there"),
}


@pytest.mark.parametrize("name", BOUND)
def test_objects_that_refer_to_a_run_name_the_parts_to_pickle_instead(name: str) -> None:
    make, words = BOUND[name]
    call, result = make()
    with pytest.raises(TypeError, match=words):
        pickle.dumps(result)
    assert copy.copy(result) is result
    assert copy.deepcopy({"pullback": result})["pullback"] is result
    assert np.isfinite(call()).all()


VALUES: dict[str, Callable[[], Any]] = {
    "simulation": heat,
    "equation": lambda: Heat(GRID, 0.1),
    "grid": lambda: GRID,
    "solution": lambda: heat().run(INPUTS, 3),
    "schedule": lambda: Binomial(10, 3),
    "policy": lambda: Policy(slots=3),
    "plan": lambda: ds.plan(heat(), steps=50, memory="10 MB"),
    "tape": lambda: ds.show_tape(f, X),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_copied_and_pickled(name: str) -> None:
    value = VALUES[name]()
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert type(again) is type(value)


def test_methods_may_be_transformed() -> None:
    class Model:
        k = 2.0

        @ds.remat
        def value(self, x: Any) -> Any:
            return dn.sum(self.k * x)

    np.testing.assert_array_equal(ds.grad(Model().value)(X), [2.0, 2.0, 2.0])
    assert repr(ds.grad(f)) == "<grad of f>"
