"""Fields that are computed once before the first step, and the transpose of that computation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.boundary import check_halo
from diffsim.expr.evaluate import Terms, evaluate, pad, scattered, transposed
from diffsim.expr.graph import Node, reads
from diffsim.mesh.grid import Grid
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedMap, profile_array
from diffsim.typing import Array


class Once:
    """A `TracedMap` that NumPy evaluates on arrays.

    Args:
        traced: the map.
        grid: the grid.
        others: other fields that it reads (the coefficients, for an initial state), with their rules.
        dtype: type of inputs and outputs.

    Attributes:
        handed_on: the input that each output is, or None.
    """

    def __init__(self, traced: TracedMap, grid: Grid, others: Mapping[str, Placed], dtype: np.dtype) -> None:
        self.traced, self.grid, self.dtype = traced, grid, dtype
        self.placed = {**traced.inputs, **others}
        offsets = [o for found in reads(traced.outputs.values()).values() for o in found]
        self.halo = tuple(max((abs(o[axis]) for o in offsets), default=0) for axis in range(grid.ndim))
        check_halo(grid.shape, self.halo)
        self.handed_on = {name: self._handed_on(node) for name, node in traced.outputs.items()}
        self._computed = [name for name, source in self.handed_on.items() if source is None]
        self._terms: dict[tuple[str, ...], Terms] = {}  # of the transpose, by the names of outputs with a cotangent
        self.profiles = {}
        for name, profile in traced.profiles.items():
            values = profile_array(profile, grid, self.halo, dtype)
            self.profiles[name] = values.reshape([-1 if axis == profile.axis else 1 for axis in range(grid.ndim)])

    @property
    def fields_of_vjp(self) -> int:
        """Fields that `vjp` has at a time: inputs and cotangents of outputs with halos, and cotangents of inputs.

        Outputs that are inputs need none.
        """
        computed = sum(source is None for source in self.handed_on.values())
        return 2 * len(self.placed) + computed if computed else len(self.traced.inputs)

    def _handed_on(self, node: Node) -> str | None:
        """The input that an output returns unchanged, or None."""
        return node.data[0] if node.op == "read" and not any(node.data[1]) and node.data[0] in self.placed else None

    def _extended(self, fields: Mapping[str, Array]) -> dict[str, Array]:
        found = {name: pad(np.asarray(fields[name], self.dtype), self.halo, p.rules) for name, p in self.placed.items() if name in fields}
        return found | self.profiles

    def __call__(self, fields: Mapping[str, Array]) -> dict[str, Array]:
        """Compute outputs over the cells from inputs over the cells. Unchanged inputs are not copied."""
        computed: dict[str, Array] = {}
        if self._computed:
            values = evaluate([self.traced.outputs[n] for n in self._computed], self._extended(fields), self.grid.shape, self.halo)
            computed = {name: np.asarray(value, self.dtype) for name, value in zip(self._computed, values, strict=True)}
        return {name: computed[name] if source is None else fields[source] for name, source in self.handed_on.items()}

    def vjp(self, fields: Mapping[str, Array], cotangents: Mapping[str, Array]) -> dict[str, Array]:
        """Cotangents of the inputs, and of the other fields that the outputs read, from those of the outputs."""
        bars: dict[str, Array] = {}
        computed = {name: cotangents[name] for name in self._computed if name in cotangents}
        if computed:
            wanted = {name: placed.rules for name, placed in self.placed.items()}
            if (names := tuple(computed)) not in self._terms:
                self._terms[names] = transposed(self.traced.graph, self.traced.outputs, names, [*wanted], self.grid.ndim)
            bars = scattered(self._terms[names], computed, wanted, self._extended(fields), self.grid.shape, self.halo)
        for name, source in self.handed_on.items():
            if source is not None and name in cotangents:
                bars[source] = bars[source] + cotangents[name] if source in bars else cotangents[name]
        for name in self.traced.inputs:
            if name not in bars:
                bars[name] = np.zeros(self.grid.shape, self.dtype)
        return bars
