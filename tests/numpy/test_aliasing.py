"""Arrays share memory as NumPy's do: over the table and over layouts, what is edited is read back through everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.arrays import guard
from diffsim.ad.arrays.array import Array
from diffsim.ad.arrays.guard import COPY_BYTES
from diffsim.errors import DerivativeError, ReadOnlyError, StaleValueError
from tests.sampled import together

from .entry import Entry, Table, apart, complex_normal, positive
from .layouts import LAYOUTS, laid
from .measures import differences, directions, leaves, pairing
from .table import ENTRIES, OF_EACH

ROUNDING = 1e-11
"""Values are of order 1 and the numbers added to them up to 2000; some functions compute in another order than NumPy's."""
DEGENERATE = ("of no axes", "empty", "broadcast rows", "broadcast columns")
"""Layouts of arrays, 0-d, empty or of rank one, for which some functions raise an error where NumPy has an answer."""
REFUSED_WHERE_DEGENERATE = (ValueError, IndexError, TypeError, ZeroDivisionError, np.linalg.LinAlgError, DerivativeError)

# Arrays of two and more axes for functions of which the table has vectors only, and arguments that decide about copies.
FURTHER = Table()
call, add = FURTHER.call, FURTHER.add
for _order in ("C", "F", "A", "K"):
    call("copy", apart(2, 3), order=_order)
    call("array", apart(2, 3), order=_order)
    call("array", apart(2, 3), copy=None, order=_order)
    call("asarray", apart(2, 3), order=_order)
    call("ravel", apart(2, 3), order=_order)
    call("zeros_like", apart(2, 3), order=_order)
    add("method.copy", lambda np, x, o=_order: x.copy(o), (apart(2, 3),), _order)
    add("method.ravel", lambda np, x, o=_order: x.ravel(o), (apart(2, 3),), _order)
    add("method.flatten", lambda np, x, o=_order: x.flatten(o), (apart(2, 3),), _order)
    for _copy in (None, True):
        if _order != "K":
            call("reshape", apart(2, 3), (3, 2), order=_order, copy=_copy)
            call("reshape", apart(2, 3), (2, 3), order=_order, copy=_copy)
            call("reshape", apart(2, 2, 3), (4, 3), order=_order, copy=_copy)
for _name in ("zeros", "ones"):
    call(_name, (2, 3), order="F")
call("full", (2, 3), 1.5, order="F")
call("array", apart(2, 3), copy=False)
call("array", apart(2, 3), ndmin=4)
call("array", apart(2, 3), float, copy=None, ndmin=3)
call("asarray", apart(2, 3), float)
call("asarray", apart(2, 3), complex)
call("ascontiguousarray", apart(2, 3))
call("asfortranarray", apart(2, 3))
call("nan_to_num", apart(2, 3), copy=False)
call("astype", apart(2, 3), float, copy=False)
call("astype", apart(2, 3), np.float32, copy=False, options={"single": False})
add("method.astype", lambda np, x: x.astype(float, copy=False), (apart(2, 3),), "itself")
add("method.astype", lambda np, x: x.astype(float, "F", copy=False), (apart(2, 3),), "columns")
add("array", lambda np, x: np.array([x.T, x.T]), (apart(2, 3),), "of transposes")
add("array", lambda np, x: np.array([[x, x], [x, x]]), (apart(2, 3),), "of arrays")
add("vectorize", lambda np, x: np.vectorize(lambda v: v * 2.0)(x), (apart(2, 3),), dispatch=False)
add("vectorize", lambda np, x: np.vectorize(lambda v: (v, v * 2.0))(x), (apart(2, 3),), dispatch=False)
add("select", lambda np, x, y: np.select([x > 0, x < -1.0], [x, y], 0.0), (apart(2, 3), apart(2, 3)))
add("choose", lambda np, x, y: np.choose(np.array([[0, 1, 1], [1, 0, 0]]), [x, y]), (apart(2, 3), apart(2, 3)))
add("where", lambda np, x, y: np.where(x > y, x, y), (apart(2, 3), apart(2, 3)))
add("meshgrid", lambda np, x, y: np.meshgrid(x, y, copy=False), (apart(2), apart(3)))
add("broadcast_to", lambda np, x: np.broadcast_to(x, (2, 2, 3)).copy(), (apart(2, 3),), "copied")
add("broadcast_to", lambda np, x: np.copy(np.broadcast_to(x, (2, 2, 3))), (apart(2, 3),), "copied as it is")
add("broadcast_to", lambda np, x: np.broadcast_to(x, (2, 2, 3)) * 2.0, (apart(2, 3),), "scaled")
add("broadcast_to", lambda np, x: np.sum(np.broadcast_to(x, (4, 2, 3)), axis=1), (apart(2, 3),), "summed")
add("fft.irfft", lambda np, x: np.fft.irfft(x, axis=0), (complex_normal(3, 2),))
for _name in ("fft", "rfft", "ihfft"):
    for _axis in (0, 1, 2):
        call(f"fft.{_name}", apart(2, 3, 2), axis=_axis)
