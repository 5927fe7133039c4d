"""The part of one rank in a simulation over many processes, and that of a simulation in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from diffsim.base import buffers
from diffsim.base.arguments import flag, plural, whole
from diffsim.base.messages import shown
from diffsim.base.system import local_ranks
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.domains.boxes import Cuts, Slices
from diffsim.domains.costs import step_cost, steps_together
from diffsim.domains.cut import Cut
from diffsim.domains.points import BoxPoints, overhang, points_in
from diffsim.domains.ranks import Ranks
from diffsim.domains.reach import Reach, deep_of, reach_of, reach_of_maps
from diffsim.domains.refusals import require_local, require_open
from diffsim.domains.stepper import Copy, DomainStepper, Field, Plain
from diffsim.domains.totals import total_of_rows
from diffsim.domains.widths import UNCUT
from diffsim.engine import clock
from diffsim.errors import DiffsimError, ParameterError, ShapeError
from diffsim.mesh.grid import MAX_DIMENSIONS, Grid
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.run.stepper import Stepper
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedMap, TracedStep
from diffsim.typing import Array, IntArray

Result = TypeVar("Result")
Best = TypeVar("Best")
MOST_STEPS = 8
"""The most steps between exchanges that are chosen."""
WIDEST_POINTS = 7
"""How far the cells of a point with sinc interpolation lie from its first one."""


@dataclass(frozen=True)
class Domains:
    """How a simulation is divided among the processes of MPI: in place of a tuple of numbers for `domains` of `Simulation`.

    Args:
        parts: number of boxes along each axis of the grid.
        steps: steps between two exchanges of ghost cells. More need more ghost cells, which are computed twice, and fewer exchanges.
            None: the number for which a model of both costs gives the least time.
        gathered: whether solutions and gradients are those of the whole grid, on all ranks, so that a program is the same as in one
            process. Else each rank has those of its own cells, `Simulation.box`.

    Raises:
        ParameterError: a number below 1, or more than three axes.

    Example:
        import numpy as np

        import diffsim as ds

        # mpiexec -n 2 python program.py divides the rod; without mpiexec the program runs in one process, with the same bits
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), domains=ds.domains.Domains((2,), steps=8), wrt=["kappa"])
        inputs = {"kappa": np.full(40, 5e-3), "T": np.linspace(0.0, 1.0, 40)}
        value, gradient = rod.value_and_grad(lambda solution: (solution.final["T"] ** 2).sum(), inputs, steps=60)
        assert value > 0 and gradient["kappa"].shape == (40,)
    """

    parts: tuple[int, ...]
    steps: int | None = None
    gathered: bool = True

    def __post_init__(self) -> None:
        parts = (self.parts,) if isinstance(self.parts, int) else self.parts
        if not isinstance(parts, Sequence) or isinstance(parts, str) or not 1 <= len(parts) <= MAX_DIMENSIONS:
            raise ParameterError(f"domains = {shown(self.parts)}, expected a number of boxes along each axis; write them like (2, 2)")
        checked = tuple(whole(f"domains along axis {axis}", count, 1) for axis, count in enumerate(parts))
        object.__setattr__(self, "parts", checked)
        if self.steps is not None:
            object.__setattr__(self, "steps", whole("steps between exchanges", self.steps, 1))
        object.__setattr__(self, "gathered", flag("gathered", self.gathered))

    @classmethod
    def of(cls, domains: Any) -> Domains:
        """Domains as a user gives them."""
        return domains if isinstance(domains, Domains) else cls(domains)

    @property
    def count(self) -> int:
        """Number of boxes."""
        return math.prod(self.parts)


INPUTS = "other inputs, points, steps, settings or versions: give each rank the same program and files"
"""The usual reason why ranks differ."""


class Whole:
    """The part of the grid that this process has, as a simulation uses it: here all of it. `InBox` is that of one process of several.

    Attributes:
        alone: whether there is one process.
        local: processes on this machine.
        owned: the cells of the whole grid that this process owns.
        wide: the cells that it has: these and ghost cells.
        cut_axes: the axes that are cut, along which processes have other cells.
        inner: the same cells, of those here.
        gathered: whether results are those of the whole grid.
        spent: exchanges of ghost cells so far, and their seconds.
        ghost_share: ghost cells over all cells here.
        place: identifies this part of this division; None: the whole grid.
        description: of the division, a line.
    """

    alone, local, ghost_share, spent, description = True, 1, 0.0, (0, 0.0), "one process has the whole grid"

    def __init__(self, grid: Grid) -> None:
        self.owned: Slices = tuple(slice(0, n) for n in grid.shape)
        self.wide, self.inner, self.gathered = self.owned, self.owned, True
        self.place: object = None
        self.cut_axes: tuple[int, ...] = ()

    def step(self, step: TracedStep) -> TracedStep:
        """The step here."""
        return step

    def map(self, traced: TracedMap) -> TracedMap:
        """A map here."""
        return traced

    def stepper(
        self, step: TracedStep, points: Mapping[str, PointTable], receivers: Sequence[str], dtype: np.dtype, differentiable: bool
    ) -> Stepper:
        """The stepper of a step that was cut, with all points."""
        return Stepper(step, points, receivers, dtype, differentiable)

    def cut(self, values: Array, axes: Sequence[int] | None = None, rows: int = 0) -> Array:
        """The cells here of an array over the whole grid, or over some of its axes, after `rows` other axes."""
        return values

    def require_same_ghosts(self, fields: Mapping[str, Array]) -> None:
        """Raise ParameterError if a field over the cells here has other numbers in ghost cells than their owner has."""

    def side_by_side(self, fields: Mapping[str, Array], final: Mapping[str, Array]) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """Inputs at the cells here and final states as the user gets them, both at the same cells."""
        return fields, final

    def cotangents(self, cells: Mapping[str, Array], fields: Mapping[str, Placed]) -> dict[str, Array]:
        """Cotangents of inputs as the user gets them, from those at the cells here, for fields that vary along some axes."""
        return {name: fields[name].summed(bars) for name, bars in cells.items()}

    def own(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The owned cells of final states, or of their cotangents, as the user has them."""
        return dict(values)

    def whole(self, owned: Mapping[str, Array]) -> dict[str, Array]:
        """Final states as the user gets them, from their owned cells."""
        return dict(owned)

    def every(self, value: Result) -> list[Result]:
        """The values of all processes."""
        return [value]

    def agreed(self, call: Callable[[], Result], same: Callable[[Result], object] | None = None, why: str = INPUTS) -> Result:
        """The result of a call, or the error of the first rank that has one.

        Args:
            call: made on all ranks.
            same: gives what must be equal on all ranks.
            why: the difference, for the message, and its remedy.
        """
        return call()

    def least(self, value: Best, cost: int) -> Best:
        """The value of the rank with the lowest cost."""
        return value

    def require(self, what: str, fine: bool) -> None:
        """Raise ParameterError if something is asked for that domains do not have."""


