"""How the workers of the CPU fill the halos after a loop nest, each around its own slab."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from diffsim.boundary import Rules, fills
from diffsim.stepping.ir.program import Assign, Place, Written
from diffsim.stepping.source.functions import FunctionKernel
from diffsim.stepping.source.kernel import combined
from diffsim.stepping.source.slabs import owned, owner_row


def write_halo(kernel: FunctionKernel, assign: Assign | Written) -> None:
    """Fill the halo of the slab's own rows. The owner of the source copies rows of the halo."""
    reach = kernel.reach.get(assign.target.array, (0,) * kernel.ndim)
    if any(reach):
        kernel.call_on(assign.target, "fill_halo", lambda target: _fill(kernel, target, assign.rules, reach))


def _fill(kernel: FunctionKernel, target: Place, rules: Rules, reach: tuple[int, ...]) -> None:
    text, layout = kernel.text, kernel.layout
    planes = len(kernel.rows) == 2
    slab = f"lo + {layout.row_halo[0]}", f"hi + {layout.row_halo[0]}"
    at_ends = reach[-1] and (fills(rules[-1]) or layout.shape[-1] % kernel.lanes)
    beside = _runs(kernel, rules, reach, 1) if planes and reach[1] and fills(rules[1]) else []
    with kernel.counted("k", *slab) if planes and (at_ends or beside) else nullcontext():
        if at_ends:
            with kernel.counted("i", *(kernel.across(layout.row_halo[1]) if planes else slab)):
                _fill_ends(kernel, target, rules, reach[-1])
        if beside:
            text(f"plane = k * {layout.strides[0]}")
        for run in beside:
            _fill_run(kernel, target, "plane + ", layout.stride, run, 1 if kernel.banded else None)
    if kernel.ndim > 1 and reach[0]:
        for run in _runs(kernel, rules, reach, 0):
            _fill_run(kernel, target, "", layout.strides[0], run, 0)


@dataclass
class _Run:
    """Rows (planes) outside the grid, one beyond the other, that are made in the same way.

    Attributes:
        rows: the place in storage of the first one, nearest to the grid, the rows that it is made of, and the one whose owner fills it.
        steps: by how many rows each of these lies farther on for the next one.
        weights: of the rows that it is made of.
        constant: that is added to these.
        count: how many there are.
    """

    rows: tuple[int, ...]
    steps: tuple[int, ...]
    weights: tuple[float, ...]
    constant: float
    count: int = 1

    def takes(self, rows: tuple[int, ...], weights: tuple[float, ...], constant: float) -> bool:
        """Add a row, if it is the next one."""
        if (weights, constant) != (self.weights, self.constant):
            return False
        steps = tuple((row - first) // self.count for first, row in zip(self.rows, rows, strict=True))
        if self.count > 1 and steps != self.steps:
            return False
        if rows != tuple(row + step * self.count for row, step in zip(self.rows, steps, strict=True)):
            return False
        self.steps, self.count = steps, self.count + 1
        return True


def _runs(kernel: FunctionKernel, rules: Rules, reach: tuple[int, ...], axis: int) -> list[_Run]:
    """The rows (planes) beyond both sides of an axis. They are made of rows inside, so they may be filled in any order."""
    sides: tuple[list[_Run], list[_Run]] = [], []
    for ghost in kernel.ghosts(rules, reach, axis):
        runs = sides[ghost.position > kernel.layout.row_halo[axis]]
        rows = ghost.position, *(cell for cell, _ in ghost.cells), owner_row(kernel.layout, ghost, axis)
        weights = tuple(weight for _, weight in ghost.cells)
        if not runs or not runs[-1].takes(rows, weights, ghost.constant):
            runs.append(_Run(rows, (0,) * len(rows), weights, ghost.constant))
    return [run for runs in sides for run in runs]


def _fill_run(kernel: FunctionKernel, target: Place, start: str, size: int, run: _Run, axis: int | None) -> None:
    """Fill rows (planes) of so many tiles outside the grid: where an axis is given, those whose owner along it this is.

    They are a loop whose length LLVM cannot compute, for it would compile each of them. Copies of a block of memory are one row.
    """
    text, count, (position, *cells, owner), (step, *strides, onward) = kernel.text, run.count, run.rows, run.steps
    tiles = size
    if axis is None and count > 1 and all(stride == step for stride in strides):
        back = min(0, step) * (count - 1)
        position, cells, tiles, count = position + back, [cell + back for cell in cells], size * count, 1

    def row(first: int, by: int, unit: int) -> str:
        return str(first * unit) if count == 1 or not by else f"({first * unit} + ghost * {by * unit})"

    def fill() -> None:
        with kernel.along(tiles):
            sources = [row(cell, stride, size) for cell, stride in zip(cells, strides, strict=True)]
            terms = [(w, kernel.stored(target).tile(f"{start}{at} + j")) for w, at in zip(run.weights, sources, strict=True)]
            kernel.put_tile(target, f"{start}{row(position, step, size)} + j", combined(terms, run.constant, "Tile(0.0)"))

    def fill_owned() -> None:
        with nullcontext() if axis is None else text.block(owned(kernel.layout, row(owner, onward, 1), axis)):
            fill()

    if count == 1:
        fill_owned()
        return
    with kernel.counted("ghost", "0", str(count)):
        fill_owned()


def _fill_ends(kernel: FunctionKernel, target: Place, rules: Rules, reach: int) -> None:
    """Fill the cells beyond both ends of a row."""
    n, first = kernel.layout.shape[-1], kernel.first_column
    if not rules[-1][1].fills:  # clear the values that whole tiles wrote beyond the last cell
        for x in range(n, min(n + reach, kernel.layout.tiles * kernel.lanes)):
            kernel.put_cell(target, kernel.rows, str(x + first), "F(0.0)")
    for ghost in kernel.ghosts(rules, (reach,) * kernel.ndim, kernel.ndim - 1):
        terms = [(weight, kernel.target_cell(target, kernel.rows, str(cell))) for cell, weight in ghost.cells]
        kernel.put_cell(target, kernel.rows, str(ghost.position), combined(terms, ghost.constant, "F(0.0)"))
