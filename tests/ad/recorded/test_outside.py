"""Replays against plain calls after a change of what a function takes from outside, edits, decides by, or warns about."""

from __future__ import annotations

import collections
import copy
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np

X = numpy.arange(1.0, 4.0)
Change = tuple[Callable[..., Any], Callable[[], object], tuple[Any, ...]]
"""A function, a change of what it takes from outside, and its arguments after the first."""


@dataclass
class Layer:
    weight: Any = 2.0
    inner: Any = None

    def __call__(self, x: Any) -> Any:
        return self.weight * x


class Base:
    factor = 2.0

    def scaled(self, x: Any) -> Any:
        return self.factor * x


class Model(Base):
    def __init__(self) -> None:
        self.part, self.layers, self.simulation = Layer(2.0, Layer(3.0)), [Layer(), Layer()], heat(0.1)
        self.hidden, self.function = {"late": 2.0}, lambda x: 2.0 * x

    def __getitem__(self, key: str) -> Any:
        return self.hidden[key]

    def __rmul__(self, other: Any) -> Any:
        return other * self.hidden["late"]

    @property
    def doubled(self) -> Any:
        return 2 * self.hidden["late"]

    def by_super(self, x: Any) -> Any:
        return super().scaled(x)

    def by_class(self, x: Any) -> Any:
        return type(self).factor * x

    def by_helper(self, x: Any) -> Any:
        return helper(self, x)

    def by_alias(self, x: Any) -> Any:
        part = self.part
        inner = part.inner
        return inner.weight * x

    def run(self, x: Any) -> Any:
        return self.simulation.run({"T": x, "kappa": numpy.full(3, 0.3)}, 3).final["T"]


class Late:
    def __init__(self) -> None:
        self.hidden = {"weight": 2.0}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["hidden"][name]


class Owner:
    def __init__(self, weight: Any, notes: dict[str, Any]) -> None:
        self.weight, self.notes = weight, notes


ds.register_pytree(Owner, lambda o: ((o.weight,), o.notes), lambda notes, children: Owner(children[0], notes))


@dataclass
class Weighted:
    weight: Any
    factor = 2.0

    def applied(self, x: Any) -> Any:
        return self.factor * GLOBAL * self.weight * x


GLOBAL = 2.0


def reset() -> None:
    global GLOBAL
    GLOBAL, Base.factor, Weighted.factor = 2.0, 2.0, 2.0  # type: ignore[misc]


def rebind() -> None:
    global GLOBAL
    GLOBAL = 5.0


def helper(model: Any, x: Any) -> Any:
    return model.part.inner.weight * x


def by_global(x: Any) -> Any:
    return GLOBAL * x


@functools.cache
def heat(dt: float) -> ds.Simulation:
    return ds.Simulation(ds.solvers.Heat(ds.Grid((3,), spacing=1.0), dt=dt), precision="f64")


def shadowed() -> Change:
    k = 2.0

    def f(x: Any) -> Any:
        def inner(y: Any) -> Any:
            k = 3.0
            return (lambda z: z * k)(y)

        return inner(x) * k

    def change() -> None:
        nonlocal k
        k = 5.0

    return f, change, ()


def shadowed_by_comprehensions() -> Iterator[tuple[str, Change]]:
    """Variables of comprehensions with the name of a variable outside, in all forms."""
    forms = ("sum([k for k in range(3)])", "len({k for k in range(3)})", "len({k: k for k in range(3)})", "sum(k for k in range(3))",
             "sum([k for k in range(2) for j in [k for k in range(2)]])")  # fmt: skip
    for form in forms:
        for text in (f"x * k + {form}", f"{form} + x * k", f"[k * x for j in range(2) if {form}][0]"):
            names: dict[str, Any] = {}
            exec(f"def outer():\n k = 2.0\n def f(x):\n  return {text}\n def change():\n  nonlocal k\n  k = 5.0\n return f, change", names)
            yield text, (*names["outer"](), ())


