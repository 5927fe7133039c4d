"""All programs of a step for the present arch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from diffsim.boundary import check_halo
from diffsim.engine import backend, lanes
from diffsim.errors import ShapeError
from diffsim.expr.graph import operations
from diffsim.mesh.field import Layout, Slim
from diffsim.stepping.derive.adjoint import Adjoint, adjoint_program
from diffsim.stepping.derive.forms import alternative_is_cheaper
from diffsim.stepping.derive.forward import forward_program, ring_depths
from diffsim.stepping.derive.kept_stages import programs_with_kept_stages
from diffsim.stepping.derive.residuals import ResidualPrograms, residual_programs
from diffsim.stepping.derive.undo import Undo, undo
from diffsim.stepping.ir.names import bar
from diffsim.stepping.ir.program import Program
from diffsim.stepping.ir.sparse import Sparse
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.passes.interior import with_interiors
from diffsim.stepping.passes.length import warn_if_long
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.passes.streams import with_sums_apart
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedStep

LARGE = 2**14
"""Cells of a grid above which memory traffic costs more than barriers."""
LONG = 256
"""Operations a cell of a step, or of an adjoint step, above which its values need registers more than they need wide tiles."""


class Programs:
    """The programs of a step, and their requirements on its fields.

    Args:
        step: the traced step.
        receivers: states that are sampled at receivers.
        dtype: type of all fields.
        differentiable: whether to build an adjoint.

    Attributes:
        forward: the program of a step.
        adjoint: its transpose, or None.
        with_residuals: programs that keep residuals, if that is better than keeping states.
        layout: layout of every field that is stored at all cells.
    """

    def __init__(self, step: TracedStep, receivers: Sequence[str], dtype: np.dtype, differentiable: bool) -> None:
        self.step, self._dtype = step, dtype
        if differentiable:
            warn_if_long(step.graph, step.expressions())
        self._overwrites, self._rolling = _worth_barriers(step), Rolling(step.graph, backend().on_host)
        forward = forward_program(step, receivers, points_last=self._overwrites)
        adjoint = adjoint_program(step, receivers, points_last=self._overwrites) if differentiable else None
        if adjoint and adjoint.alternative and alternative_is_cheaper(step, adjoint, self._rolling):
            adjoint = dataclasses.replace(adjoint, program=adjoint.alternative, alternative=None)
        with_residuals = None
        if adjoint:
            with_residuals = residual_programs(step, forward, adjoint) or programs_with_kept_stages(step, forward, adjoint)
        self.forward = self._refined(forward)
        self.adjoint: Adjoint | None = adjoint and dataclasses.replace(adjoint, program=self._refined(adjoint.program))
        self.with_residuals: ResidualPrograms | None = with_residuals and dataclasses.replace(
            with_residuals, forward=self._refined(with_residuals.forward), adjoint=self._refined(with_residuals.adjoint)
        )
        check_halo(step.grid.shape, _farthest(self.forward.reach().values(), step.grid.ndim))
        reach = _farthest(self.reach().values(), step.grid.ndim)
        halo = _farthest([reach, *(far for program in self for far in program.touched())], step.grid.ndim)
        width = lanes(dtype, narrow=self._operations() > LONG)
        margin = max((program.spare() for program in self), default=0) if width > 1 else 0
        self.layout = Layout(step.grid.shape, halo, width, dtype, margin, step.joined_rows(reach[0]))

    def __iter__(self) -> Iterator[Program]:
        yield self.forward
        if self.adjoint:
            yield self.adjoint.program
        if self.with_residuals:
            yield from (self.with_residuals.forward, self.with_residuals.adjoint)

    def replace(self, changed: Mapping[str, Program]) -> None:
        """Replace programs, by name, by others that use the same arrays in the same way."""

        def of(program: Program) -> Program:
            return changed.get(program.name, program)

        self.forward = of(self.forward)
        if self.adjoint:
            self.adjoint = dataclasses.replace(self.adjoint, program=of(self.adjoint.program))
        if self.with_residuals:
            pair = self.with_residuals
            self.with_residuals = dataclasses.replace(pair, forward=of(pair.forward), adjoint=of(pair.adjoint))

    def _refined(self, program: Program) -> Program:
        """Improve a program: keep values that nests would compute several times a cell, and on a CPU compute less in the interior, compute
        sums apart, and overwrite states."""
        if backend().on_host:
            program = with_interiors(with_sums_apart(program), self.step, self._regional(), self._dtype)
        return dataclasses.replace(self._rolling.rolled(program), overwrites=self._overwrites)

    def _operations(self) -> int:
        """Operations a cell of a step or of an adjoint step, as recorded sweeps compute them."""
        programs = [self.forward, *([self.adjoint.program] if self.adjoint else [])]
        if self.with_residuals:
            programs = [self.with_residuals.forward, self.with_residuals.adjoint]
        return max(map(_operations, programs))

    @cached_property
    def undone(self) -> Undo | None:
        """The program that undoes a step, or None if there is none."""
        how = undo(self.step)
        return how and dataclasses.replace(how, program=dataclasses.replace(how.program, overwrites=self._overwrites))

    def in_place(self, name: str) -> bool:
        """Whether a step may overwrite the oldest level of a state, or of a cotangent, also a step that keeps or reads residuals."""
        residuals = self.with_residuals
        if name in ring_depths(self.step):
            return self.forward.in_place(name) and (residuals is None or residuals.forward.in_place(name))
        assert self.adjoint is not None
        return self.adjoint.program.in_place(name) and (residuals is None or residuals.adjoint.in_place(name))

    @cached_property
    def needs_primal(self) -> bool:
        """Whether the adjoint reads the states of the forward run, or solutions that are kept with them.

        That of a linear step with fixed coefficients does not.
        """
        if self.adjoint is None:
            return False
        return self.with_residuals is not None or not ring_depths(self.step).keys().isdisjoint(self.adjoint.program.arrays())

    def records_residuals(self, recorded: int) -> bool:
        """Whether steps keep residuals if `recorded` of them are recorded at a time.

        A single one is the last of a run whose others start from states. It keeps its state, if residuals would be kept beside it: the
        programs with residuals need not be compiled for one step.
        """
        residuals = self.with_residuals
        return self.needs_primal and residuals is not None and (recorded > 1 or (recorded == 1 and not residuals.states))

    def holds_states(self, residuals: bool) -> bool:
        """Whether recorded steps hold their states, with residuals or without."""
        return self.needs_primal and (not residuals or self.with_residuals is None or self.with_residuals.states)

    @cached_property
    def read_states(self) -> tuple[frozenset[str], frozenset[str]]:
        """States that the adjoints of recorded steps read, without residuals and with them. Those alone are held."""
        if self.adjoint is None:
            return frozenset(), frozenset()
        adjoints = self.adjoint.program, (self.with_residuals.adjoint if self.with_residuals else self.adjoint.program)
        depths = ring_depths(self.step).keys()
        alone, beside = (frozenset(depths & {*program.arrays()}) for program in adjoints)
        return alone if self.holds_states(False) else frozenset(), beside if self.holds_states(True) else frozenset()

    def reach(self) -> dict[str, tuple[int, ...]]:
        """Array -> largest offset at which it is read, along each axis."""
        out: dict[str, tuple[int, ...]] = {}
        for program in self:
            for array, reach in program.reach().items():
                out[array] = tuple(map(max, out.get(array, reach), reach))
        return out

    def coefficient_bars(self) -> list[str]:
        """Arrays with cotangents of the coefficients that are differentiated for."""
        return [bar(name) for name in sorted(self.step.active & self.step.coefficients.keys())]

    def stacks(self) -> dict[str, int]:
        """Arrays of loops, and how many levels each has."""
        return {array: size for program in self for array, size in program.stacks.items()}

    def fields(self) -> set[str]:
        """Arrays of fields that vary along all axes."""
        return {array for program in self for array in program.arrays()} - self.slim().keys()

    def slim(self) -> dict[str, Slim]:
        """Fields that vary along some axes only."""
        totals = {total.target: total.slim for program in self for total in program.totals}
        return self.step.slim | totals | {bar(name): slim for name, slim in self.step.slim.items() if name in self.step.active}

    def sparse(self) -> dict[str, Sparse]:
        """The storage of states that exist only in a region, and of their cotangents."""
        known: dict[Placed, Sparse] = {}
        for name, placed in self._regional().items():
            if placed not in known and placed.region is not None:
                try:
                    known[placed] = Sparse(self.layout, placed.region, placed.rules)
                except ShapeError as error:
                    raise ShapeError(f"{name} has {error}") from error
        return {name: known[placed] for name, placed in self._regional().items()}

    def stored_fields(self) -> StoredFields:
        """How all of them are stored."""
        return StoredFields(self.layout, self.reach(), self.slim(), self.sparse(), self.stacks())

    def _regional(self) -> dict[str, Placed]:
        """Arrays of states that exist only in a region, and of their cotangents."""
        states = {name: placed for name, placed in self.step.states.items() if placed.region is not None}
        return states | {bar(name): placed for name, placed in states.items()}


def _operations(program: Program) -> int:
    """Operations a cell of the nests of a program."""
    bodies = (nest.roots or [assign.node for assign in nest.assigns] for nest in program.nests)
    kept = (group.values.values() for nest in program.nests for group in nest.groups)
    return sum(map(operations, (*bodies, *kept)))


def _worth_barriers(step: TracedStep) -> bool:
    """Whether states are overwritten, and stored once if they are stages.

    That takes less memory traffic, but barriers for points if there are several workers. On a GPU it takes more loops.
    """
    return backend().on_host and (backend().threads == 1 or math.prod(step.grid.shape) >= LARGE)


def _farthest(reaches: Iterable[tuple[int, ...]], ndim: int) -> tuple[int, ...]:
    """The largest offset along each axis."""
    found = list(reaches)
    return tuple(max((far[axis] for far in found), default=0) for axis in range(ndim))
