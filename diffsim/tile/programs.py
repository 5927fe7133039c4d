"""Tile programs over blocks of whole arrays: load a block, work on it, store it."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.guard import caller
from diffsim.ad.core import Tracer, local, running
from diffsim.ad.ops import structure as st
from diffsim.ad.tree import flatten, unflatten
from diffsim.base import arguments
from diffsim.errors import ArrayIndexError, DerivativeError, ShapeError, TileError
from diffsim.tile.maps import tiles as run_tiles
from diffsim.tile.source.blocks import add_blocks, covered, fit, put_blocks
from diffsim.tile.source.kernel import Form
from diffsim.tile.trace.program import Program, Variable, pruned
from diffsim.tile.trace.remedies import located
from diffsim.tile.trace.trace import Loops, TileTrace, TileTracer, interpret


class Whole:
    """An array that tiles read blocks of, as the program of a tile sees it.

    Attributes:
        shape: of the whole array.
        dtype: its type.
        ndim: number of axes.
    """

    def __init__(self, run: _Run, number: int, value: Any) -> None:
        self._run, self._number = run, number
        self.shape, self.dtype, self.ndim = tuple(value.shape), value.dtype, len(value.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > self.ndim or any(isinstance(p, (slice, type(None))) or p is Ellipsis for p in parts):
            raise TileError(
                f"{caller()}: a slice of a whole array of shape {self.shape}, expected one index for each of its first axes; "
                "read a block by ds.tile.load(x, shape, at=...)"
            )
        at = (*_positions(parts), *(0,) * (self.ndim - len(parts)))
        shape = (*(1,) * len(parts), *self.shape[len(parts) :])
        loaded = _loaded(self, shape, at, len(parts))
        block = loaded.reshape(shape[len(parts) :]) if shape[len(parts) :] else loaded.reshape(())
        self._run.references[id(block)] = block, self, self._run.loads[-1][2]
        return block

    def _refused(self, *_: Any) -> Any:
        raise TileError(
            f"{caller()}: a whole array of shape {self.shape} is used as that of one tile; read a block by ds.tile.load(x, shape, at=...), "
            "and return blocks by ds.tile.store"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __matmul__ = __neg__ = __setitem__ = __array__ = (
        __iter__
    ) = _refused


@dataclass(frozen=True)
class _Place:
    """Where a block lies in a whole array.

    Attributes:
        at: the index of its first entry along each axis.
        shape: of the whole array, for an entry x[i] of it.
        indices: how many of its axes have an index, as x[i] has, which follows NumPy; the others may lie beyond the edges.
        line: of the user's program.
    """

    at: tuple[Any, ...]
    shape: tuple[int, ...] = ()
    indices: int = 0
    line: str = ""

    def table(self, columns: Iterator[np.ndarray], number: int) -> np.ndarray:
        """The places in all tiles, of shape (tiles, axes), from those along each axis."""
        starts = [self._counted(next(columns), axis) for axis in range(len(self.at))]
        return np.stack(starts, axis=1) if starts else np.zeros((number, 0), np.int64)

    def _counted(self, column: np.ndarray, axis: int) -> np.ndarray:
        """Indices along an axis from its first entry on."""
        if axis >= self.indices:
            return column
        n = self.shape[axis]
        outside = np.flatnonzero((column < -n) | (column >= n))
        if outside.size:
            raise ArrayIndexError(
                f"{self.line}: the index {column[outside[0]]} of tile {outside[0]} is out of bounds for axis {axis} of an array of shape "
                f"{self.shape}; use indices from {-n} to {n - 1}, or ds.tile.load, which gives 0 beyond the edges"
            )
        return np.where(column < 0, column + n, column)


class _Stored:
    """The value that a program returns for an array of its results."""

    def __init__(self, place: _Place, value: Any, base: Whole | None, adds: bool, shape: tuple[int, ...] | None) -> None:
        self.place, self.value, self.base, self.adds, self.shape = place, value, base, adds, shape


class _Run:
    """A program of a tile while it is traced."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values
        self.trace = TileTrace()
        self.loads: list[tuple[int, tuple[int, ...], _Place]] = []
        self.references: dict[int, Any] = {}


class _Now(threading.local):
    run: _Run | None = None  # each thread traces a program of its own


_now = _Now()


def _running(what: str) -> _Run:
    if _now.run is None:
        raise TileError(f"{what} is called outside of a tile program, expected a function of ds.tile.kernel; call it there")
    return _now.run