Part = tuple[Slices, Array]
"""Cells of a field, and their values in a message."""
Ways = tuple[list[tuple[int, Slices]], list[tuple[int, Slices]]]
"""Cells that come from other ranks, and cells that go to others."""


class InBox:
    """The part of one rank of several. See `Whole` for the other attributes and the methods of both.

    Args:
        domains: the division.
        ranks: the processes.
        grid: the whole grid.
        step: the step on it.
        maps: what is computed once before the first step, in order.
        points: all sources and receivers.
        receivers: states that are sampled.
        dtype: type of all fields.
        same: what must be equal on all ranks.

    Attributes:
        box: the cells of this rank.

    Raises:
        ParameterError: another number of ranks than boxes, ranks that differ, or an equation that domains do not have.
        ShapeError: a box that is too thin.
    """

    def __init__(
        self,
        domains: Domains,
        ranks: Ranks,
        grid: Grid,
        step: TracedStep,
        maps: Iterable[TracedMap],
        points: Mapping[str, PointTable],
        receivers: Sequence[str],
        dtype: np.dtype,
        same: object,
    ) -> None:
        self._ranks, self.gathered, maps = ranks, domains.gathered, tuple(maps)
        programs = Programs(step, receivers, dtype, differentiable=True)
        require_local(step, programs, domains.parts)
        require_open(step, domains.parts)
        is_cut, of_maps = np.array(domains.parts) > 1, reach_of_maps(maps, grid.shape)
        least = tuple(int(r) for r in np.maximum(reach_of(programs, np.zeros(grid.ndim, int)).most, 1))
        bare = Cuts(grid.shape, domains.parts, (0,) * grid.ndim, least)
        self.overhang = np.where(is_cut, self._widest_points(bare, points), 0)
        reach, self.deep = reach_of(programs, self.overhang), deep_of(step)
        stretched = np.array([h is None for h in grid.uniform_spacing], int)
        self._margin = 2 * of_maps + stretched + reach.given
        choices = range(1, MOST_STEPS + 1) if domains.steps is None else (domains.steps,)
        ghosts = [(k - 1) * reach.by_next + reach.most + self._margin for k in choices]
        divisions = [Cuts(grid.shape, domains.parts, tuple(each.tolist()), least) for each in ghosts]
        together = steps_together(programs, domains.count) if domains.steps is None else frozenset[int]()
        costs = [step_cost(cuts, k, step, reach, self._margin, together) for cuts, k in zip(divisions, choices, strict=True)]
        self.cuts = divisions[ranks.gathered(int(np.argmin(costs)))[0]]  # caches of other ranks may differ
        self.box = self.cuts.box(ranks.rank)
        self.inner, self._cut = self.box.inner, Cut(self.box, grid)
        self._known_ways: dict[tuple[int, ...] | None, Ways] = {}
        self._buffers: dict[tuple[int, int, np.dtype], Array] = {}
        self.alone, self.local, self.owned, self.ghost_share = False, local_ranks(), self.box.owned, self.box.ghost_share
        self.wide = self.box.cells
        self.cut_axes = tuple(axis for axis, parts in enumerate(domains.parts) if parts > 1)
        self.place: object = (ranks.rank, self.box, domains.parts)
        self._exchanges, self._seconds = 0, 0.0
        self.agreed(lambda: None, lambda result: same)

    def _widest_points(self, cuts: Cuts, points: Mapping[str, PointTable]) -> IntArray:
        """The distance that points reach into ghost cells: those of now, and plain ones that come later."""
        far = [overhang(cuts, table) for table in points.values()]
        most = np.maximum.reduce([np.ones(len(cuts.grid), int), *far])
        return np.where(most > 1, WIDEST_POINTS, most)

    @property
    def spent(self) -> tuple[int, float]:
        return self._exchanges, self._seconds

    @property
    def description(self) -> str:
        boxes = [self.cuts.box(rank) for rank in range(self.cuts.count)]
        cells, share = max(math.prod(box.shape) for box in boxes), max(box.ghost_share for box in boxes)
        line = (
            f"{' x '.join(map(str, self.cuts.parts))} boxes on {self.cuts.count} ranks: memory is that of the largest, {cells} cells with "
            f"its ghost cells; at most {100 * share:.1f} % of the cells of a rank are ghost cells"
        )
        better = self._fewer_along_last()
        return line if better is None else f"{line}; domains = {better} would be faster: cells along the last axis are neighbours in memory"

    def _fewer_along_last(self) -> tuple[int, ...] | None:
        """The same boxes with another axis cut in place of the last one, if its boxes are thick enough for that."""
        *others, last = self.cuts.parts
        if last == 1:
            return None
        for axis, (count, n, least) in enumerate(zip(others, self.cuts.grid, self.cuts.least, strict=False)):
            if n // (count * last) >= max(least, self.cuts.grid[-1] // last // 2):
                return (*others[:axis], count * last, *others[axis + 1 :], 1)
        return None

    # parts of a traced equation

    def step(self, step: TracedStep) -> TracedStep:
        return self._cut.step(step)

    def map(self, traced: TracedMap) -> TracedMap:
        return self._cut.map(traced)

    def stepper(
        self, step: TracedStep, points: Mapping[str, PointTable], receivers: Sequence[str], dtype: np.dtype, differentiable: bool
    ) -> Stepper:
        stepper = self.agreed(lambda: DomainStepper(self, step, points, receivers, dtype, differentiable))
        layout = stepper.layout  # a box inside of an absorbing layer may have other halos and spare tiles than its neighbour
        layouts = self.every((layout.strides, layout.row_halo[1:], layout.stride, layout.lanes))
        stepper.in_place = all(each == layouts[0] for each in layouts)
        return stepper

    def widths(self, reach: Reach) -> IntArray:
        cut = np.array(self.cuts.parts) > 1
        widths = np.where(cut, np.array(self.cuts.ghosts) - self._margin, UNCUT)
        if (widths < reach.most).any():
            axis = int(np.flatnonzero(widths < reach.most)[0])
            raise ShapeError(
                f"a step with its derivatives reads {reach.most[axis]} cells away along axis {axis}, expected at most {widths[axis]}, "
                "the ghost cells of the simulation; take more steps between exchanges, Domains(parts, steps)"
            )
        return widths

    def points(self, name: str, table: PointTable) -> BoxPoints:
        return points_in(self.box, self.cuts, table, tuple(int(p) for p in self.overhang), name)

    # arrays

    def cut(self, values: Array, axes: Sequence[int] | None = None, rows: int = 0) -> Array:
        return self.box.cut(values, axes, rows)

    def require_same_ghosts(self, fields: Mapping[str, Array]) -> None:
        if not fields:
            return
        incoming, outgoing = self._ways(None)

        def digests(ways: list[tuple[int, Slices]], rank: int) -> dict[str, int]:
            return {name: fingerprint([values[where] for other, where in ways if other == rank]) for name, values in fields.items()}

        every = self._ranks.gathered({to: digests(outgoing, to) for to, _ in outgoing})

        def compare() -> None:
            for owner in sorted({owner for owner, _ in incoming}):
                here, there = digests(incoming, owner), every[owner][self._ranks.rank]
                differ = [name for name in fields if here[name] != there[name]]
                if differ:
                    raise ParameterError(
                        f"input {differ[0]} has other numbers on rank {owner}, at cells that both have, expected the same; give all ranks "
                        "the same file, or a function whose value at a cell depends on the coordinates of this cell alone"
                    )

        self.agreed(compare)

    def side_by_side(self, fields: Mapping[str, Array], final: Mapping[str, Array]) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        if self.gathered:
            return fields, {name: self.cut(values) if values.ndim else values for name, values in final.items()}
        return {name: values[self.inner] for name, values in fields.items()}, final

    def of_whole(self, values: Mapping[str, Array]) -> dict[str, Array]:
        numbers = {name: value if self._first else np.zeros_like(value) for name, value in values.items() if not value.ndim}
        fields = {name: value for name, value in values.items() if name not in numbers}
        if self.gathered:
            return {name: self.box.cut(value) for name, value in fields.items()} | numbers
        arrays = {}
        for name, value in fields.items():
            arrays[name] = np.zeros(self.box.shape, value.dtype)
            arrays[name][self.inner] = value
        if arrays:
            self.exchange([Plain(cells) for cells in arrays.values()], next(iter(arrays.values())).dtype)()
        return arrays | numbers

    @property
    def _first(self) -> bool:
        """True if the box has the first cell of the grid, to which the cotangent of a number goes."""
        return not any(begin for begin, _ in self.box.wide)

    def own(self, values: Mapping[str, Array]) -> dict[str, Array]:
        return {name: np.ascontiguousarray(value[self.owned]) if self.gathered and value.ndim else value for name, value in values.items()}

    def whole(self, owned: Mapping[str, Array]) -> dict[str, Array]:
        return {name: self._assembled(values) if self.gathered and values.ndim else buffers.copy(values) for name, values in owned.items()}

    def _assembled(self, owned: Array) -> Array:
        out = buffers.empty(self.cuts.grid, owned.dtype)
        for rank in range(self._ranks.size):
            box = self.cuts.box(rank)
            shape = tuple(end - begin for begin, end in box.own)
            block = np.ascontiguousarray(owned) if rank == self._ranks.rank else np.empty(shape, owned.dtype)
            out[box.owned] = self._ranks.shared(block, rank)
        return out

    def cotangents(self, cells: Mapping[str, Array], fields: Mapping[str, Placed]) -> dict[str, Array]:
        own = {name: bars[self.inner] for name, bars in cells.items()}
        out = {}
        for name, bars in own.items():
            if fields[name].axes is not None:  # a sum over cells, in the order of one process
                out[name] = fields[name].summed(self._assembled(bars))
            else:
                out |= self.whole({name: bars})
        return out

    def columns(self, points: BoxPoints, values: Array) -> Array:
        out = np.zeros((len(values), points.total), values.dtype)
        for numbers, columns in self._ranks.gathered((points.owned_numbers, points.owned(values))):
            out[:, numbers] = columns
        return out

    def exchange(self, fields: Sequence[Field], dtype: np.dtype) -> Copy:
        received, incoming = self._messages(0, fields, dtype)
        sent, outgoing = self._messages(1, fields, dtype)
        packing = [field.packing(where, values) for field, parts in zip(fields, outgoing, strict=True) for where, values in parts]
        unpacking = [each for field, parts in zip(fields, incoming, strict=True) for each in field.unpacking(parts)]

        def exchange() -> None:
            began = clock()
            for pack in packing:
                pack()
            self._ranks.exchanged(sent, received)
            for unpack in unpacking:
                unpack()
            self._exchanges += 1
            self._seconds += clock() - began

        return exchange

    def _messages(self, way: int, fields: Sequence[Field], dtype: np.dtype) -> tuple[dict[int, list[Array]], list[list[Part]]]:
        """The messages that come from each rank (`way` 0), or go there (1), and the parts of each field that are copied there.

        Values that lie side by side in a field are a message in place. The others share one, whose memory later exchanges use again.
        """
        messages: dict[int, list[Array]] = {}
        parts: list[list[Part]] = [[] for _ in fields]
        others: dict[int, list[tuple[int, Slices]]] = {}
        for number, field in enumerate(fields):
            for rank, where in self._ways(field.far)[way]:
                if (run := field.run(where)) is not None:
                    messages.setdefault(rank, []).append(run)
                elif field.size(where):
                    others.setdefault(rank, []).append((number, where))
        for rank, each in others.items():
            ends = np.cumsum([fields[number].size(where) for number, where in each]).tolist()
            key = way, rank, dtype
            if key not in self._buffers or len(self._buffers[key]) < ends[-1]:
                self._buffers[key] = np.empty(ends[-1], dtype)
            buffer = self._buffers[key][: ends[-1]]
            messages.setdefault(rank, []).append(buffer)
            for (number, where), begin, end in zip(each, [0, *ends[:-1]], ends, strict=True):
                parts[number].append((where, buffer[begin:end]))
        return messages, parts

    def _ways(self, far: tuple[int, ...] | None) -> Ways:
        """The ghost cells up to some distances that other ranks own, with their numbers; and the owned cells that are ghosts of others."""
        if far not in self._known_ways:
            mine = self._ranks.rank
            incoming = [(piece.owner, piece.here) for piece in self.cuts.pieces(mine, far)]
            outgoing = [(to, p.there) for to in range(self._ranks.size) for p in self.cuts.pieces(to, far) if p.owner == mine]
            self._known_ways[far] = incoming, outgoing
        return self._known_ways[far]

    def total(self, rows: Array, how: Literal["sum", "max"]) -> Array:
        every = self._ranks.gathered(np.ascontiguousarray(rows[self.inner[0]]))  # ranks are counted along the first axis, the only one cut
        return total_of_rows(np.concatenate(every), how)

    # agreement

    def every(self, value: Result) -> list[Result]:
        return self._ranks.gathered(value)

    def agreed(self, call: Callable[[], Result], same: Callable[[Result], object] | None = None, why: str = INPUTS) -> Result:
        error: DiffsimError | None = None
        result: Any = None
        try:
            result = call()
            key = None if same is None else same(result)
        except DiffsimError as raised:
            error, key = raised, None
        every = self._ranks.gathered((error, key))
        for rank, (first, _) in enumerate(every):
            if first is not None and error is not None:  # each rank that has an error reports its own
                raise error
            if first is not None:
                first.args = (f"on rank {rank}: {first.args[0]}", *first.args[1:])
                raise first
        for rank, (_, other) in enumerate(every):
            if other != every[0][1]:
                raise ParameterError(f"rank {rank} of {self._ranks.size} differs from rank 0, expected the same on all, got {why}")
        return result

    def least(self, value: Best, cost: int) -> Best:
        every = self._ranks.gathered((cost, value))
        return min(every, key=lambda each: each[0])[1]

    def require(self, what: str, fine: bool) -> None:
        if not fine:
            raise ParameterError(f"{what} for a grid in domains, expected none; leave it out, or run in one process")


