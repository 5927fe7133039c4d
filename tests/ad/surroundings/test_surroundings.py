"""Values that rules by hand and kernels read from outside, in any holder, and by any kind of callable."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import StaleValueError
from tests.language import ti

Array1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
X = np.array([1.0, 2.0])
K = 2.0
SCALE = np.array([1.0, 2.0])
PLACE = SimpleNamespace(k=2.0, SCALE=3.0, inner=SimpleNamespace(k=2.0))
NUMBERS = {"k": 2.0, "f": len}
LIST = [2.0, 7.0]


def edit_array(array: np.ndarray) -> Callable[[], None]:
    return lambda: array.fill(5.0)


def plain(k: np.ndarray, residual: Any, ct: Any) -> Any:
    return (ct * k,)


class Rule:
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.k, self.slot, self.count = 2.0, 2.0, 0

    @property
    def seen(self) -> float:
        return self.k

    def helper(self) -> float:
        return self.k

    def method(self, residual: Any, ct: Any) -> Any:
        self.count += 1
        return (ct * self.k,)

    def through_property(self, residual: Any, ct: Any) -> Any:
        return (ct * self.seen,)

    def through_slot(self, residual: Any, ct: Any) -> Any:
        return (ct * self.slot,)

    def through_method(self, residual: Any, ct: Any) -> Any:
        return (ct * self.helper(),)

    def through_another_name(self, residual: Any, ct: Any) -> Any:
        other = self
        return (ct * other.k,)

    def through_lambda(self, residual: Any, ct: Any) -> Any:
        return ((lambda: ct * self.k)(),)

    __call__ = method


def change(thing: Any, name: str) -> Callable[[], None]:
    return lambda: setattr(thing, name, 5.0)


def of_rule(choose: Callable[[Rule], Any], name: str = "k") -> tuple[Any, Callable[[], None]]:
    rule = Rule()
    return choose(rule), change(rule, name)


def of_array(make: Callable[[np.ndarray], Any]) -> tuple[Any, Callable[[], None]]:
    k = np.array([2.0])
    return make(k), edit_array(k)


def with_default(k: np.ndarray) -> Any:
    def rule(residual: Any, ct: Any, k: Any = k) -> Any:
        k = ct * k
        return (k,)

    return rule


class Wrapper:
    def __init__(self, rule: Any) -> None:
        functools.update_wrapper(self, rule)

    def __call__(self, *args: Any) -> Any:
        return self.__wrapped__(*args)  # type: ignore[attr-defined]


def wrapped(k: np.ndarray) -> Any:
    return Wrapper(lambda residual, ct: (ct * k,))


def decorated(k: np.ndarray) -> Any:
    @functools.wraps(plain)
    def outer(*args: Any) -> Any:
        return plain(k, *args)

    return outer


SETTINGS: Any = ModuleType("settings_of_this_test")
SETTINGS.k = 2.0
sys.modules[SETTINGS.__name__] = SETTINGS


def by_import(residual: Any, ct: Any) -> Any:
    import settings_of_this_test  # type: ignore[import-not-found]

    return (ct * settings_of_this_test.k,)


def by_import_from(residual: Any, ct: Any) -> Any:
    from settings_of_this_test import k

    return (ct * k,)


def by_alias(residual: Any, ct: Any) -> Any:
    settings = SETTINGS
    return (ct * settings.k,)


def of_derivative(function: Any) -> Any:
    return lambda residual, ct: (ct * function(1.0),)


def by_helper(k: np.ndarray) -> Any:
    def helper() -> Any:
        return k

    return lambda residual, ct: (ct * helper(),)


def of_record(rule: Any, record: Any, key: Any) -> tuple[Any, Callable[[], None]]:
    return rule, lambda: record.__setitem__(key, 5.0)


@ds.kernel(reads=("x",), writes={"y": "x"})
def by_number(x: Array1, y: Array1):
    for i in x:
        y[i] = K * x[i]


def set_number() -> None:
    globals()["K"] = 5.0


WATCHED: dict[str, Callable[[], tuple[Any, Callable[[], None]]]] = {
    "partial": lambda: of_array(lambda k: functools.partial(plain, k)),
    "partial of a partial": lambda: of_array(lambda k: functools.partial(functools.partial(plain, k))),
    "partial by name": lambda: of_array(lambda k: functools.partial(lambda residual, ct, k: (ct * k,), k=k)),
    "partial of a closure": lambda: of_array(lambda k: functools.partial(lambda tag, residual, ct: (ct * k,), "t")),
    "default": lambda: of_array(with_default),
    "wrapped object": lambda: of_array(wrapped),
    "decorated": lambda: of_array(decorated),
    "helper": lambda: of_array(by_helper),
    "method": lambda: of_rule(lambda rule: rule.method),
    "callable": lambda: of_rule(lambda rule: rule),
    "property": lambda: of_rule(lambda rule: rule.through_property),
    "slot": lambda: of_rule(lambda rule: rule.through_slot, "slot"),
    "method of a method": lambda: of_rule(lambda rule: rule.through_method),
    "self by another name": lambda: of_rule(lambda rule: rule.through_another_name),
    "self in a lambda": lambda: of_rule(lambda rule: rule.through_lambda),
    "attribute": lambda: (lambda residual, ct: (ct * PLACE.k,), change(PLACE, "k")),
    "attribute of an attribute": lambda: (lambda residual, ct: (ct * PLACE.inner.k,), change(PLACE.inner, "k")),
    "entry of a dict": lambda: of_record(lambda residual, ct: (ct * NUMBERS["k"],), NUMBERS, "k"),
    "entry of a list": lambda: of_record(lambda residual, ct: (ct * LIST[0],), LIST, 0),
    "import in a rule": lambda: (by_import, change(SETTINGS, "k")),
    "name from an import in a rule": lambda: (by_import_from, change(SETTINGS, "k")),
    "module by another name": lambda: (by_alias, change(SETTINGS, "k")),
    "derivative": lambda: of_array(lambda k: of_derivative(ds.grad(lambda x: dnp.sum(k * x)))),
    "remat": lambda: of_array(lambda k: of_derivative(ds.remat(lambda x: dnp.sum(k) + 0.0 * x))),
    "kernel in a rule": lambda: (lambda residual, ct: (by_number(ct),), set_number),
}


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    yield
    SETTINGS.k = PLACE.k = PLACE.inner.k = NUMBERS["k"] = LIST[0] = globals()["K"] = 2.0


@pytest.mark.parametrize("way", WATCHED)
def test_a_rule_that_reads_what_was_changed_is_refused(way: str) -> None:
    rule, edit = WATCHED[way]()
    f = ds.custom_vjp(lambda x: 2.0 * x)
    f.defvjp(lambda x: (2.0 * x, None), rule)

    def edited(x: Any) -> Any:
        y = f(x)
        edit()
        return dnp.sum(y)

    np.testing.assert_array_equal(ds.grad(lambda x: dnp.sum(f(x) + f(x)))(X), [4.0, 4.0])
    with pytest.raises(StaleValueError, match="derivative given by hand reads"):
        ds.grad(edited)(X)


class Box:
    def __init__(self, part: Any) -> None:
        self.part = part


@dataclass
class Record:
    part: Any


HOLDERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "namespace": (lambda part: SimpleNamespace(part=part, name="water"), ".part"),
    "object": (Box, ".part"),
    "record": (Record, ".part"),
    "dict": (lambda part: {"part": part, "f": len}, "['part']"),
    "list": (lambda part: [len, part], "[1]"),
    "tuple": (lambda part: (part, len), "[0]"),
}
"""Holder of a part -> how it is made, and the source that reads the part."""


@pytest.mark.parametrize("inner", ["namespace", "object", "record", "dict", "list"])
@pytest.mark.parametrize("middle", HOLDERS)
@pytest.mark.parametrize("outer", HOLDERS)
def test_numbers_are_watched_at_any_depth(outer: str, middle: str, inner: str) -> None:
    held: Any = HOLDERS[inner][0](2.0)
    key, edited, root = HOLDERS[inner][1], held, held
    for holder in (middle, outer):
        root, key = HOLDERS[holder][0](root), HOLDERS[holder][1] + key
    f = ds.custom_vjp(lambda x: 2.0 * x)
    f.defvjp(lambda x: (2.0 * x, None), eval(f"lambda residual, ct: (ct * root{key},)", {"root": root}))
    np.testing.assert_array_equal(ds.grad(lambda x: dnp.sum(f(x)))(X), [2.0, 2.0])

    def loss(x: Any) -> Any:
        y = f(x)
        exec(f"held{HOLDERS[inner][1]} = 5.0", {"held": edited})
        return dnp.sum(y)

    with pytest.raises(StaleValueError, match="derivative given by hand reads root"):
        ds.grad(loss)(X)


def counting() -> dict[str, tuple[Any, Any]]:
    """Rules that count, and what both rules do for that."""
    log: list[Any] = []
    counts = {"n": 0}
    place = SimpleNamespace(n=0)

    def entry(*_: Any) -> None:
        counts["n"] += 1

    def attribute(*_: Any) -> None:
        place.n += 1
        place.last = 7.0

    return {"append": (lambda *_: log.append(1.0), None), "entry": (entry, None), "attribute": (attribute, None)}


@pytest.mark.parametrize("way", counting())
def test_rules_may_count(way: str) -> None:
    count = counting()[way][0]
    f = ds.custom_vjp(lambda x: 2.0 * x)
    f.defvjp(lambda x: (count(), (2.0 * x, None))[1], lambda residual, ct: (count(), (2.0 * ct,))[1])
    np.testing.assert_array_equal(ds.grad(lambda x: dnp.sum(f(x) + f(x)))(X), [4.0, 4.0])


def test_an_attribute_is_no_global_of_its_name() -> None:
    f = ds.custom_vjp(lambda x: x * PLACE.SCALE)
    f.defvjp(lambda x: (x * PLACE.SCALE, None), lambda residual, ct: (ct * PLACE.SCALE,))

    def loss(x: Any) -> Any:
        y = f(x)
        globals()["SCALE"] = SCALE + 1
        return dnp.sum(y)

    np.testing.assert_array_equal(ds.grad(loss)(X), [3.0, 3.0])


class Cfg:
    k = 2.0


@dataclass(frozen=True)
class Frozen:
    k: float


CFG, FROZEN, NESTED, STEPS = Cfg(), Frozen(2.0), SimpleNamespace(frozen=Frozen(2.0), k=1.0), 2


@ds.kernel(reads=("x",), writes={"y": "x"})
def of_class(x: Array1, y: Array1):
    for i in x:
        y[i] = CFG.k * x[i] * ti.math.pi / ti.math.pi


@ds.kernel(reads=("x",), writes={"y": "x"})
def of_frozen(x: Array1, y: Array1):
    for i in x:
        y[i] = FROZEN.k * x[i]


@ds.kernel(reads=("x", "unused"), writes={"y": "x"})
def of_nested(x: Array1, unused: float, y: Array1):
    for i in x:
        y[i] = NESTED.k * NESTED.frozen.k * x[i] + 0.0 * unused


@ti.func
def inner(v):
    return FROZEN.k * v


TOOLS = SimpleNamespace(inner=inner)


@ti.func
def outer(v):
    return TOOLS.inner(v)


@ds.kernel(reads=("x",), writes={"y": "x"})
def of_functions(x: Array1, y: Array1):
    for i in x:
        y[i] = outer(x[i])


@ds.kernel(reads=("x",), writes={"y": "x"})
def of_static(x: Array1, y: Array1):
    for i in x:
        for _ in ti.static(range(STEPS)):
            y[i] += x[i]


def set_class(value: Any) -> None:
    Cfg.k = value


def set_frozen(value: Any) -> None:
    globals()["FROZEN"] = Frozen(value)


def set_nested(value: Any) -> None:
    NESTED.frozen = Frozen(value)


def set_steps(value: Any) -> None:
    globals()["STEPS"] = int(value)


def evaluated_nested(x: Any) -> Any:
    return of_nested(x, np.sum(x))


CAPTURES: dict[str, tuple[Any, Callable[[float], None]]] = {
    "class": (of_class, set_class),
    "frozen": (of_frozen, set_frozen),
    "nested, with a number's derivative": (evaluated_nested, set_nested),
    "functions": (of_functions, set_frozen),
    "static": (of_static, set_steps),
}


@pytest.mark.parametrize("way", CAPTURES)
def test_a_kernel_has_the_numbers_of_the_call_and_no_derivative_after_a_change(way: str) -> None:
    kernel, assign = CAPTURES[way]

    def loss(x: Any) -> Any:
        y = kernel(x)
        assign(3.0)
        return dnp.sum(y)

    assign(2.0)
    with pytest.raises(StaleValueError, match="changed itself or in a part after the kernel was called"):
        ds.grad(loss)(X)
    for value in (3.0, 7.0):
        assign(value)
        np.testing.assert_allclose(kernel(X), value * X, rtol=1e-14)
        np.testing.assert_allclose(ds.grad(lambda x: dnp.sum(kernel(x)))(X), [value, value], rtol=1e-14)


@ds.kernel(reads=("x",), writes={"y": "x"})
def waiting(x: Array1, y: Array1):
    for i in x:
        y[i] = K * x[i]


@waiting.adjoint
def waits(inputs: Any, outputs: Any, cotangents: Any) -> Any:
    thread = threading.Thread(target=lambda: SEEN.append(by_number(X)), daemon=True)
    thread.start()
    thread.join(20.0)
    return 2.0 * cotangents[0]


SEEN: list[Any] = []


@pytest.mark.parametrize("order", [1, 2])
def test_other_threads_run_kernels_while_a_hand_adjoint_runs(order: int) -> None:
    SEEN.clear()
    f = lambda x: dnp.sum(waiting(x) ** order)  # noqa: E731
    gradient = ds.grad(f)(X)
    np.testing.assert_array_equal(gradient, 2.0 * np.ones(2) if order == 1 else 8.0 * X)
    np.testing.assert_array_equal(SEEN, [2.0 * X])
