"""Every call of the table with one argument exchanged, by NumPy and inside of a derivative, and how the two outcomes differ."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.arrays.array import Array
from diffsim.ad.core import bottom
from diffsim.errors import DiffsimError

from .entry import Entry

# calls


@dataclass(frozen=True)
class Call:
    """A call of a function of the namespace.

    Attributes:
        name: "sum", "linalg.solve", "add.reduce", "method.sum" or "operator.add".
        args: arrays of NumPy's and whatever else it takes.
        kwargs: by name.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self, namespace: Any, args: Any, kwargs: Any) -> Any:
        """The call in a namespace, with arguments in place of these."""
        target = namespace
        for part in self.name.split("."):
            target = getattr(target, part)
        return target(*args, **kwargs)


class Recorder:
    """NumPy, with a note of each call of one function."""

    def __init__(self, name: str, calls: list[Call], module: Any = np, prefix: str = "") -> None:
        self._name, self._calls, self._module, self._prefix = name, calls, module, prefix

    def __getattr__(self, name: str) -> Any:
        member, full = getattr(self._module, name, None), self._prefix + name
        if member is None:  # one of the names that NumPy lacks
            member = getattr(dn, name)
        if self._name.startswith(f"{full}."):
            return Recorder(self._name, self._calls, member, f"{full}.")
        if full != self._name and not (isinstance(member, np.ufunc) and not self._prefix and name == self._name.split(".")[0]):
            return member
        return _Noted(full, member, self._calls)


class _Noted:
    """A function whose calls are noted; its attributes (`add.reduce`) as well."""

    def __init__(self, name: str, function: Any, calls: list[Call]) -> None:
        self._name, self._function, self._calls = name, function, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls.append(Call(self._name, copy.deepcopy(args), copy.deepcopy(kwargs)))
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return _Noted(f"{self._name}.{name}", getattr(self._function, name), self._calls)