Domain: TypeAlias = Whole | InBox
"""The part of the grid that this process has."""


def domain_of(
    domains: Any,
    grid: Grid,
    step: TracedStep,
    maps: Iterable[TracedMap],
    points: Mapping[str, PointTable],
    receivers: Sequence[str],
    dtype: np.dtype,
    same: object,
) -> Domain:
    """The part of this process: the whole grid unless a launcher of MPI started several."""
    from diffsim.domains.mpi import ranks

    processes = ranks()  # first, so that an error ends all of them with one line
    wanted = Domains.of(domains)
    if len(wanted.parts) != grid.ndim:
        raise ParameterError(f"domains = {wanted.parts}, expected {plural(grid.ndim, 'number')} (one an axis); write one for each axis")
    if processes.size == 1 and not processes.launched:
        return Whole(grid)
    if processes.size != wanted.count:
        raise ParameterError(
            f"domains = {wanted.parts} need {plural(wanted.count, 'rank')}, one for each box, got {processes.size}; start the program with "
            f"mpiexec -n {wanted.count}{', or leave domains out: each process then has the whole grid' if wanted.count == 1 else ''}"
        )
    if wanted.count == 1:
        return Whole(grid)
    return InBox(wanted, processes, grid, step, maps, points, receivers, dtype, same)
