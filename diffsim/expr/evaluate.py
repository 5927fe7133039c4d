"""Evaluate expressions by NumPy: for computations that run once (coefficients), and as an independent check of generated kernels.

The adjoint here *scatters* (each reading cell adds to the cells it read, then the halo is folded back), where generated
kernels gather: the two share no code beyond the partial derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from diffsim.base import buffers
from diffsim.boundary import Rules, extend, extend_transpose, zero_rules
from diffsim.expr.derive import vjp
from diffsim.expr.graph import CONDITIONS, OPERATIONS, Graph, Node, Offset, once_for, ordered
from diffsim.typing import Array

PIECE = 2**15
"""Cells that are evaluated at a time: intermediate values stay in the cache of a core."""
Terms: TypeAlias = dict[str, dict[Offset, Node]]
"""Terms that the cells of some outputs add to a field: field -> offset of the cell that gets it -> expression."""
Kind: TypeAlias = Literal["number", "condition"]


class Scratch:
    """Arrays for the values of one piece after the other. C's allocator would return the memory of new ones to the system, which clears
    pages at their first touch: that takes several times as long as to compute the values.

    Args:
        dtype: of numbers.

    Attributes:
        free: arrays without a value, by kind.
    """

    def __init__(self, dtype: np.dtype) -> None:
        self._types: dict[Kind, np.dtype] = {"number": dtype, "condition": np.dtype(np.bool_)}
        self._shape: tuple[int, ...] = ()
        self._arrays: dict[Kind, list[Array]] = {"number": [], "condition": []}
        self.free: dict[Kind, list[Array]] = {}

    def renew(self, shape: tuple[int, ...]) -> None:
        """Begin with a piece of this shape: no array has a value."""
        if shape != self._shape:
            self._shape, self._arrays = shape, {"number": [], "condition": []}
        self.free = {kind: [*arrays] for kind, arrays in self._arrays.items()}

    def take(self, kind: Kind) -> Array:
        """An array with any content."""
        if self.free[kind]:
            return self.free[kind].pop()
        self._arrays[kind].append(np.empty(self._shape, self._types[kind]))
        return self._arrays[kind][-1]


def pad(cells: Array, halo: tuple[int, ...], rules: Rules) -> Array:
    """`cells` with its halo filled by the rules: shape + 2 halo."""
    shape = tuple(n + 2 * h for n, h in zip(cells.shape, halo, strict=True))
    extended = _zeros(shape, cells.dtype)
    extended[inner(cells.shape, halo)] = cells
    extend(extended, halo, rules)
    return extended


def _zeros(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    return buffers.zeros(shape, dtype) if math.prod(shape) * dtype.itemsize >= buffers.SMALLEST else np.zeros(shape, dtype)


def inner(shape: tuple[int, ...], halo: tuple[int, ...], offset: Offset | None = None) -> tuple[slice, ...]:
    """Slices of the cells, displaced by `offset`, in an array with halo."""
    offset = offset or (0,) * len(shape)
    return tuple(slice(h + o, h + o + n) for n, h, o in zip(shape, halo, offset, strict=True))


def evaluate(roots: list[Node], extended: Mapping[str, Array], shape: tuple[int, ...], halo: tuple[int, ...]) -> list[Array]:
    """Values of the roots at every cell.

    Args:
        roots: nodes of one graph.
        extended: each field with its halo; an axis of length 1 is broadcast (profiles).
        shape: cells along each axis.
        halo: halo width of every array in `extended`.
    """
    rows = _rows_of_piece(shape)
    if rows == shape[0]:
        return [np.broadcast_to(value, shape) for value in _evaluated(roots, extended, shape, halo)]
    out: list[Array] = []

    def piece(first: int, scratch: Scratch | None) -> None:
        last = min(first + rows, shape[0])
        values = _evaluated(roots, _part(extended, first, last, halo), (last - first, *shape[1:]), halo, scratch)
        if not out:  # the first piece comes before the others
            out.extend(buffers.empty(shape, np.asarray(value).dtype) for value in values)
        for whole, value in zip(out, values, strict=True):
            whole[first:last] = value

    _in_pieces(piece, shape, rows, extended)
    return out


def _rows_of_piece(shape: tuple[int, ...]) -> int:
    """Rows that are evaluated at a time; all of them if they are few."""
    rows = max(1, PIECE * shape[0] // math.prod(shape))
    return rows if 2 * rows <= shape[0] else shape[0]


def _part(extended: Mapping[str, Array], first: int, last: int, halo: tuple[int, ...]) -> dict[str, Array]:
    """Some rows of the fields, with their halos."""
    return {name: array[first : last + 2 * halo[0]] if array.shape[0] > 1 else array for name, array in extended.items()}


def _in_pieces(piece: Callable[[int, Scratch | None], None], shape: tuple[int, ...], rows: int, fields: Mapping[str, Array]) -> None:
    """Call `piece` for the first rows of all pieces. Threads gain nothing: each operation waits for Python's lock."""
    types = {array.dtype for array in fields.values()}
    scratch = Scratch(types.pop()) if len(types) == 1 else None
    for first in range(0, shape[0], rows):
        piece(first, scratch)


class _Turn(NamedTuple):
    """The evaluation of a node.

    Attributes:
        number: of the node.
        op, data: of the node.
        args: numbers of its arguments.
        function: of NumPy; None for a constant or a read.
        kind: of its values at all cells, or None if `function` writes to no array that it is handed.
        done: numbers of the arguments that nobody reads after it.
    """

    number: int
    op: str
    data: Any
    args: tuple[int, ...]
    function: Callable[..., Any] | None
    kind: Kind | None
    done: list[int]


