"""`ds.jit`: the bits of a plain call, records where something else than inputs differs, and refusals by name."""

from __future__ import annotations

import contextlib
import copy
import inspect
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.ad.recorded import jit
from diffsim.ad.recorded.jit import MOST_CHANGES, MOST_FORMS
from diffsim.errors import JitError, JitWarning
from tests.ad.programs.cases import Case
from tests.ad.programs.collection import CASES
from tests.ad.programs.test_programs import in_arguments_of_interest
from tests.ad.programs.trees import leaves, tree_map
from tests.sampled import together

rng = numpy.random.default_rng(0)
X = rng.uniform(0.5, 1.5, 5)


def recordings(fast: Any) -> list[Any]:
    """The replays that a function has, the last one first."""
    return [entry.program for entry in fast._function.entries]


def bits(tree: Any) -> list[Any]:
    return [(type(leaf), numpy.asarray(leaf).dtype, numpy.shape(leaf), numpy.asarray(leaf).tobytes()) for leaf in leaves(tree)]


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls, self.__signature__ = function, 0, inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


def derived(case: Case) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The derivative of a program as a function, and its arguments."""
    f, args = case.bind(np, ds), case.fresh_args()
    if case.kind == "grad":
        return ds.value_and_grad(f, argnums=case.wrt if len(case.wrt) > 1 else case.wrt[0]), args
    if case.kind == "vjp":
        cotangent = case.cotangent()

        def pulled(*args: Any) -> Any:
            value, pullback = ds.vjp(f, *args)
            return value, pullback(cotangent)

        return pulled, args
    f, args = in_arguments_of_interest(case)
    if case.kind == "jvp":
        tangents = case.tangents()
        return (lambda *args: ds.jvp(f, args, tangents)), args
    if case.kind == "hvp":
        vector = case.vector()
        return (lambda x: ds.hvp(f, x, vector)), args
    return {"jacobian": ds.jacobian, "hessian": ds.hessian}[case.kind](f), args


def moved(args: Any, seed: int) -> Any:
    """Arguments of the same form."""
    random = numpy.random.default_rng(seed)

    def change(leaf: Any) -> Any:
        if isinstance(leaf, numpy.ndarray) and leaf.dtype.kind in "fc" and leaf.flags.c_contiguous:
            return (leaf * random.uniform(0.7, 1.3, leaf.shape)).astype(leaf.dtype)
        return leaf * random.uniform(0.9, 1.1) if type(leaf) is float else leaf

    return tree_map(change, args)


def require_replays(case: Case) -> bool:
    """Compare replays of a program's derivative with plain calls, bit for bit. Return True if there was a replay."""
    f, args = derived(case)
    fast = ds.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(JitError):
            fast(*args)
        if not recordings(fast) or recordings(fast)[0] is None:
            return False
        for seed in range(2):
            again = moved(args, seed)
            assert bits(fast(*again)) == bits(f(*again)), case
    return True


REPLAYED = [case for case in CASES if case.kind != "raises"]


@together(REPLAYED[::4])
def test_a_program_is_replayed_with_its_bits(case: Case) -> None:
    require_replays(case)


@pytest.mark.slow
def test_all_programs_are_replayed_with_their_bits() -> None:
    assert sum(map(require_replays, REPLAYED)) >= 295, "fewer are replayed than were"


def test_a_replay_calls_no_function_of_the_user() -> None:
    loss = Counted(lambda x, a: (a * np.sin(x) ** 2).sum())
    fast = ds.jit(ds.value_and_grad(loss))
    expected = ds.value_and_grad(loss.function)
    for k in range(4):
        x = X + 0.1 * k
        assert bits(fast(x, 0.5 + k)) == bits(expected(x, 0.5 + k))
        assert loss.calls == 2


def test_forms_are_told_by_structure_shape_type_and_static_values() -> None:
    f = Counted(lambda x, n=2, **more: sum(x["a"] ** k for k in range(n)) + sum(more.values()))
    fast = ds.jit(f)
    calls = [
        (({"a": X},), {}),
        (({"a": X[:3]},), {}),
        (({"a": X.astype(numpy.float32)},), {}),
        (({"a": 2.0},), {}),
        (({"a": X}, 3), {}),
        (({"a": X},), {"n": 4}),
        (({"a": X},), {"b": X}),
        (({"a": X},), {"b": numpy.arange(5)}),
        (({"a": X},), {"b": numpy.arange(1, 6)}),
        (({"a": numpy.asfortranarray(rng.normal(size=(3, 2)))},), {}),
        (({"a": numpy.ascontiguousarray(rng.normal(size=(3, 2)))},), {}),
    ]
    for _ in range(2):
        for args, kwargs in calls:
            assert bits(fast(*args, **kwargs)) == bits(f.function(*args, **kwargs))
    assert f.calls == 2 * len(calls) and len(recordings(fast)) == len(calls)


