"""Objects and plain functions that Taichi asks when it compiles: the next call sees a change, a derivative refuses it."""

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import StaleValueError
from tests.language import ti

Array1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
X = np.array([1.0, 2.0])
K, POWERS = 2.0, np.array([2.0, 1.0])
PLACE = SimpleNamespace(k=2.0, inner=SimpleNamespace(k=2.0))


class Thing:
    def __init__(self) -> None:
        self.k, self.parts = 2.0, [SimpleNamespace(k=2.0)]

    def of_self(self) -> float:
        return self.k

    def of_global(self) -> float:
        return K


class WithProperty:
    @property
    def of_property(self) -> float:
        return K


class WithStatic:
    @staticmethod
    def of_nothing() -> float:
        return K


THING, WITH_PROPERTY, WITH_STATIC = Thing(), WithProperty(), WithStatic()


def of_global() -> float:
    return K


def of_array() -> float:
    return float(POWERS[0])


def of_other() -> float:
    return of_global()


def make(k: float) -> tuple[Callable[[], float], Callable[[float], None]]:
    def read() -> float:
        return k

    def assign(value: float) -> None:
        nonlocal k
        k = value

    return read, assign


of_closure, set_closure = make(2.0)
BOUND = partial(lambda thing: thing.k, PLACE)
TABLE = {"f": of_global, "things": [PLACE]}


def count() -> int:
    return int(K)


@ti.func
def scaled(v, thing: ti.template()):
    return thing.k * v


@ti.func
def asked(v, thing: ti.template()):
    return ti.static(thing.of_global()) * v


@ti.func
def seen(v, thing: ti.template()):
    return thing.of_property * v


@ti.func
def stated(v, thing: ti.template()):
    return ti.static(thing.of_nothing()) * v


@ti.func
def outer(v):
    return scaled(v, PLACE)


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_function(x: Array1, y: Array1):
    for i in x:
        y[i] = ti.static(of_other()) * x[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_array(x: Array1, y: Array1):
    for i in x:
        y[i] = ti.static(of_array()) * x[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_closure(x: Array1, y: Array1):
    for i in x:
        y[i] = ti.static(of_closure()) * x[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_partial(x: Array1, y: Array1):
    for i in x:
        y[i] = ti.static(BOUND()) * x[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_method(x: Array1, y: Array1):
    for i in x:
        y[i] = ti.static(THING.of_self()) * x[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_entry(x: Array1, y: Array1):
    for i in x:
        y[i] = ti.static(TABLE["f"]()) * x[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_range(x: Array1, y: Array1):
    for i in x:
        for _ in ti.static(range(count())):
            y[i] += x[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_template(x: Array1, y: Array1):
    for i in x:
        y[i] = scaled(x[i], THING)


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_attribute(x: Array1, y: Array1):
    for i in x:
        y[i] = scaled(x[i], PLACE.inner)


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_part(x: Array1, y: Array1):
    for i in x:
        y[i] = scaled(x[i], THING.parts[0])


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_method_of_template(x: Array1, y: Array1):
    for i in x:
        y[i] = asked(x[i], THING)


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_property_of_template(x: Array1, y: Array1):
    for i in x:
        y[i] = seen(x[i], WITH_PROPERTY)


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_static_method(x: Array1, y: Array1):
    for i in x:
        y[i] = stated(x[i], WITH_STATIC)


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_called(x: Array1, y: Array1):
    for i in x:
        y[i] = outer(x[i])


def set_global(value: float) -> None:
    globals()["K"] = value


def attribute(thing: Any) -> Callable[[float], None]:
    return lambda value: setattr(thing, "k", value)


CHANGES: dict[Any, Callable[[float], None]] = {
    by_function: set_global,
    by_array: lambda value: POWERS.fill(value),
    by_closure: set_closure,
    by_partial: attribute(PLACE),
    by_method: attribute(THING),
    by_entry: set_global,
    by_range: set_global,
    by_template: attribute(THING),
    by_attribute: attribute(PLACE.inner),
    by_part: attribute(THING.parts[0]),
    by_method_of_template: set_global,
    by_property_of_template: set_global,
    by_static_method: set_global,
    by_called: attribute(PLACE),
}
"""Kernels, and what changes the one thing that each of them reads."""


def set_all(value: float) -> None:
    for change in CHANGES.values():
        change(value)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    set_all(2.0)
    yield
    set_all(2.0)


@pytest.mark.parametrize("kernel", CHANGES, ids=lambda k: k.__name__)
def test_a_change_after_the_call_is_refused_and_the_next_call_sees_it(kernel: Any) -> None:
    def loss(x: Any) -> Any:
        y = kernel(x)
        CHANGES[kernel](3.0)
        return dnp.sum(y)

    np.testing.assert_array_equal(ds.grad(lambda x: dnp.sum(kernel(x)))(X), [2.0, 2.0])
    with pytest.raises(StaleValueError, match="which was changed itself or in a part after the kernel was called"):
        ds.grad(loss)(X)
    np.testing.assert_array_equal(kernel(X), 3.0 * X)
    np.testing.assert_array_equal(ds.grad(lambda x: dnp.sum(kernel(x)))(X), [3.0, 3.0])


def test_a_rule_by_hand_that_calls_such_a_kernel_is_refused_too() -> None:
    f = ds.custom_vjp(lambda x: 2.0 * x)
    f.defvjp(lambda x: (2.0 * x, None), lambda residual, ct: (by_function(ct),))

    def loss(x: Any) -> Any:
        y = f(x)
        set_global(3.0)
        return dnp.sum(y)

    np.testing.assert_array_equal(ds.grad(lambda x: dnp.sum(f(x)))(X), [2.0, 2.0])
    with pytest.raises(StaleValueError, match="derivative given by hand reads"):
        ds.grad(loss)(X)
