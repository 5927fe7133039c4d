"""Pytrees: taken apart and put together again, compared in shape, and differentiated as they are."""

from __future__ import annotations

import collections
import dataclasses
import gc
import re
import weakref
from typing import Any, NamedTuple

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import diffsim as ds
import diffsim.numpy as np
from diffsim.ad.tree import flatten, leaves_like, tree_map, unflatten
from diffsim.errors import ShapeError


class Pair(NamedTuple):
    first: Any
    second: Any = None


@dataclasses.dataclass
class Flow:
    u: Any
    name: str = "flow"
    total: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = float(numpy.sum(self.u))  # cannot be run on traced values


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    p: Any
    q: Any


class Table(dict):
    """A dict with an attribute of its own, and a constructor that takes no pairs."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title


class Registered:
    def __init__(self, value: Any, unit: str) -> None:
        self.value, self.unit = value, unit


ds.register_pytree(Registered, lambda r: (iter([r.value]), r.unit), lambda unit, children: Registered(*children, unit))


def table(**entries: Any) -> Table:
    built = Table("results")
    built.update(entries)
    return built


RECORDS = some.recursive(
    some.integers() | some.none(),
    lambda inner: some.one_of(
        some.lists(inner, max_size=3),
        some.tuples(inner, inner),
        some.dictionaries(some.sampled_from("abc"), inner, max_size=3),
        some.builds(Pair, inner, inner),
        some.builds(Frozen, inner, inner),
    ),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=150, deadline=None, database=None)
@given(RECORDS)
def test_taken_apart_and_put_together(pytree):
    leaves, tree = flatten(pytree)
    assert unflatten(tree, leaves) == pytree
    assert flatten(pytree)[1] == tree and hash(flatten(pytree)[1]) == hash(tree)
    assert leaves_like(pytree, tree, "it") == leaves
    assert tree_map(lambda a: 2 * a, pytree) == unflatten(tree, [2 * leaf for leaf in leaves])


@settings(derandomize=True, max_examples=150, deadline=None, database=None)
@given(RECORDS, RECORDS)
def test_shapes_are_equal_where_the_records_are_but_for_their_leaves(a, b):
    blank = [tree_map(lambda _: 0, pytree) for pytree in (a, b)]
    assert (flatten(a)[1] == flatten(b)[1]) == (repr(blank[0]) == repr(blank[1]))


@pytest.mark.parametrize(
    "pytree",
    [
        collections.OrderedDict(b=1.0, a=2.0),
        collections.Counter(a=2.0, b=3.0),
        collections.defaultdict(list, {"a": 1.0, "b": 2.0}),
        table(a=1.0, b=2.0),
    ],
    ids=lambda r: type(r).__name__,
)
def test_kinds_of_dicts_stay_the_same(pytree):
    leaves, tree = flatten(pytree)
    again = unflatten(tree, [leaf * 10 for leaf in leaves])
    assert type(again) is type(pytree) and list(again) == list(pytree)
    assert [again[k] for k in pytree] == [pytree[k] * 10 for k in pytree]
    assert getattr(again, "default_factory", None) == getattr(pytree, "default_factory", None)
    assert getattr(again, "title", None) == getattr(pytree, "title", None)


def test_dataclass_is_filled_without_its_constructor():
    flow = Flow(numpy.ones(3))
    gradient = ds.grad(lambda f: np.sum(f.u * f.u) * f.total)(flow)
    assert type(gradient) is Flow and gradient.name is None
    numpy.testing.assert_array_equal(gradient.u, 6.0)
    assert float(gradient.total) == 3.0


def test_gradient_of_every_kind_of_record():
    pytree = {"pair": Pair(2.0), "frozen": Frozen(3.0, [1, None]), "table": table(a=4.0), "own": Registered(5.0, "m"), "text": "x"}

    def f(r):
        return r["pair"].first * r["frozen"].p * r["table"]["a"] * r["own"].value * r["frozen"].q[0]

    g = ds.grad(f)(pytree)
    assert [float(g["pair"].first), float(g["frozen"].p), float(g["table"]["a"]), float(g["own"].value)] == [60.0, 40.0, 30.0, 24.0]
    assert (g["pair"].second, g["frozen"].q, g["own"].unit, g["text"]) == (None, [None, None], "m", None)


def test_shape_of_a_record_does_not_keep_its_arrays():
    gc.disable()
    try:
        for make in (Flow, lambda u: table(u=u), lambda u: Frozen(u, None)):
            leaves, tree = flatten(make(numpy.ones(2)))
            end = weakref.ref(leaves[0])
            del leaves
            assert end() is None
            assert tree.children
    finally:
        gc.enable()


def test_none_stands_for_any_part():
    tree = flatten({"a": (1, [2, 3]), "b": Pair(4, 5)})[1]
    assert leaves_like({"b": Pair(4, None), "a": (1, None)}, tree, "it") == [1, None, None, 4, None]
    assert leaves_like(None, tree, "it") == [None] * 5


def test_dicts_fit_in_any_order():
    for pytree, other in (({"a": 1, "b": 2}, {"b": 20, "a": 10}), (table(a=1, b=2), table(b=20, a=10))):
        assert leaves_like(other, flatten(pytree)[1], "it") == [10, 20]


@pytest.mark.parametrize(
    ("wrong", "shown", "expected"),
    [
        ([1, 2], "[*, *]", "(*, {'a': *})"),
        ((1,), "(*)", "(*, {'a': *})"),
        (7, "*", "(*, {'a': *})"),
        ((1, {"b": 2}), "{'b': *}", "{'a': *}"),
        ((1, Pair(2, 3)), "Pair(*, *)", "{'a': *}"),
    ],
)
def test_another_shape_is_refused_naming_the_part(wrong, shown, expected):
    with pytest.raises(ShapeError, match=re.escape(f"tangents has the structure {shown}, expected {expected}")):
        leaves_like(wrong, flatten((1, {"a": 2}))[1], "tangents")


def test_data_of_a_registered_type_must_agree():
    tree = flatten(Registered(1.0, "m"))[1]
    with pytest.raises(ShapeError, match=re.escape("Registered(*)")):
        leaves_like(Registered(1.0, "km"), tree, "a pytree")