def test_the_oldest_form_is_dropped() -> None:
    fast = ds.jit(lambda x, n: x * n)
    for n in range(MOST_FORMS + 3):
        for _ in range(2):
            fast(X, n)
    assert len(recordings(fast)) == MOST_FORMS
    numpy.testing.assert_array_equal(fast(X, 0), 0 * X)


HIDDEN = numpy.ones(5)
WEIGHT, TABLE = 2.0, {"w": numpy.ones(5)}


class Holder:
    weight = 1.0

    def __init__(self) -> None:
        self.values = numpy.ones(5)

    def loss(self, x: Any) -> Any:
        return (self.weight * self.values * x).sum()


def test_values_from_outside_are_never_stale() -> None:
    """A name that is bound anew, an array that is edited, an attribute, an entry of a dict, a function that is exchanged."""
    global WEIGHT
    array, large, scale, holder = numpy.ones(5), numpy.ones(2**17 + 1), 1.0, Holder()
    inner = lambda x: x + 1  # noqa: E731

    def loss(x: Any) -> Any:
        return (WEIGHT * scale * array * inner(x) * TABLE["w"]).sum() + (large * x[0]).sum() + holder.loss(x)

    fast = ds.jit(ds.value_and_grad(loss))

    def agree() -> None:
        for _ in range(2):
            assert bits(fast(X)) == bits(ds.value_and_grad(loss)(X))

    agree()
    WEIGHT = 3.0
    agree()
    array[2] = 5.0
    agree()
    large[7] = 5.0
    agree()
    scale = 0.5
    agree()
    TABLE["w"] = 2 * TABLE["w"]
    agree()
    TABLE["w"][1] = -1.0
    agree()
    holder.weight = 4.0
    agree()
    holder.values[0] = 9.0
    agree()
    inner = lambda x: x * x  # noqa: E731
    agree()
    array = numpy.full(5, 0.25)
    agree()
    assert len(recordings(fast)) == 1 and recordings(fast)[0] is not None


def test_what_no_name_leads_to_is_refused() -> None:
    fast = ds.jit(lambda x: (globals()["HID" + "DEN"] * x).sum())
    with pytest.warns(JitWarning, match="it uses globals, by which it may read anything; pass it as an argument"):
        fast(X)
    HIDDEN[0] = 5.0
    assert fast(X) == (HIDDEN * X).sum()


def test_a_function_whose_surroundings_change_before_each_call_is_called() -> None:
    factor = 0.0
    f = Counted(lambda x: factor * x)
    fast = ds.jit(f)

    def agree() -> None:
        nonlocal factor
        for k in range(MOST_CHANGES + 4):
            factor = float(k)
            numpy.testing.assert_array_equal(fast(X), factor * X)

    with pytest.warns(JitWarning, match="change before each call; pass them as arguments, a number as a float"):
        agree()
    assert recordings(fast) == [None]


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: x.sum() if x[0] > 1 else x.sum() ** 2, "a truth value"),
        (lambda x: float(x[0]) * x, r"float\(\)"),
        (lambda x: x[: int(x[0] * 3)], r"int\(\)"),
        (lambda x: numpy.asarray(x), "a NumPy array"),
        (lambda x: x * x[0].item(), r"item\(\)"),
    ],
)
def test_decisions_by_values_are_refused_with_their_line(function: Callable[..., Any], what: str) -> None:
    with pytest.raises(JitError, match=rf"test_jit.py:\d+: expected operations that are the same .* got {what}") as caught:
        ds.jit(function)(X)
    assert "; " in str(caught.value)


def test_a_value_that_left_by_another_way_is_refused() -> None:
    last = before = None

    def leaking(x: Any) -> Any:
        nonlocal last, before
        last, before = x, last
        return x * 2

    ds.jit(leaking)(X)
    with pytest.raises(JitError, match="used after its call"):
        before + 1
    numpy.testing.assert_array_equal(last, X)


class Book:
    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.table: dict[str, Any] = {"a": 1.0}


