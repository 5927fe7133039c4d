"""How the workers of the CPU fill the halos after a loop nest, each around its own slab."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext

from diffsim.boundary import Ghost, Rules, fills
from diffsim.stepping.ir.program import Assign, Place, Written
from diffsim.stepping.source.functions import FunctionKernel
from diffsim.stepping.source.slabs import owner


def write_halo(kernel: FunctionKernel, assign: Assign | Written) -> None:
    """Fill the halo of the slab's own rows. The owner of the source copies rows of the halo."""
    reach = kernel.reach.get(assign.target.array, (0,) * kernel.ndim)
    if any(reach):
        kernel.call_on(assign.target, "fill_halo", lambda target: _fill(kernel, target, assign.rules, reach))


def _fill(kernel: FunctionKernel, target: Place, rules: Rules, reach: tuple[int, ...]) -> None:
    text, layout = kernel.text, kernel.layout
    planes = len(kernel.rows) == 2
    if reach[-1] and (fills(rules[-1]) or layout.shape[-1] % kernel.lanes):
        with ExitStack() as loops:
            if planes:
                loops.enter_context(kernel.counted("k", f"lo + {layout.row_halo[0]}", f"hi + {layout.row_halo[0]}"))
                bounds = kernel.across(layout.row_halo[1])
            else:
                bounds = f"lo + {layout.row_halo[0]}", f"hi + {layout.row_halo[0]}"
            loops.enter_context(kernel.counted("i", *bounds))
            _fill_ends(kernel, target, rules, reach[-1])
    if planes and reach[1] and fills(rules[1]):
        with kernel.counted("k", f"lo + {layout.row_halo[0]}", f"hi + {layout.row_halo[0]}"):
            text(f"plane = k * {layout.strides[0]}")
            for ghost in kernel.ghosts(rules, reach, 1):
                with text.block(owner(layout, ghost, 1)) if kernel.banded else nullcontext():
                    _fill_tiles(kernel, target, "plane + ", layout.stride, ghost)
    if kernel.ndim > 1 and reach[0]:
        for ghost in kernel.ghosts(rules, reach, 0):
            with text.block(owner(layout, ghost)):
                _fill_tiles(kernel, target, "", layout.strides[0], ghost)


def _fill_tiles(kernel: FunctionKernel, target: Place, start: str, size: int, ghost: Ghost) -> None:
    """Fill a row, or a plane, outside the grid."""
    with kernel.along(size):
        terms = [(weight, kernel.stored(target).tile(f"{start}{cell * size} + j")) for cell, weight in ghost.cells]
        kernel.put_tile(target, f"{start}{ghost.position * size} + j", kernel.combined(terms, ghost.constant, "Tile(0.0)"))


def _fill_ends(kernel: FunctionKernel, target: Place, rules: Rules, reach: int) -> None:
    """Fill the cells beyond both ends of a row."""
    n, first = kernel.layout.shape[-1], kernel.first_column
    if not rules[-1][1].fills:  # clear the values that whole tiles wrote beyond the last cell
        for x in range(n, min(n + reach, kernel.layout.tiles * kernel.lanes)):
            kernel.put_cell(target, kernel.rows, str(x + first), "F(0.0)")
    for ghost in kernel.ghosts(rules, (reach,) * kernel.ndim, kernel.ndim - 1):
        terms = [(weight, kernel.target_cell(target, kernel.rows, str(cell))) for cell, weight in ghost.cells]
        kernel.put_cell(target, kernel.rows, str(ghost.position), kernel.combined(terms, ghost.constant, "F(0.0)"))