def load(x: Any, shape: Any, at: Any) -> Any:
    """The block of a whole array that a tile works on; 0 beyond the edges of the array, without a derivative there.

    Args:
        x: an argument of a function of `kernel`.
        shape: of the block, an entry for each axis of `x`.
        at: the index of its first entry along each axis: whole numbers, and arithmetic with the numbers of the tile.

    Returns:
        An array of that shape.

    Raises:
        TileError: outside of a function of `kernel`, or another array than an argument; a position that is no whole number.
        ShapeError: not one whole number of at least 1 for each axis.

    Example:
        See `kernel`.
    """
    run = _running("ds.tile.load")
    if not isinstance(x, Whole) or x._run is not run:
        raise TileError(f"{caller()}: ds.tile.load of {type(x).__name__}, expected an argument of the tile program; pass the array as one")
    block, places = _shape(shape, "ds.tile.load"), _positions(at)
    if len(block) != x.ndim or len(places) != x.ndim:
        raise ShapeError(
            f"{caller()}: a block of shape {block} at {len(places)} indices of an array with {x.ndim} axes; give one number an axis"
        )
    return _loaded(x, block, places, 0)


def _shape(shape: Any, name: str) -> tuple[int, ...]:
    """The shape of a block or of a result: a number, or several.

    Raises:
        ShapeError: something else than whole numbers of at least 1.
    """
    plain = shape.tolist() if isinstance(shape, np.ndarray) else shape
    remedy = "give numbers that are the same for all tiles, one an axis, such as (8, 8)"
    listed = plain if isinstance(plain, (tuple, list)) else (plain,)
    return tuple(arguments.whole(f"{caller()}: shape of {name}", n, 1, None, remedy, ShapeError) for n in listed)


def _positions(at: Any) -> tuple[Any, ...]:
    """Positions along axes: whole numbers that are known, or those of the tile.

    Raises:
        TileError: something else, which NumPy would round, or take as one number for each tile.
    """
    positions = tuple(core(p) if isinstance(p, Array) else p for p in (at if isinstance(at, (tuple, list)) else (at,)))
    for p in positions:
        number = p if hasattr(p, "dtype") else np.asarray(None if isinstance(p, (tuple, list)) else p)
        if number.dtype.kind not in "iu" or number.shape:
            what = f"{number.dtype} of shape {number.shape}" if hasattr(p, "dtype") else type(p).__name__
            raise TileError(
                f"{caller()}: the position of a block is {what}, expected a whole number, or arithmetic with the numbers of the tile; "
                "divide by //, and read a block for each of several positions"
            )
    return positions


def _loaded(x: Whole, block: tuple[int, ...], at: tuple[Any, ...], indices: int) -> Array:
    x._run.loads.append((x._number, block, _Place(at, x.shape, indices, caller())))
    return Array(x._run.trace.argument(block, x.dtype))


def store(at: Any, value: Any, *, into: Any = None, shape: Any = None) -> Any:
    """A block of a result. Where blocks of several tiles overlap, that of the last tile stays.

    Args:
        at: the index of its first entry along each axis; or x[i], to store at that place of the argument `x`.
        value: the block, an array with as many axes.
        into: an argument of the program of which the result is a copy, but for the blocks; without it other entries are 0.
        shape: of the result; without it, the smallest that has all blocks.

    Returns:
        The value that the program returns in place of the array.

    Raises:
        TileError: outside of a function of `kernel`.
        ShapeError: the block has another number of axes.
        ArrayIndexError: by the function: a block does not fit into the result.
        DerivativeError: a block of floating-point numbers, and an array of whole numbers, which would round it.

    Example:
        See `kernel`.
    """
    return _stored(at, value, into, False, shape, "ds.tile.store")


def add(at: Any, value: Any, *, into: Any = None, shape: Any = None) -> Any:
    """A block that is added to a result: as `store`, but blocks that overlap add up, onto the entries of `into`.

    Args:
        at: as in `store`.
        value: the block.
        into: as in `store`.
        shape: as in `store`.

    Returns:
        The value that the program returns in place of the array.

    Raises:
        TileError: outside of a function of `kernel`.
        ShapeError: as in `store`.
        ArrayIndexError: as in `store`.

    Example:
        See `kernel`.
    """
    return _stored(at, value, into, True, shape, "ds.tile.add")