BOOK = Book()
WRITERS: dict[str, Callable[[Any], object]] = {
    "append": lambda x: BOOK.rows.append(x),
    "append a constant": lambda x: BOOK.rows.append(1.0),
    "extend": lambda x: BOOK.rows.extend([x, x.sum()]),
    "insert": lambda x: BOOK.rows.insert(0, x),
    "sort": lambda x: BOOK.rows.sort(),
    "reverse": lambda x: BOOK.rows.reverse(),
    "update": lambda x: BOOK.table.update(a=x),
    "setdefault": lambda x: BOOK.table.setdefault(f"{len(BOOK.table)}", x),
    "clear": lambda x: BOOK.table.clear(),
}


@pytest.mark.parametrize("write", WRITERS)
def test_what_changes_a_list_or_a_dict_in_each_call_is_called(write: str) -> None:
    """Three calls leave there what three plain calls leave, and no value of a recording."""
    inner = WRITERS[write]

    def f(x: Any) -> Any:
        inner(x)
        return x * 2

    left = []
    for function in (f, ds.jit(f)):
        BOOK.rows, BOOK.table = [2.0, 1.0], {"a": 1.0}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for k in range(3):
                assert bits(function(X + k)) == bits(2 * (X + k))
        left.append(bits((BOOK.rows, BOOK.table)))
    assert left[0] == left[1]
    assert [
        f"BOOK.{'table' if write in ('update', 'setdefault', 'clear') else 'rows'}.{write.split()[0]}" in str(w.message) for w in caught
    ] == [True]


