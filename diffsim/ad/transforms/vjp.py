"""The value of a function and its pullback, from a tape of its operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffsim.ad.arrays import guard
from diffsim.ad.arrays.array import wrap
from diffsim.ad.arrays.leaves import array_core, as_constant, as_input, copied, inputs_of
from diffsim.ad.core import local, running
from diffsim.ad.ops.structure import zeros_like
from diffsim.ad.transforms.modes import Node, ReverseTrace, ReverseTracer
from diffsim.ad.transforms.results import Extra, checked_cotangent, result_of, split_aux
from diffsim.ad.transforms.sweep import backward
from diffsim.ad.tree import flatten, leaves_like, unflatten
from diffsim.base import arguments
from diffsim.base.copies import Bound
from diffsim.errors import ShapeError


class Recording(running):
    """A tape while a function runs in its `with` block, and the sweep over it afterwards.

    Attributes:
        nodes: of the inputs.
    """

    __slots__ = ("_referred", "nodes", "trace")

    def __init__(self) -> None:
        self.trace = ReverseTrace()
        self.nodes: list[Node] = []

    def input(self, leaf: Any, value: Any) -> Any:
        """An input as the function gets it.

        Args:
            leaf: the user's array or number.
            value: the same, of a floating-point type, in memory that nobody edits.
        """
        tracer = self.trace.leaf(value)
        self.nodes.append(tracer.node)
        return as_input(leaf, tracer)

    def __exit__(self, *error: object) -> None:
        self.trace.ended = True
        self._referred = guard.kept() if local.seen else {}
        super().__exit__(*error)

    def node_of(self, value: Any) -> Node | None:
        """The place of a core value on the tape; None for one that does not depend on the inputs."""
        return value.node if isinstance(value, ReverseTracer) and value.trace is self.trace else None

    def swept(self, seeds: Sequence[tuple[Node, Any]]) -> list[Any]:
        """The cotangents of the inputs, from those of nodes.

        Raises:
            StaleValueError: a large array that the tape refers to was edited in place.
        """
        guard.check(self._referred)
        bars = backward(seeds, self.nodes)
        return [zeros_like(node)[()] if bar is None else bar for node, bar in zip(self.nodes, bars, strict=True)]


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Value of `f` and its pullback.

    Args:
        f: of arrays, numbers, and pytrees of them (tuples, lists, dicts, dataclasses ...).
        primals: where to differentiate. Entries that are not floating point pass through untouched.
        has_aux: `f` returns (value, aux); aux is not differentiated.

    Returns:
        (value, pullback), or (value, pullback, aux). `pullback(cotangent)` takes a cotangent of the shape of the value and gives
        a tuple with one entry a primal, of its shape; None stands for entries that are not floating point. It can be called
        again; the tape lives as long as the pullback does. In a complex space the pairing is sum(cotangent * tangent).

    Raises:
        DerivativeError: an operation without a rule, or an operation that would lose a derivative.
        ShapeError: by the pullback, for a cotangent of another shape.
        StaleValueError: by the pullback, if a large array that the tape refers to was edited in place.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # Travel times through cells: the pullback projects residuals back onto the cells (tomography).
        lengths = numpy.array([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]])  # of two rays in three cells, km
        times, pullback = ds.vjp(lambda speed: np.sum(lengths / speed, axis=1), numpy.array([2.0, 2.0, 4.0]))
        (projected,) = pullback(numpy.array([0.1, -0.2]))
        assert numpy.allclose(projected, -numpy.array([0.1, -0.2]) @ lengths / numpy.array([2.0, 2.0, 4.0]) ** 2)
    """
    arguments.function("f", f, "ds.vjp(lambda x: x**2, x)", optional=False)
    has_aux = arguments.flag("has_aux", has_aux)
    leaves, tree = inputs_of(primals)
    tape = Recording()
    with tape:
        values = [copied(leaf) for leaf in leaves]
        watched = [as_constant(leaf) if v is None else tape.input(leaf, v) for leaf, v in zip(leaves, values, strict=True)]
        out, aux = split_aux(f(*unflatten(tree, watched)), has_aux)
        outs, out_tree = flatten(out)
        cores = [array_core(leaf) for leaf in outs]
        extra = Extra(aux) if has_aux else None
    ends = [tape.node_of(value) for value in cores]
    results = [
        leaf if value is None else result_of(value if end is None else value.primal)
        for leaf, value, end in zip(outs, cores, ends, strict=True)
    ]
    shapes = [None if v is None else (v.shape, v.dtype) for v in cores]
    kinds = [type(leaf).__name__ for leaf in outs]
    floating = [value is not None for value in values]
    value_out, aux = unflatten(out_tree, results), extra and extra.released(tape.trace)
    del leaves, values, watched, out, outs, cores, results, extra

    def pullback(cotangent: Any) -> Any:
        cts = leaves_like(cotangent, out_tree, "the cotangent")
        seeds = []
        for ct, end, shape, kind in zip(cts, ends, shapes, kinds, strict=True):
            if ct is not None and shape is None and kind not in ("str", "int", "bool"):
                raise ShapeError(
                    f"a cotangent is given for a {kind}, which is no array, number or pytree, and whose parts are not seen; "
                    "register its type with ds.register_pytree"
                )
            if ct is not None and shape is not None and shape[1].kind in "fc":
                seed = checked_cotangent(ct, *shape)
                if end is not None:
                    seeds.append((end, seed))
        bars = iter(tape.swept(seeds))
        return unflatten(tree, [wrap(next(bars)) if each else None for each in floating])

    pull = Bound(
        pullback, "a pullback", "the tape of a function that was run; pickle the function and its arguments, and call ds.vjp there"
    )
    return (value_out, pull, aux) if has_aux else (value_out, pull)