def calls_of(entries: list[Entry]) -> list[Call]:
    """The calls that entries make of the functions that they cover."""
    calls: list[Call] = []
    for entry in entries:
        if entry.covers.split(".")[0] in ("operator", "method"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entry.function(Recorder(entry.covers, calls), *entry.values())
    return calls


class Odd:
    """An object that is nothing to NumPy."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd)

    __hash__ = object.__hash__


HUGE = 10**30

# values that an argument is exchanged for

AXES: tuple[Any, ...] = (
    None, 0, 1, -1, 2, -3, 3, (0, 1), (1, 0), (-1, 0), (0, 0), (), (0,), (2, 0), [0], [0, 1], 1.0, "x", True, np.int64(0), np.array(0),
    Odd(),
    1j, {}, (None,), (0.0,), HUGE, float("nan"),
)  # fmt: skip
SWITCHES: tuple[Any, ...] = (True, False, 0, 1, None, "x", np.bool_(True))
NUMBERS: tuple[Any, ...] = (
    None, 0, 1, 2, -1, -2, 7, 1.5, 2.0, float("nan"), float("inf"), True, "x", (), (1,), (1, 2), (0, 1), [1, 0], (2,
    -1), np.int64(1), np.array(1),
    np.array([1, 2]), {}, Odd(), 1j, HUGE, [[1.0], [1.0, 2.0]], np.array(1.0),
)  # fmt: skip
TEXTS: tuple[Any, ...] = (None, "", "x", "C", "F", "A", "K", "c", 0, b"C", [], Odd(), np.str_("C"))
TYPES: tuple[Any, ...] = (
    None, float, int, bool, complex, "f2", "f4", "f8", "c8", "c16", "i2", "u1", "?", "x", np.float32, np.dtype("f4"),
    0, "O", object, "M8[s]", "U3",
    [("a", "f4")], "longdouble", "i8",
)  # fmt: skip
OUTS: tuple[Any, ...] = (None, "x", 0)
WHERES: tuple[Any, ...] = (
    True,
    False,
    None,
    np.True_,
    1,
    "x",
    [True],
    [True, False, True],
    np.array([[True], [False]]),
    np.array([1, 0, 1]),
)
ORDERS: tuple[Any, ...] = (None, 0, 1, 2, -1, -2, 3, 2.5, "fro", "nuc", "x", np.inf, -np.inf, 1j, (), [1], Odd(), float("nan"), True, -1.5)

POOLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "start", "source", "destination"), AXES),
    **dict.fromkeys(
        ("keepdims", "returned", "endpoint", "retstep", "sparse", "increasing", "include_initial", "deg", "upper",
        "overwrite_input", "copy",
         "subok", "equal_nan", "sorted", "assume_unique", "invert", "return_index", "return_inverse", "return_counts", "right", "wrap",
         "stable", "hermitian", "descending"),
        SWITCHES,
    ),
    **dict.fromkeys(("order", "kind", "mode", "method", "indexing", "norm", "UPLO", "casting", "side"), TEXTS),
    **dict.fromkeys(("dtype", "otypes"), TYPES),
    "out": OUTS,
    "where": WHERES,
    "ord": ORDERS,
}  # fmt: skip
KNOWN: dict[str, tuple[Any, ...]] = {
    "mode": ("full", "same", "valid", "raise", "wrap", "clip", "edge", "reflect", "symmetric", "constant", "empty",
    "mean", "linear_ramp", "FULL", 1, 2),
    "kind": ("quicksort", "heapsort", "mergesort", "stable", "introselect"),
    "method": ("linear", "lower", "higher", "midpoint", "nearest", "hazen", "weibull", "median_unbiased", "inverted_cdf"),
    "indexing": ("xy", "ij"),
    "norm": ("ortho", "forward", "backward"),
    "UPLO": ("L", "U", "l", "u"),
    "casting": ("no", "equiv", "safe", "same_kind", "unsafe"),
    "side": ("left", "right", "L"),
}  # fmt: skip


def arrays_like(x: Any) -> Iterator[tuple[str, Any]]:
    """Replacements of an array."""
    a = np.asarray(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in ("f2", "f4", "f8", "c8", "c16", "i2", "i8", "u1", "?"):
            yield kind, a.astype(kind)
    if a.ndim:
        yield "Fortran", np.asfortranarray(a)
        yield "reversed", a[::-1]
        yield "list", a.tolist()
        yield "list of arrays", list(a)
        yield "tuple of arrays", tuple(a)
        yield "empty along the first axis", a[:0]
        yield "empty along the last axis", a[..., :0]
        yield "shorter", a[:-1]
        yield "one row", a[:1]
        yield "first row", a[0]
        yield "not contiguous", np.repeat(a, 2, axis=-1)[..., ::2]
    if a.ndim > 1:
        yield "transposed", a.T
    yield "axis in front", a[None]
    yield "axis behind", a[..., None]
    yield "pair", np.stack([a, a * 0.5 if a.dtype.kind in "fc" else a])
    yield from {
        "float": 1.5, "int": 2, "complex": 0.5 + 1j, "bool": True, "f8 number": np.float64(1.25),
        "f4 number": np.float32(1.25), "0-d": np.array(1.5),
        "0-d c16": np.array(1 + 2j), "0-d f4": np.array(1.5, np.float32), "i8 number": np.int64(2),
        "empty": np.zeros(0), "empty rows": np.zeros((2, 0)),
        "no rows": np.zeros((0, 3)), "empty list": [], "ones": np.ones(7), "many axes": np.ones((2, 1, 2, 2)), "None": None, "text": "text",
        "texts": np.array(["a", "b"]), "nan": float("nan"), "inf": np.array([np.inf, -np.inf, np.nan]), "dict": {},
        "object": Odd(), "set": {1.0},
        "ragged": [[1.0], [1.0, 2.0]], "masked": np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]),
        "dates": np.array(["2020-01-01"], "M8[D]"),
        "objects": np.array([1.0, 2.5], object), "records": np.array([(1.0,)], [("a", "f8")]), "bytes": b"abc",
        "huge int": HUGE, "function": abs,
    }.items()  # fmt: skip


def _pool(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if _is_array(value) or (isinstance(value, (list, tuple)) and value and any(map(_is_array, value))):
        if not _is_array(value):  # several arrays: the first and the last exchanged
            there = [place for place, part in enumerate(value) if _is_array(part)]
            for place in {there[0], there[-1]}:
                for what, other in arrays_like(value[place]):
                    yield f"[{place}] {what}", type(value)([*value[:place], other, *value[place + 1 :]])
            yield "one", type(value)(value[:1])
            yield "none", type(value)()
        yield from (arrays_like(value) if _is_array(value) else ((w, v) for w, v in arrays_like(np.ones(3)) if not _is_array(v)))
        return
    pool = POOLS.get(name, NUMBERS)
    if pool is NUMBERS and value is inspect.Parameter.empty:
        pool = (*NUMBERS, *SWITCHES, *TEXTS[:3])
    for other in (*KNOWN.get(name, ()), *pool):
        yield repr(other)[:40].split(" at 0x")[0], other
    if isinstance(value, (int, float, complex, np.generic)) and not isinstance(value, bool):
        yield from arrays_like(value)


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) or type(x) in (float, complex)


def variants(call: Call) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The exchange, and the arguments: each one given in turn, then each keyword that is not."""
    yield "as it is", call.args, call.kwargs
    names = _parameters(call.name)
    for place, value in enumerate(call.args):
        name = names[place] if place < len(names) else ""
        for what, other in _pool(name, value):
            if other is HUGE and call.name == "diff":
                continue  # NumPy takes that many differences, one by one
            yield f"{name or place} = {what}", (*call.args[:place], other, *call.args[place + 1 :]), call.kwargs
    for name, value in call.kwargs.items():
        for what, other in _pool(name, value):
            yield f"{name} = {what}", call.args, {**call.kwargs, name: other}
    for name in names[len(call.args) :]:
        if name not in call.kwargs:
            for what, other in _pool(name, inspect.Parameter.empty):
                if other is HUGE and call.name == "diff":
                    continue
                yield f"{name} = {what}", call.args, {**call.kwargs, name: other}
    yield "no arguments", (), {}
    yield "one more", (*call.args, "one more"), call.kwargs
    yield "unknown keyword", call.args, {**call.kwargs, "unknown_keyword": 1}


def _parameters(name: str) -> list[str]:
    target: Any = np if getattr(np, name.split(".")[0], None) is not None else dn
    for part in name.split("."):
        target = getattr(target, part)
    if isinstance(target, np.ufunc):
        return [f"x{k + 1}" for k in range(target.nin)] + ["out", "where", "dtype", "casting", "order", "subok"]
    try:
        parameters = inspect.signature(target).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not p.name.startswith("_")]


