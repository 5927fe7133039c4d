"""Steps with calls of host functions: kernels and calls one after the other, each prepared once for many steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from diffsim.linear import norms
from diffsim.stepping.ir.program import HostCall, Place, Program, Total, Written
from diffsim.stepping.run.arrays import FieldArrays
from diffsim.stepping.run.host_calls import described
from diffsim.stepping.source.kernel import DONE, STEPS
from diffsim.stepping.source.whole_step import Solving
from diffsim.typing import Array, IntArray

Levels: TypeAlias = Mapping[str, IntArray]
StepPart: TypeAlias = Callable[[int, int, Levels], None]
"""One part of a step: (local step, index of the step, level tables of the launch)."""


def prepared(
    call: HostCall, program: Program, arrays: FieldArrays, outside: Callable[[Callable[..., Any]], Callable[..., Any]], moving: set[str]
) -> StepPart:
    """A call of a host function as a part of a step.

    Args:
        call: the call.
        program: the program that it belongs to.
        arrays: the arrays of its fields. The part is right until one of them is replaced.
        outside: wraps the function, see `Launcher.outside`.
        moving: arrays with level tables.
    """
    if call.total is not None:
        total = call.total

        def add_rows(t: int, step: int, levels: Levels) -> None:
            try:
                _add_rows(call, total, arrays, step)
            except Exception as error:
                raise described(call, step, error) from error

        return add_rows
    function = outside(call.function)
    sources = [_source(program.places[name], arrays, moving) for name in call.inputs]
    targets = [_target(each, arrays, moving) for each in call.outputs]

    def run(t: int, step: int, levels: Levels) -> None:
        try:
            results = function(*[_now(source, t, levels) for source in sources])
            for put, cells in zip(targets, results, strict=True):
                put(cells, t, levels)
        except Exception as error:
            raise described(call, step, error) from error

    inside = getattr(call.function, "inside", None)
    if inside is None:
        return run
    solver = outside(lambda cells, result: within.solver() if (within := inside(cells, result)) else None)
    return _in_place(call, solver, program, arrays, moving, run)


def _in_place(
    call: HostCall, solver: Callable[..., Any], program: Program, arrays: FieldArrays, moving: set[str], otherwise: StepPart
) -> StepPart:
    """A call by a function that works on the storage of its fields as it is, where there is one."""
    places = [*(program.places[name] for name in call.inputs), *(each.target for each in call.outputs)]
    if any(each.filled for each in call.outputs) or not all(arrays.seen(place.array) for place in places):
        return otherwise
    moves = [(place.array, place.level) for place in places if place.level is not None and place.array in moving]
    known: dict[tuple[int, ...], Callable[[], object] | None] = {}

    def run(t: int, step: int, levels: Levels) -> None:
        key = tuple([int(levels[array][t + level]) for array, level in moves])
        try:
            if key not in known:
                *cells, result = [_source(place, arrays, moving) for place in places]
                known[key] = solver([_now(each, t, levels) for each in cells], _now(result, t, levels))
            function = known[key]
            if function is not None:
                function()
        except Exception as error:
            raise described(call, step, error) from error
        if function is None:
            otherwise(t, step, levels)

    return run


def solving(
    call: HostCall, program: Program, arrays: FieldArrays, outside: Callable[[Callable[..., Any]], Callable[..., Any]], moving: set[str]
) -> Solving | None:
    """A call of a host function as a function of the kernel of a whole step; None if it cannot be one. See `prepared`."""
    inside = getattr(call.function, "inside", None)
    if call.total is not None or inside is None or any(each.filled for each in call.outputs):
        return None
    places = [*(program.places[name] for name in call.inputs), *(each.target for each in call.outputs)]
    if not all(arrays.seen(place.array) for place in places):
        return None
    moves = [place if place.level is not None and place.array in moving else None for place in places]
    if any(moves[1:-1]):  # magnitudes, which the check reads after the step
        return None
    *cells, result = [arrays.cells(place.array, 0 if move else place.level) for place, move in zip(places, moves, strict=True)]
    within = outside(inside)([_read_only(each) for each in cells], _read_only(result))
    return None if within is None or (moves[0] and within.check) else Solving(within, (moves[0], moves[-1]))


def in_one(
    launch: Callable[[], None], control: IntArray, checks: Sequence[tuple[HostCall, Callable[[float, float], None] | None, Array]]
) -> StepPart:
    """A launch of a whole step, and the checks of the norms that it leaves."""
    needed = [(call, check, sums) for call, check, sums in checks if check is not None]

    def run(t: int, step: int, levels: Levels) -> None:
        control[DONE], control[STEPS] = t, t + 1
        launch()
        for call, check, sums in needed:
            try:
                check(*norms(sums))
            except Exception as error:
                raise described(call, step, error) from error

    return run


def _now(source: Array | Callable[[int, Levels], Array], t: int, levels: Levels) -> Array:
    return source if isinstance(source, np.ndarray) else source(t, levels)


def _source(place: Place, arrays: FieldArrays, moving: set[str]) -> Array | Callable[[int, Levels], Array]:
    """The cells of a field that a function may read: a view, or a function that gives them where they move from step to step."""
    array, level = place.array, place.level
    if level is not None and array in moving:
        return lambda t, levels: _read_only(arrays.cells(array, int(levels[array][t + level])))
    if arrays.seen(array):
        return _read_only(arrays.cells(array, level))
    return lambda t, levels: _read_only(arrays.cells(array, level))


def _target(written: Written, arrays: FieldArrays, moving: set[str]) -> Callable[[Array, int, Levels], None]:
    """A function that writes the cells of a field, and its halo if the host fills that."""
    array, level, rules = written.target.array, written.target.level, written.rules
    if level is not None and array in moving:
        if written.filled:
            return lambda cells, t, levels: arrays.put_field(array, cells, rules, int(levels[array][t + level]))
        return lambda cells, t, levels: _assign(arrays.cells(array, int(levels[array][t + level])), cells)
    if written.filled:
        return lambda cells, t, levels: arrays.put_field(array, cells, rules, level)
    place = arrays.cells(array, level)
    return lambda cells, t, levels: _assign(place, cells)


def _assign(place: Array, cells: Array) -> None:
    place[...] = cells


def _read_only(cells: Array) -> Array:
    view = cells.view()
    view.flags.writeable = False
    return view


def _add_rows(call: HostCall, total: Total, arrays: FieldArrays, step: int) -> None:
    """Let a host function add up the totals of rows, in one step."""
    (number,), values = call.function(arrays.slim_cells(total.source)), arrays.slim_cells(total.target)
    at: int | tuple[()] = step if total.slim.series else ()
    values[at] = values[at] + number if total.accumulate else number