def _stored(at: Any, value: Any, into: Any, adds: bool, shape: Any, name: str) -> _Stored:
    run = _running(name)
    reference = run.references.get(id(at)) if isinstance(at, Array) else None
    block = core(value) if isinstance(value, (Array, np.ndarray, np.generic, Tracer)) else _array(value, name)
    if reference is not None:
        _, base, place = reference
        if block.shape and tuple(block.shape) != tuple(at.shape):
            raise ShapeError(
                f"{caller()}: a block of shape {tuple(block.shape)} for an entry of shape {tuple(at.shape)}, expected that shape"
            )
        block = st.broadcast_to(block, shape=tuple(at.shape))
        block = st.reshape(block, shape=(*(1,) * (base.ndim - len(at.shape)), *at.shape))
        _require_kept(block, base, adds)
        return _Stored(place, block, base, adds, None)
    places = _positions(at)
    if into is not None and not isinstance(into, Whole):
        raise TileError(f"{caller()}: into = {type(into).__name__} of {name}, expected an argument of the tile program")
    if len(places) != len(block.shape):
        raise ShapeError(f"{caller()}: a block of shape {tuple(block.shape)} at {len(places)} indices, expected one index an axis")
    _require_kept(block, into, adds)
    whole = None if shape is None else _shape(shape, name)
    axes = len(whole) if whole is not None else into.ndim if into is not None else len(places)
    if axes != len(places):
        what = "shape" if whole is not None else "into"
        raise ShapeError(
            f"{caller()}: {what} of {name} has {axes} axes and the block {len(places)}, expected as many; give one entry an axis"
        )
    return _Stored(_Place(places), block, into, adds, whole)


def _array(value: Any, name: str) -> np.ndarray:
    """A block that is written as a number, or as lists of numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fciub":
        raise TileError(f"{caller()}: the block of {name} is {type(value).__name__}, expected an array of numbers; give one")
    return array


def _require_kept(block: Any, base: Whole | None, adds: bool) -> None:
    """Raise if a block would be rounded to the whole numbers of the array that it is stored into."""
    if base is not None and not adds and isinstance(block, Tracer) and block.dtype.kind in "fc" and base.dtype.kind not in "fc":
        raise DerivativeError(
            f"{caller()}: a block of {block.dtype} is stored into an array of {base.dtype}, which would round it and lose its derivative; "
            f"make the array with a floating-point type, or round the block, block.astype({base.dtype})"
        )


def kernel(tiles: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A program of one tile as a function of whole arrays: one launch for all tiles.

    Args:
        tiles: how many there are: a number, or one for each axis of the grid of tiles.

    Returns:
        A decorator. The function that it takes is `(i, j, ..., x, ...)`: the numbers of the tile, one for each entry of `tiles`, and the
        arguments. Arrays are whole arrays, of which it reads blocks by `load`, and entries or rows by x[i], where i counts as in NumPy.
        Numbers are numbers. It returns results of `store` and `add`, or a pytree of them. The function that the decorator makes takes the
        arguments alone, and gives arrays. It is differentiable, to every order.

    Raises:
        ShapeError: `tiles` has no axis, or a number below 1; by the function: blocks that do not fit.
        TileError: positions that depend on values of blocks; an operation without a rule.
        ArrayIndexError: by the function: x[i] beyond the edges of x, or a block that is stored there.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A smoothing filter on blocks of 8 x 8 cells with a halo, and the sum of each column of blocks.
        @ds.tile.kernel(tiles=(4, 6))
        def smooth(i, j, x, sums):
            a = ds.tile.load(x, (10, 10), at=(8 * i - 1, 8 * j - 1))
            inner = 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
            return ds.tile.store((8 * i, 8 * j), inner), ds.tile.add(sums[j], np.sum(inner))

        x = numpy.ones((32, 48))
        y, sums = smooth(x, numpy.zeros(6))
        assert y.shape == (32, 48) and numpy.isclose(sums.sum(), y.sum())
        assert numpy.isclose(y[5, 5], 1.0) and numpy.isclose(y[0, 0], 0.6)  # 0 beyond the edge
    """
    if callable(tiles):
        raise TileError("@ds.tile.kernel without the number of tiles; write @ds.tile.kernel(tiles=(4, 6))")
    listed = tiles if isinstance(tiles, (tuple, list)) else (tiles,)
    remedy = "give the number of tiles along each axis, such as (4, 6)"
    counts = tuple(arguments.whole("tiles", n, 1, None, remedy, ShapeError) for n in listed)
    if not counts:
        raise ShapeError(f"tiles = () has no axis, expected one at least; {remedy}")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        arguments.function("function", function, "@ds.tile.kernel(tiles=(4, 4))", optional=False)

        @functools.wraps(function)
        def program(*args: Any) -> Any:
            return _carried_out(function, counts, args)

        return program

    return decorate