# outcomes


class _Reference:
    """NumPy with the further names of diffsim's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def cummax(self, a: Any, axis: Any = None) -> Any:
        np.cumsum(a, axis)  # refuses wrong arguments
        return np.maximum.accumulate(np.ravel(a) if axis is None else np.atleast_1d(a), 0 if axis is None else axis)

    def cummin(self, a: Any, axis: Any = None) -> Any:
        np.cumsum(a, axis)
        return np.minimum.accumulate(np.ravel(a) if axis is None else np.atleast_1d(a), 0 if axis is None else axis)

    def logsumexp(self, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        a = np.asarray(a)
        a = a.astype(float) if a.dtype.kind in "iub" else a
        np.sum(np.log(np.exp(a)), axis, keepdims=keepdims)  # refuses wrong arguments
        top = np.max(a.real, axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0).astype(a.real.dtype)
        return np.log(np.sum(np.exp(a - top), axis, keepdims=keepdims)) + (top if keepdims else np.sum(top, axis))


REFERENCE = _Reference()


@dataclass
class Outcome:
    """The outcome of a call: values, or its error, and its arguments afterwards."""

    values: Any = None
    error: BaseException | None = None


READABLE = (TypeError, ValueError, IndexError, DiffsimError)
"""Errors that a wrong argument may raise, besides those of NumPy."""


def of_numpy(call: Call, args: Any, kwargs: Any, traced: bool) -> Outcome:
    """By NumPy alone; a Python number that is differentiated is one of NumPy's."""
    args, kwargs = (_as_numbers(args), _as_numbers(kwargs)) if traced else (args, kwargs)
    return _quietly(lambda: _frozen(_with_arguments(call, REFERENCE, copy.deepcopy(args), copy.deepcopy(kwargs))))


def _as_numbers(x: Any) -> Any:
    if type(x) in (list, tuple):
        return type(x)(map(_as_numbers, x))
    if type(x) is dict:
        return {key: _as_numbers(part) for key, part in x.items()}
    return np.float64(x) if type(x) is float else np.complex128(x) if type(x) is complex else x