@once_for
def _turns(roots: Sequence[Node]) -> list[_Turn]:
    """All nodes in the order of their evaluation."""
    nodes, keep, out = ordered(roots), {root.id for root in roots}, []
    last_use = {argument.id: node.id for node in nodes for argument in node.args}
    for node in nodes:
        args = tuple(argument.id for argument in node.args)
        function = OPERATIONS[node.op].evaluate if args else None
        writes = isinstance(function, np.ufunc) or node.op == "select"
        kind: Kind | None = None if not writes else "condition" if node.op in CONDITIONS else "number"
        done = [number for number in dict.fromkeys(args) if last_use[number] == node.id and number not in keep]
        out.append(_Turn(node.id, node.op, node.data, args, function, kind, done))
    return out


def _evaluated(
    roots: list[Node], extended: Mapping[str, Array], shape: tuple[int, ...], halo: tuple[int, ...], scratch: Scratch | None = None
) -> list[Array | float]:
    """`evaluate`, whose values broadcast to the shape. With `scratch`, values at all cells are in its arrays, the roots' too."""
    values: dict[int, Any] = {}
    if scratch is not None:
        scratch.renew(shape)
    dtype = np.result_type(*extended.values()) if extended else np.dtype(np.float64)
    whole = set[int]()  # values at all cells
    ours = dict[int, list[Array]]()  # those in arrays of `scratch`, with the list that gets them back
    for number, op, data, args, function, kind, done in _turns(roots):
        if function is None:
            if op == "const":
                values[number] = data
                continue
            name, offset = data
            array = extended[name]
            cut = inner(shape, halo, offset)
            value = array[
                tuple(slice(None) if n == 1 and c.stop - c.start + 2 * h > 1 else c for n, c, h in zip(array.shape, cut, halo, strict=True))
            ]
            values[number] = value
            if value.shape == shape:
                whole.add(number)
            continue
        operands = [values[a] for a in args] if data is None else [*(values[a] for a in args), data]
        if op == "select" and type(operands[1]) is type(operands[2]) is float:
            operands[1] = dtype.type(operands[1])  # NumPy would choose between two numbers of Python in f64
        if scratch is None or whole.isdisjoint(args):
            values[number] = function(*operands)
        else:
            whole.add(number)
            if kind is None:
                values[number] = function(*operands)
            else:
                values[number] = out = scratch.take(kind)
                ours[number] = scratch.free[kind]
                if op == "select":
                    np.copyto(out, operands[2])
                    np.copyto(out, operands[1], where=operands[0])
                else:
                    function(*operands, out=out)
        for each in done:
            value = values.pop(each)
            if each in ours:
                ours[each].append(value)
    return [values[root.id] for root in roots]


def transposed(graph: Graph, outputs: Mapping[str, Node], cotangents: Sequence[str], wanted: Sequence[str], ndim: int) -> Terms:
    """The terms of the cotangents of the wanted fields, in which the cotangent of an output is read by the name `cotangent_of` it.

    Args:
        graph: the graph of the outputs.
        outputs: name -> node.
        cotangents: names of the outputs with a cotangent.
        wanted: fields to differentiate for.
        ndim: axes of the grid.
    """
    bars: dict[Node, Node] = {}
    for name in cotangents:
        seed = graph.read(cotangent_of(name), (0,) * ndim)
        bars[outputs[name]] = graph.add(bars.get(outputs[name], graph.const(0)), seed)
    return vjp(graph, bars, lambda name: name in wanted)


def cotangent_of(name: str) -> str:
    """The field that `transposed` reads for the cotangent of an output."""
    return f"bar of {name}"


def scattered(
    terms: Terms,
    cotangents: Mapping[str, Array],
    wanted: Mapping[str, Rules],
    extended: Mapping[str, Array],
    shape: tuple[int, ...],
    halo: tuple[int, ...],
) -> dict[str, Array]:
    """Cotangents of the wanted fields: each cell adds its terms to the cells that it read, and the halo is folded back.

    Args:
        terms: of `transposed`.
        cotangents: name of an output -> array over the cells.
        wanted: fields to differentiate for, each with its boundary rules.
        extended: values of every field that the outputs read, with halo.
        shape: cells along each axis.
        halo: halo width.
    """
    arrays = {**extended, **{cotangent_of(name): pad(bar, halo, zero_rules(len(shape))) for name, bar in cotangents.items()}}
    dtype = np.result_type(*cotangents.values()) if cotangents else np.dtype(np.float64)
    stored = tuple(n + 2 * h for n, h in zip(shape, halo, strict=True))
    totals = {name: _zeros(stored, dtype) for name in wanted}
    places = [(name, offset) for name in wanted for offset in terms.get(name, {})]
    roots = [terms[name][offset] for name, offset in places]
    rows = _rows_of_piece(shape)

    def piece(first: int, scratch: Scratch | None) -> None:
        """Add all that stored rows get, from the cells that read them: so no other piece writes them."""
        last = first + rows if first + rows < shape[0] else stored[0]
        low, high = max(first - 2 * halo[0], 0), min(last, shape[0])
        here = (high - low, *shape[1:])
        values = _evaluated(roots, _part(arrays, low, high, halo), here, halo, scratch)
        for (name, offset), value in zip(places, values, strict=True):
            begin = low + halo[0] + offset[0]  # stored row that the first cell read
            value = np.broadcast_to(value, here)[max(first - begin, 0) : max(last - begin, 0)]
            start = max(begin, first)
            totals[name][(slice(start, start + len(value)), *inner(shape, halo, offset)[1:])] += value

    _in_pieces(piece, shape, rows, arrays)
    for name, rules in wanted.items():
        extend_transpose(totals[name], halo, rules)
    return {name: buffers.copy(total[inner(shape, halo)]) for name, total in totals.items()}