def parts_of_diffsim() -> Iterator[tuple[str, Change]]:
    """Solutions and equations, read by name, by a helper's parameter, and as an argument."""
    for way in ("name", "helper", "argument"):
        for read, changes in READS.items():
            for which, change in changes.items():
                simulation = ds.Simulation.__new__(ds.Simulation)
                simulation.__dict__.update(heat(0.1).__dict__, equation=copy.copy(heat(0.1).equation))
                data = ds.Solution({"T": X.copy()}, {"T": X[None].copy()})
                things = {"data": data, "eq": simulation.equation, "rod": simulation}
                thing = things[read.split(".")[0]]
                names: dict[str, Any] = {**things, "ds": ds}
                name = read.split(".")[0]
                exec(
                    f"def inner(x, {name}): return x * {read}\ndef by_name(x): return x * {read}\n"
                    f"def by_helper(x): return inner(x, {name})",
                    names,
                )
                function = names[{"name": "by_name", "helper": "by_helper", "argument": "inner"}[way]]
                if way == "argument" and name == "data":  # a pytree, whose arrays are inputs
                    continue
                yield f"{read} by {way}, {which}", (function, lambda c=change, t=thing: c(t), (thing,) if way == "argument" else ())


READS: dict[str, dict[str, Callable[[Any], object]]] = {
    "data.final['T']": {
        "bound anew": lambda data: data.final.update(T=5 * X),
        "edited": lambda data: data.final["T"].__setitem__(1, 9.0),
    },
    "data.traces['T'][0, 2]": {
        "bound anew": lambda data: data.traces.update(T=5 * X[None]),
        "edited": lambda data: data.traces["T"].__setitem__((0, 2), 9.0),
    },
    "eq.dt": {"bound anew": lambda eq: setattr(eq, "dt", 0.7)},
    "rod.equation.dt": {
        "bound anew": lambda rod: setattr(rod.equation, "dt", 0.7),
        "another equation": lambda rod: setattr(rod, "equation", heat(0.2).equation),
    },
}


class ByProperty:
    @property
    def k(self) -> Any:
        return self.kept

    @k.setter
    def k(self, value: Any) -> None:
        self.kept = value * GLOBAL


class Descriptor:
    def __get__(self, thing: Any, kind: Any = None) -> Any:
        return thing.kept

    def __set__(self, thing: Any, value: Any) -> None:
        thing.kept = value * GLOBAL


class ByDescriptor:
    k = Descriptor()


class ByClass:
    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["kept"] = value * GLOBAL


class OfProperty(ByProperty):
    pass