def inside(call: Call, args: Any, kwargs: Any, traced: bool) -> Outcome:
    """Inside of a derivative: with each floating-point array differentiated, or with arrays that are constants."""
    places: list[Any] = []
    args, kwargs = copy.deepcopy(args), copy.deepcopy(kwargs)
    _collect((args, kwargs), places)
    kept: list[Any] = []

    def function(anchor: Any, *values: Any) -> Any:
        anchors = iter(values)
        a, k = _replaced((args, kwargs), anchors, traced)
        result = _with_arguments(call, dn, a, k)
        kept.append(_frozen(result))
        return list(_floats(result)) if traced else anchor

    def run() -> Any:
        value, pullback = ds.vjp(function, 1.0, *places)
        bars = pullback([np.ones_like(v) for v in value]) if traced else ()
        for x, bar in zip(places, bars[1:], strict=False):
            if bar is not None and (np.shape(bar) != np.shape(x) or np.asarray(bar).dtype != np.asarray(x).dtype):
                raise AssertionError(f"cotangent of {np.shape(bar)} {np.asarray(bar).dtype} for {np.shape(x)} {np.asarray(x).dtype}")
        return kept[0]

    return _quietly(run)


def _with_arguments(call: Call, namespace: Any, args: Any, kwargs: Any) -> Any:
    if namespace is REFERENCE and call.name in ("empty", "empty_like"):  # diffsim's hold zeros
        call = Call(call.name.replace("empty", "zeros"), args, kwargs)
        kwargs = {("a" if k == "prototype" else k): v for k, v in kwargs.items()}
    result = call.run(namespace, args, kwargs)
    result = list(result) if inspect.isgenerator(result) or type(result).__name__ in ("ndenumerate", "ndindex", "map") else result
    return (result, args, kwargs) if call.name.split(".")[-1] in IN_PLACE else result


IN_PLACE = ("put", "place", "putmask", "fill_diagonal", "copyto", "put_along_axis", "at")


def _collect(x: Any, places: list[Any]) -> None:
    if isinstance(x, (list, tuple)):
        for part in x:
            _collect(part, places)
    elif isinstance(x, dict):
        for part in x.values():
            _collect(part, places)
    elif _can_be_traced(x):
        places.append(x)


def _can_be_traced(x: Any) -> bool:
    return (type(x) is np.ndarray or isinstance(x, np.generic) or type(x) in (float, complex)) and np.asarray(x).dtype.kind in "fciub"


def _replaced(x: Any, given: Iterator[Any], traced: bool) -> Any:
    if type(x) in (list, tuple):
        return type(x)([_replaced(part, given, traced) for part in x])
    if type(x) is dict:
        return {key: _replaced(part, given, traced) for key, part in x.items()}
    if not _can_be_traced(x):
        return x
    value = next(given)
    if not isinstance(value, Array) or value._scalar or value.ndim == 0:
        return value if traced else x
    return dn.array(value) if traced else dn.array(x)  # a copy, which may be written to


def _frozen(x: Any) -> Any:
    """Values without derivative, each with a flag for arrays."""
    if isinstance(x, Array):
        value = np.array(bottom(x.core()))
        return value[()] if x._scalar else value
    if isinstance(x, (list, tuple)):
        return [_frozen(part) for part in x]
    if isinstance(x, dict):
        return [_frozen(part) for part in x.values()]
    return x


def _floats(x: Any) -> Iterator[Any]:
    if isinstance(x, (Array, np.ndarray, np.generic)):
        if x.dtype.kind in "fc":
            yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _floats(part)
    elif isinstance(x, dict):
        for part in x.values():
            yield from _floats(part)


def _quietly(function: Callable[[], Any]) -> Outcome:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return Outcome(function())
        except Exception as error:
            return Outcome(error=error)


# differences

EXACT = 1e-11
TOLERANCE = {"e": 4e-3, "f": 2e-5, "F": 2e-5}
"""Tolerances of values of single and half precision, relative and absolute; NumPy and diffsim may round in another order."""


