"""Evaluate expressions by NumPy: for computations that run once (coefficients), and as an independent check of generated kernels.

The adjoint here *scatters* (each reading cell adds to the cells it read, then the halo is folded back), where generated
kernels gather: the two share no code beyond the partial derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from diffsim.base import buffers
from diffsim.boundary import Rules, extend, extend_transpose, zero_rules
from diffsim.engine import settings
from diffsim.expr.derive import vjp
from diffsim.expr.graph import OPERATIONS, Graph, Node, Offset, ordered
from diffsim.typing import Array

PIECE = 2**15
"""Cells that are evaluated at a time: intermediate values stay in the cache of a core."""


def pad(cells: Array, halo: tuple[int, ...], rules: Rules) -> Array:
    """`cells` with its halo filled by the rules: shape + 2 halo."""
    shape = tuple(n + 2 * h for n, h in zip(cells.shape, halo, strict=True))
    large = cells.nbytes >= buffers.SMALLEST
    extended = buffers.zeros(shape, cells.dtype) if large else np.zeros(shape, cells.dtype)
    extended[inner(cells.shape, halo)] = cells
    extend(extended, halo, rules)
    return extended


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
    rows = max(1, PIECE * shape[0] // math.prod(shape))
    if 2 * rows > shape[0]:
        return [np.broadcast_to(value, shape) for value in _evaluated(roots, extended, shape, halo)]
    out: list[Array] = []
    errors = np.geterr()  # a thread begins without those of its caller

    def piece(first: int) -> None:
        last = min(first + rows, shape[0])
        part = {name: array[first : last + 2 * halo[0]] if array.shape[0] > 1 else array for name, array in extended.items()}
        with np.errstate(**errors):
            values = _evaluated(roots, part, (last - first, *shape[1:]), halo)
        if not out:
            out.extend(buffers.empty(shape, np.asarray(value).dtype) for value in values)
        for whole, value in zip(out, values, strict=True):
            whole[first:last] = value

    piece(0)
    with ThreadPoolExecutor(settings().threads) as threads:
        list(threads.map(piece, range(rows, shape[0], rows)))
    return out


def _evaluated(roots: list[Node], extended: Mapping[str, Array], shape: tuple[int, ...], halo: tuple[int, ...]) -> list[Array | float]:
    """`evaluate`, whose values broadcast to the shape."""
    nodes = ordered(roots)
    last_use = {a.id: node.id for node in nodes for a in node.args}
    keep = {root.id for root in roots}
    values: dict[int, Array] = {}
    for node in nodes:
        if node.op == "const":
            values[node.id] = node.data
        elif node.op == "read":
            name, offset = node.data
            array = extended[name]
            cut = inner(shape, halo, offset)
            values[node.id] = array[
                tuple(slice(None) if n == 1 and c.stop - c.start + 2 * h > 1 else c for n, c, h in zip(array.shape, cut, halo, strict=True))
            ]
        else:
            extra = () if node.data is None else (node.data,)
            values[node.id] = OPERATIONS[node.op].evaluate(*(values[a.id] for a in node.args), *extra)
            for argument in node.args:
                if last_use[argument.id] == node.id and argument.id not in keep:
                    values.pop(argument.id, None)
    return [values[root.id] for root in roots]


def pullback(
    graph: Graph,
    outputs: Mapping[str, Node],
    cotangents: Mapping[str, Array],
    wanted: Mapping[str, Rules],
    extended: Mapping[str, Array],
    shape: tuple[int, ...],
    halo: tuple[int, ...],
) -> dict[str, Array]:
    """Cotangents of the wanted fields, from those of the outputs.

    Args:
        graph: the graph of the outputs.
        outputs: name -> node.
        cotangents: name -> array over the cells; an output without one counts as zero.
        wanted: fields to differentiate for, each with its boundary rules.
        extended: values of every field that the outputs read, with halo.
        shape: cells along each axis.
        halo: halo width.
    """
    bars: dict[Node, Node] = {}
    arrays = dict(extended)
    for name, bar in cotangents.items():
        seed = graph.read(f"bar of {name}", (0,) * len(shape))
        arrays[seed.data[0]] = pad(bar, halo, zero_rules(len(shape)))
        bars[outputs[name]] = graph.add(bars.get(outputs[name], graph.const(0)), seed)
    terms = vjp(graph, bars, lambda name: name in wanted)
    out = {}
    dtype = np.result_type(*cotangents.values()) if cotangents else np.dtype(np.float64)
    for name, rules in wanted.items():
        total = np.zeros(tuple(n + 2 * h for n, h in zip(shape, halo, strict=True)), dtype)
        contributions = terms.get(name, {})
        for offset, value in zip(contributions, evaluate(list(contributions.values()), arrays, shape, halo), strict=True):
            total[inner(shape, halo, offset)] += value
        extend_transpose(total, halo, rules)
        out[name] = np.ascontiguousarray(total[inner(shape, halo)])
    return out
