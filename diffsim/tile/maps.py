"""A tile program over many tiles as one operation on the reverse-mode tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.leaves import Cores, array_core
from diffsim.ad.arrays.masked import Masked
from diffsim.ad.core import Primitive, Tracer, aval, bottom, is_inexact, is_known, local
from diffsim.ad.ops import structure as st
from diffsim.ad.tree import flatten, unflatten
from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError, TileError
from diffsim.tile.source.blocks import add_blocks, load_blocks
from diffsim.tile.source.kernel import Form, compiled
from diffsim.tile.trace.complexes import has_complex, in_parts, is_complex
from diffsim.tile.trace.loops import in_turns
from diffsim.tile.trace.program import Program, Variable
from diffsim.tile.trace.trace import cotangents, tangents, traced


def _evaluate(*arrays: Any, program: Program, form: Form, tiles: int, places: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    _require_few(program)
    if not has_complex(program):
        return tuple(compiled(program, form)([np.asarray(a) for a in arrays], tiles, places))
    if any(form.wholes):
        arrays = tuple(_block(a, p, v) for a, p, v in zip(arrays, places, program.arguments, strict=True))
        form = Form(form.mapped, form.summed)
    parts = _derivative(program, ("parts",), lambda: in_parts(program))
    twice = [2 if is_complex(a) else 1 for a in program.arguments], [2 if is_complex(r) else 1 for r in program.results]
    mapped, summed = (
        tuple(v for v, n in zip(vs, ns, strict=True) for _ in range(n)) for vs, ns in zip((form.mapped, form.summed), twice, strict=True)
    )
    whole = Form(mapped, summed)
    inputs = [p for a, n in zip(arrays, twice[0], strict=True) for p in ((np.real(a), np.imag(a)) if n == 2 else (np.asarray(a),))]
    results = iter(compiled(parts, whole)(inputs, tiles))
    return tuple(
        _joined(next(results), next(results), r.dtype) if n == 2 else next(results) for r, n in zip(program.results, twice[1], strict=True)
    )


def _block(array: Any, places: Any, argument: Variable) -> Any:
    """The blocks of an array, where an argument is one."""
    return array if places is None else load_blocks(array, places=places, block=argument.shape)


def _joined(re: np.ndarray, im: np.ndarray, dtype: Any) -> np.ndarray:
    out = np.empty(re.shape, dtype)
    out.real, out.imag = re, im
    return out


MOST_OPERATIONS = 4000
"""The most operations of a program: Taichi compiles 1000 assignments to elements in 11 s on a core of a Xeon, and 3000 in minutes."""


def _require_few(program: Program) -> None:
    """Raise if compiling a program would take minutes."""
    if program.size > MOST_OPERATIONS:
        raise TileError(
            f"{program.operations[-1].place}: a tile program has {program.size} operations, expected at most "
            f"{MOST_OPERATIONS}, since each is written out; write loops of Python as ds.fori_loop, and elements in a row as slices"
        )


def _jvp(args: Sequence[Any], dots: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
    program, form, places = params["program"], params["form"], params.get("places", ())
    moved = [d is not None for d in dots]
    again = [k for k, m in enumerate(moved) if m]
    noting = not local.sweeping and not local.moving
    key = "tangents", tuple(moved), noting, local.moving
    derivative, has, names = _derivative(program, key, lambda: tangents(program, moved, noting))
    mapped = (*form.mapped, *(form.mapped[k] for k in again))
    summed = tuple(s for s, h in zip(form.summed, has, strict=True) if h)
    moved_form = Form(mapped, (*summed, False) if names else summed, _extended(form.wholes, again, len(mapped)))
    inputs = [*args, *(dots[k] for k in again)]
    there = _extended(places, again, len(mapped))
    done = tiles(*inputs, program=derivative, form=moved_form, tiles=params["tiles"], places=there) if any(has) else ()
    if names and done and is_known(done[-1]) and np.any(bottom(done[-1]) > 0):
        local.met = names  # `jvp` tests if their values do so
    movements = iter(done)
    return [next(movements) if h else None for h in has]


def _extended(given: tuple[Any, ...], again: Sequence[int], count: int) -> tuple[Any, ...]:
    """Attributes of arguments that are blocks, for a list of these arguments and then of some of them again."""
    if not given:
        return ()
    repeated = (*given, *(given[k] for k in again))
    return (*repeated, *(None for _ in range(count - len(repeated))))


def _vjp(ct: Sequence[Any], args: Sequence[Any], out: Any, params: dict[str, Any], wanted: Sequence[bool]) -> list[Any]:
    program, form, places = params["program"], params["form"], params.get("places", ())
    zero_wins = local.zero_wins
    pulled, has = _derivative(program, ("cotangents", tuple(wanted), zero_wins), lambda: cotangents(program, wanted, zero_wins))
    floating = [k for k, r in enumerate(program.results) if is_inexact(r)]
    kinds = [m for m, w in zip(form.mapped, wanted, strict=True) if w]
    pulled_form = Form((*form.mapped, *(not form.summed[k] for k in floating)), tuple(not m for m, h in zip(kinds, has, strict=True) if h))
    pulled_form = Form(pulled_form.mapped, pulled_form.summed, _extended(form.wholes, (), len(pulled_form.mapped)))
    there = _extended(places, (), len(pulled_form.mapped))
    pulled_back = iter(
        tiles(*args, *(ct[k] for k in floating), program=pulled, form=pulled_form, tiles=params["tiles"], places=there) if any(has) else ()
    )
    bars = iter([next(pulled_back) if h else None for h in has])
    whole = [next(bars) if w else None for w in wanted]
    return [
        bar if bar is None or not places or places[k] is None else add_blocks(bar, places=places[k], shape=args[k].shape)
        for k, bar in enumerate(whole)
    ]


_derivatives: dict[tuple[Any, ...], Any] = {}


def _derivative(program: Program, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """A derived program, made once; each time for functions with rules of their own, which may read other values by then."""
    if program.has_own_rules:
        return make()
    whole = (program.signature, *key)
    kept = _derivatives.get(whole)
    if kept is None:
        if len(_derivatives) > 1000:
            _derivatives.clear()
        kept = _derivatives[whole] = make()
    return kept


tiles: Primitive = Primitive("tiles", _evaluate, jvp=_jvp, vjp=_vjp, keeps=lambda wanted: ((True,) * len(wanted), False), multiple=True)
"""The results of a tile program for arrays of its arguments, whose first axis is that of the tiles where they are mapped."""


# for users


def map(function: Callable[..., Any], *, axes: Any = 0) -> Callable[..., Any]:
    """A function of tiles as a function of arrays of tiles, compiled into one kernel.

    Args:
        function: of the arrays of one tile, written with `diffsim.numpy`: of arrays, numbers and pytrees of them, with 1 to 4 axes each
            and static shapes. It is run once, on abstract arrays, to find its operations: numbers that it draws at random
            are the same in all tiles.
        axes: the axis of each argument along which its tiles lie: a number for all arguments, or a tuple with one entry an argument. None
            stands for an argument that all tiles share.

    Returns:
        A function of the same arguments with that axis added. The results of all tiles lie along a new first axis. It is one operation
        on the reverse-mode tape: `ds.grad`, `ds.vjp`, `ds.jvp`, `ds.hvp` and all others apply. Outside values that the function uses
        is shared by all tiles, and differentiated too.

    Raises:
        TileError: an operation without a rule, a shape that is not static, or a decision by values, which differ from tile to tile.
        ShapeError: arguments with different numbers of tiles.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # Springs between neighbours in 1000 chains of 8 masses: the force on each mass.
        def force(x):
            f = np.zeros(8)
            f[:-1] += x[1:] - x[:-1]  # an assignment keeps the derivative
            f[1:] -= x[1:] - x[:-1]
            return f

        x = numpy.random.default_rng(0).normal(size=(1000, 8))
        forces = ds.tile.map(force)(x)
        stiffness = ds.jvp(ds.tile.map(force), (x,), (numpy.ones((1000, 8)),))[1]
        assert forces.shape == (1000, 8) and numpy.allclose(stiffness, 0.0)  # moved as a whole, no chain resists
    """
    arguments.function("function", function, "ds.tile.map(lambda x: x @ x.T)", optional=False)

    def mapped(*args: Any) -> Any:
        return _mapped(function, args, axes)

    mapped.__name__ = getattr(function, "__name__", "mapped")
    mapped.__doc__ = getattr(function, "__doc__", None)
    return mapped


Known: TypeAlias = dict[Any, tuple[Program, Any]]
"""The programs of a function and the trees of their results, by the trees, shapes and types of its arguments."""


def map_fixed(function: Callable[..., Any], *, axes: Any = 0) -> Callable[..., Any]:
    """`map` of a function that reads nothing from around it but constants: it is run once for arguments of the same shapes."""
    known: Known = {}
    return lambda *args: _mapped(function, args, axes, known)


def _axis_of(axes: Any, count: int) -> list[Any]:
    listed = list(axes) if isinstance(axes, (tuple, list)) else [axes] * count
    if len(listed) != count or not all(a is None or (isinstance(a, (int, np.integer)) and not isinstance(a, bool)) for a in listed):
        raise ParameterError(f"axes = {shown(axes)} for {count} arguments, expected an axis, or a tuple of one (or None) an argument")
    if all(a is None for a in listed):
        raise ParameterError("axes has no axis, expected one at least along which tiles lie; call the function itself")
    return listed


def _mapped(function: Callable[..., Any], args: tuple[Any, ...], axes: Any, known: Known | None = None) -> Any:
    leaves, trees, cores, lines = [], [], [], []
    for number, (arg, axis) in enumerate(zip(args, _axis_of(axes, len(args)), strict=True)):
        tree_leaves, tree = flatten(arg)
        trees.append((tree, len(tree_leaves)))
        for leaf in tree_leaves:
            value = leaf if axis is None and not hasattr(leaf, "dtype") and not isinstance(leaf, Array) else array_core(leaf)
            if value is None:
                value = np.asarray(leaf)
                if value.dtype.kind not in "fciub":
                    raise TileError(f"argument {number} of a tile program holds {type(leaf).__name__}, expected arrays of numbers")
            if axis is not None:
                value = _first(value, int(axis), number, leaf is arg)
            leaves.append(leaf)
            cores.append(value)
            lines.append(axis is not None)
    counts = {c.shape[0] for c, m in zip(cores, lines, strict=True) if m}
    if len(counts) > 1:
        raise ShapeError(
            f"the arguments have {', '.join(str(n) for n in sorted(counts))} tiles, expected one number; give all of them one length"
        )
    if not counts:
        raise TileError(
            "the arguments hold no array along which tiles lie, expected one at least; give an array, or call the function itself"
        )
    (count,) = counts
    traceable = [k for k, c in enumerate(cores) if hasattr(c, "dtype")]
    kinds: dict[str, Any] = {}

    def run(given: Cores) -> Cores:
        values = list(cores)
        for k, tracer in zip(traceable, given, strict=True):
            values[k] = Array(tracer, scalar=tracer.ndim == 0)
        position, whole = 0, []
        for tree, size in trees:
            whole.append(unflatten(tree, values[position : position + size]))
            position += size
        results, kinds["tree"] = flatten(function(*whole))
        if not any(hasattr(r, "dtype") for r in results) and all(r is None for r in results):
            raise TileError("the function of a tile returned nothing, expected arrays; add a return")
        return tuple(_result(r) for r in results)

    examples = [aval(cores[k]) if not lines[k] else _Tile(cores[k].shape[1:], cores[k].dtype) for k in traceable]
    key = tuple(tree for tree, _ in trees), tuple(lines), tuple((e.shape, np.dtype(e.dtype).str) for e in examples)
    captured: list[Any] = []
    if known is not None and key in known and len(traceable) == len(cores):
        program, kinds["tree"] = known[key]
    else:
        program, captured = traced(run, examples)
        program = _complete(program)
        if known is not None and not captured and len(traceable) == len(cores):
            known[key] = program, kinds["tree"]
    form = Form((*(lines[k] for k in traceable), *(False for _ in captured)), (False,) * len(program.results))
    if not count:
        results: Any = tuple(np.zeros((0, *r.shape), r.dtype) for r in program.results)
    else:
        inputs = [*(cores[k] for k in traceable), *captured]
        inside = not is_known(*inputs)  # a function of a tile maps another one
        results = in_turns(program, inputs, form.mapped, count) if inside else tiles(*inputs, program=program, form=form, tiles=count)
    return unflatten(kinds["tree"], [wrap(r) for r in results])


class _Tile:
    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype


def _first(value: Any, axis: int, number: int, alone: bool) -> Any:
    """A core value with the axis of the tiles first. `alone`: it is the argument itself, and no part of a list or another pytree."""
    rank = len(value.shape)
    if not rank:
        what = "is a number" if alone else "holds numbers in a pytree"
        remedy = "set axes= to None at its place if all tiles share it" + ("" if alone else ", or make one array of it by numpy.array")
        raise ShapeError(f"argument {number} {what}, expected arrays with an axis along which tiles lie; {remedy}")
    if not -rank <= axis < rank:
        raise ShapeError(f"argument {number} has the shape {value.shape}, which has no axis {axis} along which tiles lie; see axes=")
    axis %= rank
    if not axis:
        return value
    return st.transpose(value, axes=(axis, *(k for k in range(rank) if k != axis)))


def _result(leaf: Any) -> Any:
    if isinstance(leaf, Masked):
        return leaf.__array__()  # whose error names a remedy
    value = core(leaf) if isinstance(leaf, (Array, np.ndarray, np.generic, Tracer, int, float, bool)) else None
    if value is None:
        raise TileError(f"the function of a tile returned {type(leaf).__name__}, expected arrays, numbers and pytrees of them")
    return value if hasattr(value, "dtype") else np.asarray(value)


def _complete(program: Program) -> Program:
    """The program with arrays for results that are constants."""
    for argument in program.arguments:
        if len(argument.shape) > 4:
            raise TileError(f"an argument has {len(argument.shape)} axes in each tile, expected 4 at most; join some with reshape")
    return Program(
        program.arguments,
        program.operations,
        tuple(r if isinstance(r, Variable) else np.asarray(r) for r in program.results),
    )