VARYING: dict[str, tuple[Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]], str | None]] = {
    "a counter": (lambda k: ((X, k), {}), r"it differs \(int\); if it is a value, pass it as np.float64\(it\)"),
    "a counter by name": (lambda k: ((X,), {"it": k}), r"it differs \(int\)"),
    "a text": (lambda k: ((X,), {"more": f"{k}"}), r"more differs \(str\); pass the same one"),
    "a minibatch": (
        lambda k: ((X, 0, {"rows": numpy.array([k, 1])}), {}),
        r"more\['rows'\] differs \(array of int64\); take the entries outside",
    ),
    "a shape": (lambda k: ((numpy.ones(k + 1),), {}), r"x differs \(shape, type or strides\); pass arrays of one shape"),
    "a structure": (lambda k: ((X, 0, (1.0,) * k), {}), r"the arguments differ \(structure\)"),
    "a function": (lambda k: ((X, 0, lambda x: x), {}), r"more differs \(object \(function\)\)"),
    "a number": (lambda k: ((X, float(k)), {}), None),
    "a number of NumPy's": (lambda k: ((X, numpy.float64(k)), {}), None),
    "twelve minibatches": (lambda k: ((X, k % 12), {}), None),
    "each twice": (lambda k: ((X, k // 2), {}), None),
    "values that are not finite": (lambda k: ((X * numpy.nan,), {}), None),
}


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("varying", VARYING)
def test_a_form_that_is_new_in_each_call_is_said_and_called(varying: str, derived: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function runs twice in each recording, once in a call after that, which makes no form. A form that comes again is recorded."""
    forms = Counted(jit.Form)
    monkeypatch.setattr(jit, "Form", forms)
    argument, message = VARYING[varying]
    f = Counted(lambda x, it=0, more=None: (x * x).sum() * it)
    fast = ds.jit(ds.value_and_grad(f) if derived else f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(3 * MOST_FORMS):
            args, kwargs = argument(k)
            fast(*args, **kwargs)
    said = [str(each.message) for each in caught if each.category is JitWarning]
    if message is None:
        assert not said
        return
    assert len(said) == 1 and re.search(message, said[0]), said
    assert f.calls == 3 * MOST_FORMS + MOST_FORMS and forms.calls <= MOST_FORMS + 2
    for _ in range(2 * MOST_FORMS + 2):  # one of them is at the next power of two
        fast(*args, **kwargs)
    assert f.calls <= 6 * MOST_FORMS and recordings(fast)[0] is not None
    before = f.calls
    fast(*args, **kwargs)
    assert f.calls == before


random = numpy.random.default_rng(3)
drawn = 0


def counting(x: Any) -> Any:
    global drawn
    drawn += 1
    return drawn * x


def editing(x: Any) -> Any:
    x[0] = 0.0
    return x


def gathered(x: Any) -> Any:
    """Interpolation between the entries of an array at places that are computed, as of fields at particles."""
    places = np.floor(8 * x).astype(int)
    weights = x[:9] * 1.0
    return np.sum(weights[places] * x + weights[places + 1] * (1 - x))


class Opaque:
    pass


@pytest.mark.parametrize(
    ("function", "argument", "reason"),
    [
        (lambda x: x * random.normal(), X, "it draws random numbers by random, which a replay would not do again"),
        (counting, X, "draws random numbers, or counts its calls"),
        (lambda x: ds.fori_loop(0, 3, lambda k, y: y * x, x), X, "a loop or ds.remat is run"),
        (ds.remat(lambda x: x * x), X, "a loop or ds.remat is run"),
        (lambda x: x[x > 1], X, r"x\[mask\]"),
        (lambda x: ds.scan(lambda a, b: a + b + a * b, x), X, "scan looks at values"),
        (ds.grad(lambda x: np.linalg.det(np.outer(x, x) + np.eye(5))), X, "looks at values"),
        (editing, X, "edits its arguments"),
        (ds.grad(gathered), numpy.random.default_rng(4).uniform(size=300), "its replay would round the last digits otherwise"),
        (lambda x: Opaque(), X, "it returns"),
        (lambda x: 1.0, Opaque(), "register it with"),
    ],
)
def test_what_cannot_be_replayed_is_called_and_said(function: Callable[..., Any], argument: Any, reason: str) -> None:
    counted = Counted(function)
    fast = ds.jit(counted)
    with pytest.warns(JitWarning, match=reason):
        fast(copy.copy(argument))
    before = counted.calls
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(copy.copy(argument))  # the warning comes once
    assert counted.calls == before + 1


def test_values_that_are_not_finite_are_as_in_a_plain_call() -> None:
    def loss(x: Any) -> Any:
        return np.where(x > 0, x * np.log(x), 0.0).sum()

    plain = ds.value_and_grad(loss)
    fast = ds.jit(plain)
    with numpy.errstate(all="ignore"):
        for x in (X, X * 0, X):
            assert bits(fast(x)) == bits(plain(x))
    kink = ds.jit(ds.grad(lambda x: np.abs(x).sum()))
    for x in (X - 1, X * 0, X - 1):
        assert bits(kink(x)) == bits(ds.grad(lambda x: np.abs(x).sum())(x))
    curved = ds.grad(lambda x: ds.grad(lambda y: (np.abs(y) * y).sum())(x).sum())
    bent = ds.jit(curved)
    bent(X)
    assert recordings(bent)[0] is not None
    with pytest.raises(ds.errors.DerivativeError) as expected:
        curved(X * 0)
    with pytest.raises(ds.errors.DerivativeError) as caught:
        bent(X * 0)
    assert str(caught.value) == str(expected.value)
    root = ds.jit(ds.grad(lambda x: np.cos(np.sqrt(x)).sum()))
    root(X)
    with pytest.raises(ds.errors.DerivativeError, match="infinite derivative of sqrt"):
        root(X * 0)
    pushed = ds.jit(lambda x, dot: ds.jvp(lambda x: np.sqrt(x), (x,), (dot,)))
    pushed(X, X)
    with numpy.errstate(all="ignore"):
        assert bits(pushed(X, X * 0)) == bits(ds.jvp(np.sqrt, (X,), (X * 0,)))


def test_warnings_of_numpy_come_as_in_a_plain_call() -> None:
    fast = ds.jit(ds.value_and_grad(lambda x: np.sum(1 / (1 + np.exp(x)))))
    fast(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(2 * X)
        with pytest.raises(RuntimeWarning, match="overflow"):
            fast(1000 * X)


def test_results_are_arrays_of_the_callers_own() -> None:
    constant = numpy.ones(5)

    def several(x: Any) -> Any:
        y = x + 1
        return {"x": x, "again": (y, y), "part": y[1:3], "fixed": constant, "none": None, "text": "a", "n": 3}

    fast, x = ds.jit(several), X.copy()
    for _ in range(3):  # the first call records
        result = fast(x)
        assert bits({k: v for k, v in result.items() if k not in ("text", "none")}) == bits(
            {k: v for k, v in several(x).items() if k not in ("text", "none")}
        )
        assert result["text"] == "a" and result["none"] is None and result["n"] == 3
        arrays = [result["x"], *result["again"], result["part"], result["fixed"]]
        for array in arrays:
            array[...] = 7.0  # reaches no other array, nor the next call
        assert not any(numpy.shares_memory(a, b) for k, a in enumerate(arrays) for b in (*arrays[:k], x, constant))
        numpy.testing.assert_array_equal(constant, 1.0)


SHARING: dict[str, Callable[[Any, Any], Any]] = {
    "the argument": lambda x, y: x,
    "a part of the argument": lambda x, y: x[1:],
    "a view of other shape": lambda x, y: x[:, None],
    "every second entry": lambda x, y: y[::2],
    "in opposite order": lambda x, y: y[::-1],
    "the same array": lambda x, y: y,
    "an array from outside": lambda x, y: OUTSIDE,
    "a part of one from outside": lambda x, y: OUTSIDE[1:],
    "one number in all entries": lambda x, y: np.broadcast_to(x[0], (3,)),
    "transposed": lambda x, y: np.stack([x, y]).T,
}
"""Results that share memory with something, of an argument x and a value y."""
OUTSIDE = rng.uniform(0.5, 1.5, 5)


@pytest.mark.parametrize("first", [1.0, numpy.inf], ids=["finite", "infinite"])
@pytest.mark.parametrize("one", SHARING)
def test_an_edited_result_changes_nothing_else_in_any_call(one: str, first: float) -> None:
    """Also where values that are not finite have the function called."""

    of = SHARING[one]

    def pair(x: Any) -> Any:
        y = 2 * x
        return of(x, y), y

    fast, outside = ds.jit(pair), OUTSIDE.copy()
    for factor in (first, 1.0, 1.0, numpy.inf, 2.0):
        x = factor * X
        result = fast(x)
        expected = [numpy.array(leaf) for leaf in pair(x)]
        for edited, other in ((0, 1), (1, 0)):
            kept = numpy.array(result[other])
            result[edited][...] = 7.0
            numpy.testing.assert_array_equal(result[other], kept)
            result[edited][...] = expected[edited]
        for leaf, right in zip(result, expected, strict=True):
            numpy.testing.assert_array_equal(leaf, right)
            leaf[...] = 7.0
        numpy.testing.assert_array_equal(x, factor * X)
        numpy.testing.assert_array_equal(OUTSIDE, outside)
    assert recordings(fast)[0] is not None


def test_assignments_inside_do_not_add_up_between_calls() -> None:
    def filled(x: Any) -> Any:
        y = np.zeros(5)
        for k in range(5):
            y[k] = x[k] ** 2
        y[1:] += x[:-1]
        return y.sum()

    fast, plain = ds.jit(ds.value_and_grad(filled)), ds.value_and_grad(filled)
    for k in range(3):
        assert bits(fast(X + k)) == bits(plain(X + k))


def test_inside_of_a_derivative_it_is_the_function() -> None:
    f = ds.jit(lambda x: (x**3).sum())
    f(X)
    numpy.testing.assert_array_equal(ds.grad(f)(X), 3 * X**2)
    numpy.testing.assert_allclose(ds.hessian(f)(X), numpy.diag(6 * X))
    assert bits(ds.jit(lambda x: f(x) + 1)(X)) == bits(f(X) + 1)


def test_threads_share_the_recordings() -> None:
    plain = ds.value_and_grad(lambda x, a: np.sum(np.exp(a * x) ** 2))
    fast, wrong = ds.jit(plain), list[Any]()

    def work(seed: int) -> None:
        for k in range(40):
            x = numpy.random.default_rng(seed + k).normal(size=4 + k % 3)
            if bits(fast(x, 0.1 * seed)) != bits(plain(x, 0.1 * seed)):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_decorates_methods_copies_and_is_pickled() -> None:
    class Model:
        @ds.jit
        def loss(self, x: Any) -> Any:
            return (x**2).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an object of a class of one's own is no pytree
        assert Model().loss(X) == (X**2).sum()
    fast = ds.jit(numpy.square)
    assert copy.deepcopy(fast) is fast
    numpy.testing.assert_array_equal(pickle.loads(pickle.dumps(fast))(X), X**2)
    with pytest.raises(ds.errors.ParameterError, match="expected a function"):
        ds.jit(3.0)


@pytest.mark.parametrize("make", [ds.grad, ds.value_and_grad, ds.jacrev, ds.jacfwd, ds.hessian], ids=lambda make: make.__name__)
def test_a_derivative_is_named_with_its_function(make: Callable[..., Any]) -> None:
    def energy(x: Any) -> Any:
        return (globals()["HID" + "DEN"] * x).sum()

    with pytest.warns(JitWarning, match=r"^ds\.\w+ of (grad of )?energy of ds\.jit runs as a plain call"):
        ds.jit(make(energy))(X)