class Meta(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        type.__setattr__(cls, "kept", value * GLOBAL)


class ByMeta(metaclass=Meta):
    pass


def assignments() -> Iterator[tuple[str, Change]]:
    """Attributes whose assignment runs code that reads a global, as `=` and as `+=`, of the object and of a part of it."""
    for kind in (ByProperty, OfProperty, ByDescriptor, ByClass, ByMeta):
        for line in (
            "thing.k = 3.0",
            "thing.k += 1.0",
            "part.inner.k = 3.0",
            "thing.k, other = 3.0, 1.0",
            "for thing.k in (1.0, 3.0): pass",
        ):
            if "+=" in line and kind in (ByClass, ByMeta):  # which has no k to read
                continue
            thing: Any = kind if kind is ByMeta else kind()
            thing.k = 1.0
            names = {"thing": thing, "part": types.SimpleNamespace(inner=thing), "GLOBAL": 2.0}
            exec(f"class Part: pass\npart = Part()\npart.inner = thing\ndef f(x):\n {line}\n return x * thing.kept", names)
            if "+=" in line:  # from the same start in each call
                exec(f"def f(x):\n thing.kept = 1.0\n {line}\n return x * thing.kept", names)
            yield f"{kind.__name__}: {line}", (names["f"], rebind, ())


def chosen_functions() -> Iterator[tuple[str, Change]]:
    """Functions of the user's that are called by way of an object of Python's or of NumPy's."""

    @functools.singledispatch
    def chosen(n: Any) -> Any:
        return 1.0

    chosen.register(int, lambda n: n * GLOBAL)
    yield "singledispatch", (lambda x: x * chosen(3), rebind, ())
    yield "singledispatch, registered", (lambda x: x * chosen(3), lambda: chosen.register(int, lambda n: 100.0), ())
    on_objects = numpy.frompyfunc(lambda n: n * GLOBAL, 1, 1)
    yield "frompyfunc", (lambda x: x * on_objects(3.0), rebind, ())
    add = numpy.frompyfunc(lambda a, b: a + b * GLOBAL, 2, 1)
    yield "frompyfunc of two", (lambda x: x * add.reduce([1.0, 2.0]), rebind, ())
    vectorised = numpy.vectorize(lambda n: n * GLOBAL)
    yield "vectorize", (lambda x: x * vectorised(3.0), rebind, ())


def changed_default() -> Change:
    def f(x: Any, c: Any = 2.0) -> Any:
        return c * x

    return f, lambda: setattr(f, "__defaults__", (5.0,)), ()


def changed_code() -> Change:
    def f(x: Any) -> Any:
        return 2.0 * x

    return f, lambda: setattr(f, "__code__", (lambda x: 5.0 * x).__code__), ()


def outside() -> Iterator[tuple[str, Change]]:
    model, functions, table = Model(), [lambda x: x * GLOBAL], {"f": lambda x: 2.0 * x}
    space, queue, cells, large = types.SimpleNamespace(k=2.0), collections.deque([2.0]), {"a": Layer()}, numpy.ones((4, 3))
    late, notes, numbers, row = Late(), {"c": 2.0}, {2.0}, large[1]
    cached = functools.lru_cache(lambda: numbers.copy().pop())
    extra = Weighted(numpy.ones(3))
    extra.more = 2.0  # type: ignore[attr-defined]
    yield "simulation bound anew", (model.run, lambda: setattr(model, "simulation", heat(0.2)), ())
    yield "function bound anew", (lambda x: model.function(x), lambda: setattr(model, "function", lambda x: 5.0 * x), ())
    yield "method bound anew", (model.scaled, lambda: setattr(model, "scaled", lambda x: 5.0 * x), ())
    model = Model()
    yield "attribute of the class", (model.scaled, lambda: setattr(Base, "factor", 5.0), ())
    yield "attribute of type(self)", (model.by_class, lambda: setattr(Base, "factor", 7.0), ())
    yield "super()", (model.by_super, lambda: setattr(Base, "factor", 9.0), ())
    yield "chain", (lambda x: model.part.inner.weight * x, lambda: setattr(model.part.inner, "weight", 5.0), ())
    yield "object passed on", (model.by_helper, lambda: setattr(model.part.inner, "weight", 6.0), ())
    yield "object in a local", (model.by_alias, lambda: setattr(model.part.inner, "weight", 7.0), ())
    yield "middle of a chain", (lambda x: model.part.inner.weight * x, lambda: setattr(model, "part", Layer(1.0, Layer(8.0))), ())
    yield "list of objects", (lambda x: model.layers[0](x), lambda: setattr(model.layers[0], "weight", 5.0), ())
    yield "entry of a list", (lambda x: model.layers[0](x), lambda: model.layers.__setitem__(0, Layer(6.0)), ())
    yield "operator of the user's", (lambda x: x * model, lambda: model.hidden.update(late=5.0), ())
    yield "item of the user's", (lambda x: x * model["late"], lambda: model.hidden.update(late=6.0), ())
    yield "property", (lambda x: x * model.doubled, lambda: model.hidden.update(late=7.0), ())
    yield "__getattr__", (lambda x: late.weight * x, lambda: late.hidden.update(weight=5.0), ())
    yield "function of a list", (lambda x: functions[0](x), rebind, ())
    yield "function of a dict", (lambda x: table["f"](x), lambda: table.update(f=lambda x: 5.0 * x), ())
    yield "object of a dict", (lambda x: cells["a"](x), lambda: setattr(cells["a"], "weight", 5.0), ())
    yield "namespace", (lambda x: space.k * x, lambda: setattr(space, "k", 5.0), ())
    yield "deque", (lambda x: queue[0] * x, lambda: queue.__setitem__(0, 5.0), ())
    yield "set", (lambda x: sum(numbers) * x, lambda: numbers.add(5.0), ())
    yield "cache", (lambda x: cached() * x, lambda: (numbers.clear(), numbers.add(7.0), cached.cache_clear()), ())
    yield "base of a view", (lambda x: row * x, lambda: large.__setitem__((1, 0), 9.0), ())
    yield "function argument", (lambda x, f: f(x), rebind, (by_global,))
    yield "object argument", (lambda x, f: f(x), lambda: setattr(cells["a"], "weight", 7.0), (cells["a"].__call__,))
    yield "namespace argument", (lambda x, n: n.k * x, lambda: setattr(space, "k", 7.0), (space,))
    yield "deque argument", (lambda x, n: n[0] * x, lambda: queue.__setitem__(0, 7.0), (queue,))
    yield "data of a pytree", (lambda x, o: o.notes["c"] * x, lambda: notes.update(c=5.0), (Owner(numpy.ones(3), notes),))
    yield "method of a pytree", (lambda x, o: o.applied(x), rebind, (Weighted(numpy.ones(3)),))
    yield "class of a pytree", (lambda x, o: o.applied(x), lambda: setattr(Weighted, "factor", 5.0), (Weighted(numpy.ones(3)),))
    yield "no field of a dataclass", (lambda x, o: o.more * x, lambda: setattr(extra, "more", 5.0), (extra,))
    yield "shadowed name", shadowed()
    yield from shadowed_by_comprehensions()
    yield from parts_of_diffsim()
    yield from assignments()
    yield from chosen_functions()
    yield "default", changed_default()
    yield "code", changed_code()


@pytest.mark.parametrize("derived", [False, True])
def test_a_change_outside_is_never_stale(derived: bool) -> None:
    wrong = []
    reset()
    for name, (f, change, others) in outside():
        reset()
        plain = ds.value_and_grad(lambda *args, f=f: f(*args).sum()) if derived else f
        fast = ds.jit(plain)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ds.errors.JitWarning)
            for _ in range(3):
                fast(X, *others)
            change()
            a, b = fast(X, *others), plain(X, *others)
            if not all(map(numpy.array_equal, a, b) if derived else [numpy.array_equal(a, b)]):
                wrong.append(name)
    reset()
    assert not wrong