for _name in ("irfft", "hfft"):
    for _axis in (0, 1, 2):
        call(f"fft.{_name}", complex_normal(2, 3, 2), axis=_axis)
for _name in ("rfft2", "rfftn"):
    call(f"fft.{_name}", apart(2, 3, 2), axes=(1, 0))
for _name in ("cumsum", "cumprod", "sort", "gradient", "trapezoid", "take_along_axis"):
    for _axis in (0, 1, 2):
        extra = (np.zeros((1, 1, 1), int),) if _name == "take_along_axis" else ()
        call(_name, apart(2, 3, 2), *extra, axis=_axis)
for _name in ("max", "min", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmax", "nanmean", "nanstd", "average"):
    for _axis in (0, 1, 2):
        call(_name, apart(2, 3, 2), axis=_axis)
call("sum", apart(2, 3, 2), axis=1, where=np.array([[True], [False], [True]]))
call("mean", apart(2, 3, 2), axis=1, where=np.array([[True], [False], [True]]), keepdims=True)
for _name in ("cummax", "cummin"):
    _ufunc = np.maximum if _name == "cummax" else np.minimum
    call(_name, apart(3, 2, 2), axis=1, options={"reference": lambda x, u=_ufunc: u.accumulate(x, axis=1)})
for _axis in (0, 1):
    call("repeat", apart(2, 3), 2, axis=_axis)
    call("take", apart(2, 3), [0, 1], axis=_axis)
    call("delete", apart(2, 3), 1, axis=_axis)
    call("delete", apart(2, 3), [0, 1], axis=_axis)
    call("delete", apart(2, 3), [True, False, True][: 2 + _axis], axis=_axis)
    call("insert", apart(2, 3), [0, 1], 1.5, axis=_axis)
    call("insert", apart(2, 3), 1, 1.5, axis=_axis)
    call("compress", [True, True], apart(2, 3), axis=_axis)
    call("partition", apart(2, 3), 1, axis=_axis)
    call("roll", apart(2, 3), 1, axis=_axis)
    call("roll", apart(2, 3), 0, axis=_axis)
    call("cumulative_sum", apart(2, 3), axis=_axis, include_initial=True)
    call("diff", apart(2, 3), axis=_axis, prepend=0.5)
call("tile", apart(2, 3), 1)
call("tile", apart(2, 3), (1, 1, 1))
call("tile", apart(2, 3), (2, 1))
call("interp", positive(2, 3), np.arange(3.0), apart(3))
call("polyval", apart(3), apart(2, 3))
call("clip", apart(2, 3), None, 1.0)
call("squeeze", apart(2, 3))
call("squeeze", apart(2, 1, 3))
call("inner", apart(2, 3), 2.0)
call("dot", apart(2, 3), 2.0)
call("cross", apart(2, 3, 2), apart(2, 3, 2), axis=1)
for _subscripts in ("ij", "ij->ij", "ij->ji", "ji", "i...->...i", "ij->i", "ij->j", "ij->"):
    call("einsum", _subscripts, apart(2, 3))
for _subscripts in ("ii->i", "ii->", "...ii->...i"):
    call("einsum", _subscripts, apart(3, 3))
for _subscripts in ("iij->ij", "iij->ji", "jii->ij", "iii->i", "ij...->ji...", "iij->j"):
    call("einsum", _subscripts, apart(3, 3, 3))
for _subscripts in ("ijk,kl->lij", "ijk,kl->ijl", "ijk,lk->jil"):
    call("einsum", _subscripts, apart(2, 3, 2), apart(2, 2))
_COLUMNS = np.array([[0, 1], [1, 0]], order="F")
for _index in ([0, 1], [[0, 1], [1, 0]], _COLUMNS, (slice(None), [0, 1]), ([0, 1], [1, 1]), (..., [0, 1], None)):
    add("operator.getitem", lambda np, x, i=_index: x[i], (apart(2, 3, 2),), str(_index))
add("operator.getitem", lambda np, x: x[x > 0], (apart(2, 3),), "mask")
EVERY = [*ENTRIES, *FURTHER.entries]


# The next operation on an array: each gives views or copies.
SECOND: tuple[Callable[[Any, Any], list[Any]], ...] = (
    lambda np, a: [np.ravel(a)],
    lambda np, a: [np.reshape(a, -1)],
    lambda np, a: [np.ascontiguousarray(a)],
    lambda np, a: [np.asfortranarray(a)],
    lambda np, a: [a.T.ravel()],
    lambda np, a: [a.ravel("K")],
    lambda np, a: [a.copy(), a.copy().ravel()],
    lambda np, a: [product := a * 1.0, product.ravel()],
)
LARGEST = 3
"""Results of a function that are followed further."""


def is_array(a: Any) -> bool:
    return isinstance(a, np.ndarray) or (isinstance(a, Array) and not dn.isscalar(a))


def run(np_: Any, entry: Entry, values: tuple[Any, ...], left_out: frozenset[int] = frozenset()) -> tuple[list[Any], frozenset[int]]:
    """The arguments and results of an entry's function, and results of these, after each of them was edited in turn.

    Args:
        np_: the namespace.
        entry: the function.
        values: its arguments.
        left_out: numbers of arrays that are not edited.

    Returns:
        All arrays and numbers, and the numbers of those of which an edit was refused.
    """
    results = leaves(entry.of_numpy(*values) if np_ is np else entry.function(np_, *values))
    everything = [*values, *results]
    for a in results[:LARGEST]:
        everything += [b for second in SECOND for b in second(np_, a)] if is_array(a) else []
    amounts = np.random.default_rng(3).uniform(1.0, 9.0, len(everything))
    refused = set()
    for k, a in enumerate(everything):
        if k not in left_out and is_array(a) and a.size and np.dtype(a.dtype).kind in "iufc":
            try:
                a[(0,) * a.ndim] += np.dtype(a.dtype).type(amounts[k])
            except (ValueError, DeprecationWarning):  # NumPy is about to refuse edits of results of broadcast_arrays
                refused.add(k)
    return everything, frozenset(refused)


def cases(entry: Entry, layouts: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Arguments of an entry in the layouts for which NumPy has an answer."""
    values = entry.values()
    arrays = any(isinstance(v, np.ndarray) and v.ndim for v in values)
    for layout in layouts if arrays else ("rows",):
        laid_out = tuple(laid(v, layout) for v in values)
        try:
            with np.errstate(all="ignore"):
                entry.of_numpy(*laid_out)
        except (ValueError, IndexError, TypeError, RuntimeError, RuntimeWarning, ZeroDivisionError, np.linalg.LinAlgError):
            continue
        yield layout, laid_out


def has_an_answer(entry: Entry, given: tuple[Any, ...]) -> bool:
    """True if a function gives the same as NumPy's, or anything at all, for arguments out of its domain."""
    try:
        results, _ = ds.vjp(lambda *values: entry.function(dn, *values), *given)
    except REFUSED_WHERE_DEGENERATE:
        return False
    return all(
        np.shape(a) == np.shape(b) and np.allclose(a, b, ROUNDING, ROUNDING, equal_nan=True)
        for a, b in zip(leaves(results), leaves(entry.of_numpy(*given)), strict=True)
    )


def strides(a: Any) -> tuple[int, ...]:
    """Strides of the axes that are longer than 1; those of others mean nothing."""
    layout = a._layout() if isinstance(a, Array) else a
    return tuple(s for s, n in zip(layout.strides, layout.shape, strict=True) if n > 1) if layout.size else ()


IN_GATE = [entry for entry in EVERY if entry in OF_EACH.union(FURTHER.entries[::4])]
THIRDS = [(entry, tuple(LAYOUTS)[number % 3 :: 3]) for number, entry in enumerate(IN_GATE)]
"""The gate's entries, each with a third of the layouts: over all functions there is every layout."""


@together([*THIRDS, *((entry, tuple(LAYOUTS)) for entry in EVERY)], lambda case: case[0].name, gate=frozenset(THIRDS), apart=True)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_edits_reach_the_same_arrays_as_in_numpy(entry: Entry, layouts: Sequence[str]) -> None:
    for layout, arguments in cases(entry, layouts):
        expected, refused = run(np, entry, tuple(laid(v, layout) for v in entry.values()))
        left_out = refused if "broadcast" in layout else frozenset()  # of such an argument the function has a copy, which it may edit
        kept: list[Any] = []

        def f(*values: Any, skip: frozenset[int] = left_out, into: list[Any] = kept) -> Any:
            everything, mine = run(dn, entry, values, skip)
            into[:] = [mine | skip, [strides(a) if is_array(a) else None for a in everything]]
            return everything

        if layout in DEGENERATE and not has_an_answer(entry, arguments):
            continue
        arrays, _ = ds.vjp(f, *arguments)
        assert kept[0] == refused, layout
        assert kept[1] == [strides(a) if is_array(a) else None for a in expected], layout
        for k, (a, b) in enumerate(zip(arrays, expected, strict=True)):
            np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING, err_msg=f"{layout}, array {k}")


SAMPLED = [e for e in EVERY[::9] + FURTHER.entries[::2] if not e.constant and e.single and e.arguments]
"""Functions of real numbers, whose derivatives through edits are compared with differences of NumPy's."""


@together(SAMPLED, lambda e: e.name)
def test_gradients_through_edits(entry: Entry) -> None:
    rng = np.random.default_rng(8)
    values = entry.values()
    for layout in ("columns", "strided"):

        def by_numpy(*moved: Any, layout: str = layout) -> list[Any]:
            return run(np, entry, tuple(laid(v, layout) for v in moved))[0]

        arguments = tuple(laid(v, layout) for v in values)
        results, pullback = ds.vjp(lambda *v: run(dn, entry, v)[0], *arguments)
        along, cts = directions(rng, arguments), directions(rng, results)
        expected = pairing(cts, differences(by_numpy, values, along))
        assert pairing(along, pullback(cts)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


PLAIN_LAYOUTS = [name for name in LAYOUTS if "broadcast" not in name]


@pytest.mark.parametrize("layout", PLAIN_LAYOUTS)
def test_arrays_from_around_are_laid_out_as_they_are(layout: str) -> None:
    """A result from an outside NumPy array cannot be edited where NumPy has a view of it, and is read anew after an edit."""
    start = np.arange(1.0, 7.0).reshape(2, 3)
    c, theirs = laid(start, layout), laid(start, layout)

    def views(np_: Any, c: np.ndarray) -> list[Any]:
        a = np_.asarray(c)
        return [a, *(b for second in SECOND for b in second(np_, a))]

    def edited(x: Any) -> list[Any]:
        arrays = views(dn, c)
        for k, (a, b) in enumerate(zip(arrays, expected, strict=True)):
            if np.shares_memory(b, theirs) and b.size:
                with pytest.raises(ReadOnlyError, match=r"copy, diffsim.numpy.array\(a\)"):
                    a[(0,) * a.ndim] += 2.0**k
            elif is_array(a) and b.size:
                a[(0,) * a.ndim] += 2.0**k
        c[...] += 100.0
        return arrays

    expected = views(np, theirs)
    results, _ = ds.vjp(edited, 1.0)
    for k, b in enumerate(expected):
        if is_array(b) and not np.shares_memory(b, theirs) and b.size:
            b[(0,) * b.ndim] += 2.0**k
    theirs[...] += 100.0
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_array_equal(a, b)


# Functions of an array of three axes and their arguments after it: all that are views in NumPy for some arguments.
VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "asarray": lambda np, c: np.asarray(c),
    "array(copy=None)": lambda np, c: np.array(c, copy=None),
    "array(copy=False)": lambda np, c: np.array(c, copy=False, ndmin=5),
    "ascontiguousarray": lambda np, c: np.ascontiguousarray(c),
    "asfortranarray": lambda np, c: np.asfortranarray(c.T),
    "astype": lambda np, c: np.astype(c, float, copy=False),
    "reshape": lambda np, c: np.reshape(c, (6, -1)),
    "ravel": lambda np, c: np.ravel(c),
    "transpose": lambda np, c: np.transpose(c),
    "swapaxes": lambda np, c: np.swapaxes(c, 0, 1),
    "moveaxis": lambda np, c: np.moveaxis(c, 0, 1),
    "rollaxis": lambda np, c: np.rollaxis(c, 2),
    "matrix_transpose": lambda np, c: np.linalg.matrix_transpose(c),
    "expand_dims": lambda np, c: np.expand_dims(c, 0),
    "squeeze": lambda np, c: np.squeeze(c[:1]),
    "atleast_3d": lambda np, c: np.atleast_3d(c[0]),
    "diagonal": lambda np, c: np.diagonal(c),
    "diag": lambda np, c: np.diag(c[0]),
    "real": lambda np, c: np.real(c),
    "real of complex": lambda np, c: np.real(c.view(complex)),
    "imag of complex": lambda np, c: np.imag(c.view(complex)),
    "broadcast_to": lambda np, c: np.broadcast_to(c, (2, *c.shape)),
    "broadcast_arrays": lambda np, c: np.broadcast_arrays(c, [[[[1.0]]], [[[1.0]]]])[0],
    "split": lambda np, c: np.split(c, 3, 1)[1],
    "unstack": lambda np, c: np.unstack(c)[1],
    "flip": lambda np, c: np.flip(c),
    "rot90": lambda np, c: np.rot90(c),
    "einsum": lambda np, c: np.einsum("ijk->kij", c),
    "einsum diagonal": lambda np, c: np.einsum("iji->ij", c[:, :, :2]),
    "meshgrid": lambda np, c: np.meshgrid(c[0, 0], c[0, :, 0], copy=False)[0],
    "trim_zeros": lambda np, c: np.trim_zeros(c[0, 0]),
    "require": lambda np, c: np.require(c),
    "slice": lambda np, c: np.asarray(c)[1:, 0],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("rows", [4, 40000])
def test_every_view_of_an_array_from_around_reads_it_and_refuses_edits(name: str, rows: int) -> None:
    """The tape refers to large arrays themselves, so that an edit of one raises."""
    start = np.arange(1.0, 6.0 * rows + 1.0).reshape(2, 3, rows)
    reference = start.copy()
    view = VIEWS[name](np, reference)
    assert np.shares_memory(view, reference)

    def f(x: Any) -> Any:
        c = start.copy()
        seen = VIEWS[name](dn, c)
        before = dn.sum(x * seen)
        with pytest.raises(ReadOnlyError):
            seen[...] = 7.0
        c += 1.0
        return dn.sum(x * seen) - before

    try:
        assert ds.grad(f)(1.0) == pytest.approx(view.size)
    except StaleValueError:
        assert reference.nbytes > COPY_BYTES


def test_values_of_an_array_that_another_function_shares_are_views_of_it() -> None:
    """Functions without rules work on values; their result shares memory in NumPy, so it is a view that cannot be assigned to."""

    def f(x: Any) -> Any:
        a = dn.zeros(4) + 1.0
        kept, slid = dn.trim_zeros(a), np.lib.stride_tricks.sliding_window_view(a, 2)
        a[1] = 5.0
        for view in (kept, slid):
            with pytest.raises(ReadOnlyError):
                view[0] = 2.0
        total = dn.sum(kept) + dn.sum(slid)
        a[0] = 0.0
        with pytest.raises(StaleValueError, match="trim_zeros again"):
            dn.sum(kept)
        return x * total

    assert ds.grad(f)(1.0) == 8.0 + 12.0 + 2.0


def test_values_read_before_an_edit_of_an_outside_array_keep_their_derivative() -> None:
    c = np.array([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        v = dn.reshape(c, (3, 1))
        y = dn.sum(x * v)
        c[0] = 10.0
        return y + 100.0 * dn.sum(x * v)

    assert ds.grad(f)(1.0) == 6.0 + 1500.0


def test_in_a_body_that_is_run_again_an_edit_of_an_array_that_it_read_raises() -> None:
    c = np.array([1.0, 2.0, 3.0])
    outer: list[Any] = []

    def f(x: Any) -> Any:
        v = dn.asarray(c)
        outer[:] = [v]
        y = ds.remat(lambda x: dn.sum(x * v * x))(x)
        c[0] = 10.0
        return y

    with pytest.raises(StaleValueError):
        ds.grad(f)(2.0)
    assert float(outer[0][0]) == 10.0  # after the derivative as well


@pytest.mark.parametrize("looped", [False, True])
def test_reading_entries_of_an_array_from_around_costs_no_look_at_all_of_it(monkeypatch: pytest.MonkeyPatch, looped: bool) -> None:
    c = np.arange(10_000.0)
    looked: list[int] = []
    true = guard.fingerprint
    monkeypatch.setattr(guard, "fingerprint", lambda a: (looked.append(a.nbytes), true(a))[1])

    def f(x: Any) -> Any:
        v = dn.asarray(c)
        if looped:
            return ds.remat(lambda x: sum(x * v[i] for i in range(50)))(x)
        return sum(x * v[i] + dn.sum(v[i : i + 2]) * x for i in range(50))

    assert ds.grad(f)(1.0) == (1225.0 if looped else 3 * 1225.0 + 50.0)
    assert sum(looked) < 20 * c.nbytes


def test_an_edit_between_two_loops_is_refused_in_forward_mode_as_well() -> None:
    c = np.arange(1000.0)

    def f(x: Any) -> Any:
        v = dn.asarray(c)
        y = ds.fori_loop(0, 3, lambda i, s: s + x * v[i], 0.0 * x)
        c[1] = 50.0
        return y + ds.fori_loop(0, 3, lambda i, s: s + x * v[i], 0.0 * x)

    with pytest.raises(StaleValueError):
        ds.jvp(f, (1.0,), (1.0,))