def coarsest(x: Any) -> float:
    """The tolerance for results from arguments."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        return max(map(coarsest, x), default=EXACT)
    return TOLERANCE.get(x.dtype.char, EXACT) if isinstance(x, (np.ndarray, np.generic)) else EXACT


def difference(found: Outcome, wanted: Outcome, tolerance: float = EXACT) -> str:
    """How an outcome departs from NumPy's: "" (not at all), or a kind of departure and its description."""
    error = found.error
    if error is not None:
        first = str(error)
        if wanted.error is None:
            return f"refused: {first}" if isinstance(error, DiffsimError) else f"raised: {type(error).__name__}: {first[:120]}"
        readable = (*READABLE, type(wanted.error))
        return "" if isinstance(error, readable) and first else f"internal: {type(error).__name__}: {first[:120]}"
    if wanted.error is not None:
        return f"accepted: NumPy raises {type(wanted.error).__name__}: {str(wanted.error)[:80]}"
    return _unlike(found.values, wanted.values, tolerance)


def _unlike(a: Any, b: Any, tolerance: float) -> str:
    if isinstance(b, list):
        if not isinstance(a, list) or len(a) != len(b):
            return f"kind: {type(a).__name__} where NumPy gives {len(b)} parts"
        return next((text for x, y in zip(a, b, strict=True) if (text := _unlike(x, y, tolerance))), "")
    if not isinstance(b, (np.ndarray, np.generic)):
        if type(a).__name__ == type(b).__name__ == "vectorize":
            return ""
        if type(a) is not type(b) and not (isinstance(a, (int, float, complex, np.generic)) and isinstance(b, (int, float, complex))):
            return f"kind: {type(a).__name__} where NumPy gives {type(b).__name__}"
        return "" if isinstance(b, Odd) or callable(b) or _equal(a, b, tolerance) else f"value: {a!r} where NumPy gives {b!r}"[:160]
    if type(b) is not np.ndarray and isinstance(b, np.ndarray) and type(a) is not type(b):
        return f"kind: {type(a).__name__} where NumPy gives {type(b).__name__}"
    if np.shape(a) != b.shape:
        return f"shape: {np.shape(a)} where NumPy gives {b.shape}"
    if np.asarray(a).dtype != b.dtype:
        return f"dtype: {np.asarray(a).dtype} where NumPy gives {b.dtype}"
    if isinstance(a, np.ndarray) != isinstance(b, np.ndarray):
        return f"kind: {type(a).__name__} where NumPy gives {type(b).__name__}"
    return "" if _equal(a, b, tolerance) else f"value: {a!r} where NumPy gives {b!r}".replace("\n", " ")[:200]


def _equal(a: Any, b: Any, tolerance: float) -> bool:
    x, y = np.asarray(a), np.asarray(b)
    if y.dtype.kind == "O":
        return x.shape == y.shape and all(p is q or p != p or bool(np.all(p == q)) for p, q in zip(x.flat, y.flat, strict=True))
    if y.dtype.kind not in "fc":
        return bool(np.array_equal(x, y, equal_nan=y.dtype.kind in "mM"))
    tolerance = max(tolerance, TOLERANCE.get(y.dtype.char, EXACT))
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True))


def chosen(calls: list[Call], most: int) -> list[Call]:
    """Calls of distinct forms, so many of each function at most."""
    selected: list[Call] = []
    seen: set[Any] = set()
    counts: dict[str, int] = {}
    for call in calls:
        form = (call.name, _kind_of(call.args), _kind_of(call.kwargs))
        if form not in seen and counts.get(call.name, 0) < most:
            seen.add(form)
            counts[call.name] = counts.get(call.name, 0) + 1
            selected.append(call)
    return selected


def _kind_of(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return tuple(map(_kind_of, x))
    if isinstance(x, dict):
        return tuple((key, _kind_of(part)) for key, part in x.items())
    return (x.ndim, x.dtype.kind) if isinstance(x, np.ndarray) else type(x).__name__


def departures(call: Call) -> Iterator[tuple[str, str, str]]:
    """The exchange, the way the outcome differs from NumPy's, and the words; of each exchange that differs."""
    for what, args, kwargs in variants(call):
        for traced in (True, False):
            text = difference(inside(call, args, kwargs, traced), of_numpy(call, args, kwargs, traced), coarsest((args, kwargs)))
            if text:
                kind, _, words = text.partition(": ")
                yield what, kind, words