VALUES = (numpy.array([0.0, 0.0, 1.0, 1.0, 2.0, -2.0]), numpy.array([0.0, 3.0, 0.0, 1.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    "count",
    [
        lambda x: numpy.unique(ds.stop_gradient(x)).size,
        lambda x: len(numpy.nonzero(x)[0]),
        lambda x: numpy.flatnonzero(x).size,
        lambda x: len(np.nonzero(x)[0]),
        lambda x: numpy.argwhere(x > 1).shape[0],
        lambda x: len(numpy.where(x > 1)[0]),
        lambda x: len(np.where(x > 1)[0]),
        lambda x: numpy.compress(x > 1, x).size,
        lambda x: np.extract(x > 1, x).size,
    ],
)
def test_a_shape_that_depends_on_values_is_that_of_the_call(count: Callable[[Any], int]) -> None:
    def plain(x: Any) -> Any:
        return x.sum() * count(x)

    fast = ds.jit(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.errors.JitWarning)
        fast(numpy.arange(1.0, 7.0))
        for x in VALUES:
            assert fast(x) == plain(x)


def by_raising(x: Any) -> Any:
    with numpy.errstate(divide="raise"):
        try:
            y = 1.0 / x
        except FloatingPointError:
            return (x * 0).sum() - 1
    return np.where(x > 0, y, 0.0).sum()


def by_warning(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            y = np.log(x)
        except RuntimeWarning:
            return (x * 0).sum() - 1
    return np.where(x > 0, y, 0.0).sum()


@pytest.mark.parametrize("plain", [by_raising, by_warning])
def test_a_way_that_a_warning_decides_is_that_of_the_call(plain: Callable[..., Any]) -> None:
    fast = ds.jit(plain)
    with pytest.warns(ds.errors.JitWarning, match=r"in a block of np\.errstate or warnings"):
        fast(X)
    assert fast(X - 1) == plain(X - 1) == -1


def test_a_warning_comes_once_whether_replayed_or_not() -> None:
    fast = ds.jit(lambda x: np.where(x > 0, np.log(x), 0.0).sum())
    for x in (X - 1, X, X - 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fast(x)
        assert [str(each.message) for each in caught] == (["divide by zero encountered in log"] if x[0] == 0 else [])


def at_least_two(x: Any) -> Any:
    x[:] = np.maximum(x, 2.0) * 1.0
    return x.sum()


def normalised(x: Any) -> Any:
    x /= np.sqrt((x * x).sum())
    return x.sum()


def through_a_view(x: Any) -> Any:
    part = x[1:]
    part[...] = np.maximum(part, 2.0)
    return x.sum()


def in_a_list(parts: Any) -> Any:
    parts[0] = parts[0] * 1.0
    return parts[0].sum()


@pytest.mark.parametrize(
    ("f", "first", "then"),
    [
        (at_least_two, numpy.array([3.0, 4.0]), numpy.array([1.0, 4.0])),
        (normalised, numpy.array([1.0, 0.0]), numpy.array([2.0, 0.0])),
        (through_a_view, numpy.array([3.0, 4.0]), numpy.array([1.0, 1.0])),
        (in_a_list, [numpy.array([3.0])], [numpy.array([2.0])]),
    ],
)
def test_an_edit_that_changed_nothing_at_first_is_done_later(f: Callable[..., Any], first: Any, then: Any) -> None:
    fast, other = ds.jit(f), [then[0].copy()] if isinstance(then, list) else then.copy()
    before = then[0]
    with pytest.warns(ds.errors.JitWarning, match="edits its arguments"):
        fast(first)
    assert fast(then) == f(other)
    numpy.testing.assert_array_equal(then, other)
    assert not isinstance(then, list) or then[0] is not before


@dataclass
class Keeping:
    last: Any = None
    seen: list[Any] = field(default_factory=list)

    def loss(self, x: Any) -> Any:
        self.last = x * 2
        return (x * x).sum()


def test_a_value_that_is_kept_in_the_first_call_is_a_plain_one() -> None:
    keeping = Keeping()
    fast = ds.jit(keeping.loss)
    fast(X)
    fast(X + 1)
    numpy.testing.assert_array_equal(keeping.last + 0, 2 * X)


ROUNDED: dict[str, Callable[..., Any]] = {
    "norm": np.linalg.norm,
    "norm of order 3": lambda x: np.linalg.norm(x, 3),
    "einsum": lambda x: np.einsum("i,i->", x, x),
    "einsum of matrices": lambda x: np.einsum("ij,kj->ik", x.reshape(3, 4), x.reshape(3, 4)).sum(),
    "einsum of three": lambda x: np.einsum("i,i,i->", x, x, x),
    "spectrum": lambda x: abs(np.fft.rfft(x)).sum(),
    "gradient": lambda x: np.gradient(x).sum(),
    "std": np.std,
    "mean": np.mean,
    "dot": lambda x: np.dot(x, x),
    "matmul": lambda x: (x.reshape(3, 4) @ x.reshape(4, 3)).sum(),
    "powers": lambda x: (x**3).sum() + x[0] ** 2 + abs(x[1]) ** x[2],
    "sums": lambda x: (x.reshape(3, 4).T.sum(0) ** 2).sum() + sum(x),
    "average": lambda x: np.average(x, weights=abs(x)),
    "cumsum": lambda x: np.cumsum(x)[-1] + np.diff(x).sum(),
    "logarithms": lambda x: np.log(np.exp(x).sum()) + np.logaddexp(x[0], x[1]),
}


@pytest.mark.parametrize("derived", [False, True])
def test_random_values_have_the_bits_of_a_plain_call(derived: bool) -> None:
    random, wrong = numpy.random.default_rng(1), set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.errors.JitWarning)
        for name, f in ROUNDED.items():
            plain = ds.value_and_grad(f) if derived else f
            fast = ds.jit(plain)
            for k in range(24):
                x = random.normal(size=12).astype("f8" if k % 2 else "f4")
                pairs = zip(fast(x), plain(x), strict=True) if derived else [(fast(x), plain(x))]
                for a, b in pairs:
                    if type(a) is not type(b) or numpy.asarray(a).tobytes() != numpy.asarray(b).tobytes():
                        wrong.add(name)
    assert not wrong


def test_a_gradient_in_single_precision_of_double_arrays_is_replayed() -> None:
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((3,), spacing=1.0), dt=0.1), precision="f32")

    def plain(start: Any, kappa: Any) -> Any:
        return rod.value_and_grad(lambda s: (s.final["T"] ** 2).sum(), {"T": start, "kappa": kappa}, 4)

    fast = ds.jit(plain)
    for k in range(3):
        (a, bars), (b, expected) = fast(X + k, 0.1 * X), plain(X + k, 0.1 * X)
        assert a == b and bars["T"].dtype == numpy.float32
        for name in expected:
            numpy.testing.assert_array_equal(bars[name], expected[name])
    assert fast._function.entries[0].program is not None


def test_a_simulation_that_a_function_keeps_is_looked_at() -> None:
    """It is replayed while the function keeps it, and recorded again when it makes another one."""
    dt = [0.1]

    @functools.cache
    def rod() -> ds.Simulation:
        return ds.Simulation(ds.solvers.Heat(ds.Grid((3,), spacing=1.0), dt=dt[0]), precision="f64")

    def plain(x: Any) -> Any:
        return (rod().run({"T": x, "kappa": numpy.full(3, 0.3)}, 3).final["T"] ** 2).sum()

    fast = ds.jit(plain)
    for k in range(3):
        assert fast(X + k) == plain(X + k)
    assert fast._function.entries[0].program is not None
    dt[0] = 0.2
    rod.cache_clear()
    assert fast(X) == plain(X) != (before := fast(X + 1)) and before == plain(X + 1)

    @functools.cache
    def of(k: int) -> float:
        return 2.0 * k

    with pytest.warns(ds.errors.JitWarning, match="of which changes are not seen"):
        assert ds.jit(lambda x: of(3) * x)(2.0) == 12.0