def _carried_out(function: Callable[..., Any], counts: tuple[int, ...], args: tuple[Any, ...]) -> Any:
    if local.tiling is not None:
        raise TileError(
            f"{caller()}: a function of ds.tile.kernel is called in a tile program, expected outside; call it before or after, or map "
            "a function over an axis of the tile by ds.tile.map"
        )
    leaves, tree = flatten(args)
    values = [core(leaf) if isinstance(leaf, (Array, np.ndarray, Tracer)) else leaf for leaf in leaves]
    run, outer, tiling = _Run(values), _now.run, local.tiling
    number = math.prod(counts)
    indices = [i.ravel() for i in np.indices(counts)]
    tracers = [run.trace.argument((), np.dtype(np.int64)) for _ in counts]
    _now.run, local.tiling = run, Loops()
    try:
        with running(), located():
            wholes = [Whole(run, k, v) if hasattr(v, "shape") and len(v.shape) else v for k, v in enumerate(values)]
            result = function(*(Array(t, scalar=True) for t in tracers), *unflatten(tree, wholes))
            stored, shape = flatten(result)
            if result is None or not stored:
                raise TileError("a tile program returned nothing, expected a result of ds.tile.store or ds.tile.add; return one")
        for leaf in stored:
            if not isinstance(leaf, _Stored):
                raise TileError(
                    f"a tile program returned {type(leaf).__name__}, expected a result of ds.tile.store or ds.tile.add; return one"
                )
        places = [place for _, _, place in run.loads] + [s.place for s in stored]
        columns = _columns(run, [p for place in places for p in place.at], indices, number)
        blocks = [
            (values[k], np.clip(place.table(columns, number), -np.array(block, int), values[k].shape))  # kernels count in 32 bits
            for k, block, place in run.loads
        ]
        targets = [s.place.table(columns, number) for s in stored]
        program = run.trace.program([s.value for s in stored])
    finally:
        _now.run, local.tiling = outer, tiling
        run.trace.ended = True
    captured = [value for value, _ in run.trace.captured.values()]
    known = dict(zip([t.variable for t in tracers], indices, strict=True))
    loaded = iter(blocks)
    names = {v.variable for _, v in run.trace.captured.values()}
    inputs: list[tuple[Any, Any]] = []
    for a in program.arguments:
        inputs.append((known[a], None) if a in known else (captured.pop(0), None) if a in names else next(loaded))
    shapes = tuple(None if p is None else tuple(x.shape) for x, p in inputs)
    form = Form(tuple(a not in names for a in program.arguments), (False,) * len(program.results), shapes)
    results = tuple(r if isinstance(r, Variable) else np.asarray(r) for r in program.results)
    whole = Program(program.arguments, program.operations, results)
    stored_values = run_tiles(*(x for x, _ in inputs), program=whole, form=form, tiles=number, places=tuple(p for _, p in inputs))
    return unflatten(shape, [wrap(_assembled(s, v, first, values)) for s, v, first in zip(stored, stored_values, targets, strict=True)])


def _columns(run: _Run, wanted: Sequence[Any], indices: Sequence[np.ndarray], number: int) -> Iterator[np.ndarray]:
    """Positions in all tiles."""
    ends = [w.variable if isinstance(w, TileTracer) else w for w in wanted]
    program = pruned(run.trace.arguments, run.trace.operations, ends)
    read = {o for p in program.operations for o in p.operands if isinstance(o, Variable)} | {e for e in ends if isinstance(e, Variable)}
    for argument in run.trace.arguments[len(indices) :]:
        if argument in read:
            raise TileError(
                "the position of a block depends on values that tiles read, expected arithmetic with the numbers of the tile alone; "
                "compute positions before, and gather by index arrays in ds.tile.map"
            )
    values = [*indices, *(None for _ in run.trace.arguments[len(indices) :])]
    places = interpret(program, values)
    return iter([np.broadcast_to(np.asarray(f, np.int64), (number,)) for f in places])


def _assembled(stored: _Stored, parts: Any, places: np.ndarray, arrays: Sequence[Any]) -> Any:
    """The array that the blocks of all tiles make."""
    block = tuple(parts.shape[1:])
    base = None if stored.base is None else arrays[stored.base._number]
    shape = tuple(base.shape) if base is not None else stored.shape or covered(places, block)
    if not fit(places, block, shape):
        tile = int(np.argwhere(((places < 0) | (places + np.asarray(block) > np.asarray(shape))).any(axis=1))[0, 0])
        raise ArrayIndexError(
            f"the block of tile {tile}, of shape {block} at {tuple(places[tile].tolist())}, does not fit into a result of shape {shape}; "
            "give a larger shape= (and cut the result), or cut the block; loads beyond the edges give 0, stores there are refused"
        )
    if stored.adds:
        total = add_blocks(parts, places=places, shape=shape)
        return total if base is None else base + total
    return put_blocks(np.zeros(shape, parts.dtype) if base is None else base, parts, places=places)
