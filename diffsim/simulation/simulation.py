"""An equation with its sources and receivers: run it, and take derivatives through all of its time steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from diffsim.ad.arrays.array import Array as DifferentiatedArray
from diffsim.ad.core import require_not_recording
from diffsim.base.arguments import flag, function, mapping, names, one_of, whole
from diffsim.base.quantities import Meaning
from diffsim.base.summary import Rows, Summary
from diffsim.checkpoint import Action, AnySchedule, Checkpoint, OnProgress, Policy, Sizes, choose
from diffsim.checkpoint.schedule import require_schedule
from diffsim.domains import Domains, domain_of
from diffsim.engine import PRECISIONS, Rebuilt, settings
from diffsim.simulation.export.dataset import dataset
from diffsim.simulation.export.described import Described, described
from diffsim.simulation.gradients.gradient import run_reversibly
from diffsim.simulation.gradients.loss import Loss, value_and_cotangents
from diffsim.simulation.gradients.taped import run_taped, value_and_grad_taped
from diffsim.simulation.prepared.checks import check_names, check_steps, places
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.forward import Watch, run_forward
from diffsim.simulation.prepared.groups import Groups
from diffsim.simulation.prepared.identity import identity
from diffsim.simulation.prepared.inputs import input_meaning
from diffsim.simulation.prepared.locks import Turn
from diffsim.simulation.prepared.options import RunOptions, Until, WatchAdjoint
from diffsim.simulation.prepared.points import point_tables
from diffsim.simulation.prepared.report import SweepReport
from diffsim.simulation.prepared.sizes import sizes_for, sizes_of
from diffsim.simulation.prepared.solution import Pullback, Solution
from diffsim.simulation.prepared.traced import trace
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.declare.points import Places, PointTable
from diffsim.stepping.derive.forward import receiver_points, source_points
from diffsim.stepping.ir.names import dot
from diffsim.stepping.trace.declared import check_declared
from diffsim.typing import Array

if TYPE_CHECKING:
    import xarray


class Simulation(Rebuilt, Summary):
    """An equation, compiled for the present arch, with point sources and receivers.

    Its inputs are named: the equation's parameters (over the cells along the axes along which they vary), its initial fields (over the
    cells; zero if left out), the amplitudes of its forcings (shape (steps, sources)), and its series (shape (steps, cells along the axes
    along which they vary)). A parameter or an initial field may be a function of the coordinates of its cells, in the grid's unit:
    `{"c": lambda z, x: 1500 + 0.5 * z}` gets those of the axes along which it varies, in arrays that NumPy broadcasts. A vector or tensor
    of the equation may be one array, of its components along the first axis; its name stands for all of them in `wrt`, `sources`,
    `receivers`, solutions and gradients, too.

    Args:
        equation: the equation to solve.
        sources: forcing -> coordinates, shape (sources, axes), in the grid's units. Between cells the amplitude is
            shared among the neighbours. An amplitude a stands for a density a * delta(x - x_source). `Points` has other interpolations,
            and dipoles.
        receivers: state -> coordinates, shape (receivers, axes), or `Points`; values between cells are interpolated linearly.
        wrt: inputs to differentiate for; None: all. Leaving out parameters makes the adjoint cheaper, and a
            linear equation whose parameters are all left out needs no stored states at all.
        precision: "f32" or "f64"; None: the default of `diffsim.init`.
        domains: boxes along each axis, such as (2, 2), or `Domains`: under `mpiexec -n 4` each of four processes has one, and the results
            have the bits of one process. Without a launcher of MPI, one process has the whole grid.

    Attributes:
        last_sweep: time and steps of the last gradient, and the errors of its states.

    Raises:
        ShapeError: a source or receiver outside the grid, or a grid smaller than the stencil.
        ParameterError: an unknown forcing, state or precision.

    Example:
        import numpy as np

        import diffsim as ds

        # Which diffusivity explains a temperature that was measured at two places?
        grid = ds.Grid((40,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), receivers={"T": [[0.5], [1.5]]}, wrt=["kappa"])
        hot = np.exp(-(((grid.coordinates(0) - 1.0) / 0.2) ** 2))
        measured = rod.run({"kappa": np.full(40, 8e-3), "T": hot}, steps=60).traces["T"]
        misfit = ds.losses.L2Misfit(measured)
        guess = {"kappa": np.full(40, 5e-3), "T": hot}
        value, gradient = rod.value_and_grad(lambda solution: misfit(solution.traces["T"]), guess, steps=60, checkpoint=8)
        assert value > 0 and gradient["kappa"].sum() < 0  # a larger diffusivity fits better
    """

    def __init__(
        self,
        equation: Equation,
        *,
        sources: Mapping[str, Places] | None = None,
        receivers: Mapping[str, Places] | None = None,
        wrt: Collection[str] | None = None,
        precision: str | None = None,
        domains: Sequence[int] | Domains | None = None,
    ) -> None:
        precision = settings().precision if precision is None else one_of("precision", precision, PRECISIONS)
        check_declared(equation)
        fields = {*equation.states, *equation.initials, *equation.parameters, *equation.series}
        sources = Groups.of(equation, equation.forcings).each(places("sources", sources))
        groups = Groups.of(equation, fields | sources.keys())
        receivers = groups.each(places("receivers", receivers))
        check_names("sources", sources, equation.forcings, "forcings", equation)
        check_names("receivers", receivers, equation.states, "states", equation)
        wrt = None if wrt is None else groups.names(names("wrt", wrt, "['c']"))
        traced, wanted = trace(equation, sources, wrt)
        points = point_tables(traced.step, sources, receivers)
        domain = None
        if domains is not None:
            dtype = np.dtype(PRECISIONS[precision])
            same = identity(equation, traced, dtype, wanted, receivers, points, [domains]).hexdigest()
            maps = traced.coefficients, traced.initial
            domain = domain_of(domains, equation.grid, traced.step, maps, points, tuple(receivers), dtype, same)
        self._take(Compiled(equation, traced, points, tuple(receivers), wanted, precision, Turn(), domain=domain))

    def _take(self, compiled: Compiled) -> None:
        self._compiled, self._stepper, self._step, self._turn = compiled, compiled.stepper, compiled.step, compiled.turn
        self._groups, self._grouped = compiled.groups, bool(compiled.groups.parts)
        self.equation, self.grid, self.precision, self.dtype = compiled.equation, compiled.grid, compiled.precision, compiled.dtype
        self.receivers, self.wrt = compiled.receivers, compiled.wrt
        self._tangent: Simulation | None = None

    @classmethod
    def _of(cls, compiled: Compiled) -> Simulation:
        simulation = cls.__new__(cls)
        simulation._take(compiled)
        return simulation

    def tangent(self, differentiable: bool = True) -> Simulation:
        """The same equation with a tangent for every field: x has `dot(x, order)`, in inputs and in solutions.

        It is a simulation like any other. Its run is the derivative of this simulation's run along a direction, and its vjp gives the
        second derivatives. It is built once.

        Args:
            differentiable: whether its vjp will be called, which needs memory for cotangents.
        """
        differentiable = flag("differentiable", differentiable)
        with self._turn:
            compiled = self._compiled.with_tangent(differentiable)
            if self._tangent is None or self._tangent._compiled is not compiled:
                self._tangent = Simulation._of(compiled)
            return self._tangent

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the equation, points and options. Kernels are compiled anew after loading, and storage is not pickled."""
        return self._reduced(_loaded, self._pickled)

    def _pickled(self) -> tuple[Any, ...]:
        self._compiled.domain.require("a copy or a pickle of the simulation", False)
        base = len(self.receivers) >> self.order, len(self.wrt) >> self.order
        differentiable = self._stepper.adjoint is not None
        primal = self.equation, self.precision, self._compiled.points, self.receivers[: base[0]], self.wrt[: base[1]]
        return (*primal, self.order, differentiable)

    def _summary(self) -> tuple[str, Rows]:
        points = self._compiled.points
        rows = [
            ("grid", " x ".join(map(str, self.grid.shape)) + f" cells ({', '.join(self.grid.axes)})"),
            ("time step", f"{self.equation.dt:.6g} {self.equation.time_unit}".rstrip()),
            ("states", ", ".join(self._step.states)),
            ("inputs", ", ".join(self.inputs)),
            ("differentiated", ", ".join(self.wrt) or "none"),
            ("sources", ", ".join(f"{points[source_points(f)].count} of {f}" for f in self._step.forcings) or "none"),
            ("receivers", ", ".join(f"{points[receiver_points(s)].count} of {s}" for s in self.receivers) or "none"),
            ("precision", self.precision),
        ]
        return f"Simulation of {type(self.equation).__name__}", rows

    def __repr__(self) -> str:
        return f"Simulation({type(self.equation).__name__}, shape={self.grid.shape}, wrt={self.wrt}, precision={self.precision!r})"

    @property
    def order(self) -> int:
        """How many times tangents were taken: 0 for the equation itself."""
        return self._compiled.traced.order

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of all inputs."""
        return self._compiled.inputs

    @property
    def last_sweep(self) -> SweepReport | None:
        """Time and steps of the last gradient, and the errors of its states."""
        report = self._compiled.report
        return None if report is None else report()

    @property
    def box(self) -> tuple[slice, ...]:
        """The cells of the grid that this process owns: all, unless `domains` divide it."""
        return self._compiled.domain.owned

    def input_shape(self, name: str, steps: int) -> tuple[int, ...]:
        """The shape of an input, by name, of a run of `steps` steps.

        Raises:
            ParameterError: there is no such input, or `steps` is no number of steps.
        """
        compiled = self._compiled
        if isinstance(name, str) and (parts := self._groups.parts.get(name)):
            return len(parts), *compiled.input_shape(parts[0], check_steps(steps))
        known = (*compiled.step.forcings, *compiled.step.series, *compiled.coefficients.traced.inputs, *compiled.initial.traced.inputs)
        return compiled.input_shape(one_of("name", name, known), check_steps(steps))

    def _apart(self, inputs: Any, what: str = "input") -> Any:
        """Inputs by the names of the fields: a vector's components in place of the vector."""
        return self._groups.apart(what, inputs) if isinstance(inputs, Mapping) else inputs

    def _described(self, solution: Solution | None, inputs: Any, gradient: Any) -> list[Described]:
        """Arrays for other programs, by the names of fields."""
        if self._grouped and isinstance(solution, Solution):
            solution = Solution(self._apart(solution.final, "final"), self._apart(solution.traces, "traces of"))
        return described(self._compiled, solution, self._apart(inputs), self._apart(gradient, "gradient for"))

    def _meaning(self, name: str) -> Meaning:
        """The unit and dimensions of an input."""
        return input_meaning(self._compiled, name)

    def source(self, kind: Literal["forward", "jvp", "vjp"] = "forward") -> str:
        """The generated kernel, as Taichi source."""
        if one_of("kind", kind, ("forward", "jvp", "vjp")) == "jvp":
            return self.tangent(differentiable=False).source()
        if kind == "forward":
            return self._stepper.launcher.text_of(self._stepper.forward)
        assert self._stepper.adjoint is not None
        return self._stepper.launcher.text_of(self._stepper.adjoint.program)

    def schedule(self, steps: int, checkpoint: Checkpoint = "auto") -> AnySchedule:
        """The checkpointing schedule that `vjp` would use."""
        policy, steps = Policy.of(checkpoint), check_steps(steps)
        return choose(policy, steps, sizes_for(self._compiled, policy, steps)).schedule

    def sizes(self, steps: int, inputs: Mapping[str, npt.ArrayLike] | None = None) -> Sizes:
        """Bytes that a gradient of `steps` steps allocates, with domains in this process. The caller's inputs are not counted.

        Args:
            steps: time steps.
            inputs: see the class. With them, the strips of damped cells that a run backwards would store are counted.
        """
        steps = check_steps(steps)
        return sizes_of(self._compiled, steps, None if inputs is None else self._compiled.checked(self._apart(inputs), steps))

    def predicted_bytes(self, schedule: AnySchedule) -> int:
        """Bytes of all fields of a gradient by `schedule`. Not counted are traces and amplitudes (a number for each step and point),
        and strips of damped cells where steps are undone."""
        storage, schedule = self._stepper.storage, require_schedule(schedule)
        second = storage.second_bytes() if schedule.runs_backwards else 0
        recorded = schedule.recorded * storage.recorded_bytes(schedule.recorded)
        return storage.working_bytes() + second + schedule.slots * storage.state_bytes() + recorded

    def allocated_bytes(self) -> int:
        """Bytes of all fields now, without those of `jvp` and without strips of damped cells."""
        return self._stepper.storage.allocated_bytes()

    def move(self, sources: Mapping[str, Places] | None = None, receivers: Mapping[str, Places] | None = None) -> None:
        """Move sources and receivers without compiling anew: for many shots with one simulation.

        Args:
            sources: forcing -> coordinates. Forcings left out stay where they are. The number of sources may change.
            receivers: state -> coordinates, likewise.

        Raises:
            ShapeError: a source or receiver is outside the grid. Nothing is moved.
            ParameterError: a forcing or state that this simulation was built without.
        """
        sources, receivers = (self._groups.each(places(*each)) for each in (("sources", sources), ("receivers", receivers)))
        check_names("sources", sources, self._step.forcings, "forcings with sources", self.equation)
        check_names("receivers", receivers, self.receivers, "states with receivers", self.equation)
        tables = point_tables(self._step, sources, receivers)
        with self._turn:
            self._compiled.move(tables)

    def run(
        self,
        inputs: Mapping[str, Any],
        steps: int,
        every: int = 0,
        watch: Watch | None = None,
        checkpoint: Checkpoint = "auto",
        until: Until | None = None,
    ) -> Solution:
        """Solve forward. Inside a differentiated function (`diffsim.grad` and the like) it is one operation on the tape.

        Args:
            inputs: arrays and functions by name, see the class. Those that are differentiated for must be in `wrt`.
            steps: time steps, or their maximum.
            every: call `watch` and `until` every `every` steps; 0: never call `watch`, and call `until` after each step.
            watch: called with the number of steps done and the states. It is not called while the run is differentiated.
            checkpoint: the states that the reverse sweep stores, if the run is differentiated; see `vjp`.
            until: (steps done, states) -> whether the run is over; its traces then have that many steps.
        """
        steps, every = check_steps(steps), whole("every", every, 0)
        function("watch", watch, "lambda done, states: ...")
        options = RunOptions.of(Policy.of(checkpoint), until, max(every, 1))
        if self._grouped:
            inputs = self._apart(inputs)
        named = inputs if type(inputs) is dict else mapping("inputs", inputs, "{'c': c}")
        if DifferentiatedArray in map(type, named.values()):
            if watch is not None and every > 0:
                require_not_recording("watch=")
            return run_taped(self._compiled, inputs, steps, options)
        return run_forward(self._compiled, inputs, steps, options, watch if every > 0 else None)

    def vjp(
        self,
        inputs: Mapping[str, npt.ArrayLike],
        steps: int,
        checkpoint: Checkpoint = "auto",
        on_action: Callable[[Action], None] | None = None,
        until: Until | None = None,
        every: int = 1,
        on_progress: OnProgress | None = None,
        watch: WatchAdjoint | None = None,
    ) -> tuple[Solution, Pullback]:
        """Solve forward, and prepare the reverse sweep.

        Args:
            inputs: arrays and functions by name, see the class.
            steps: time steps, or their maximum.
            checkpoint: "auto", a memory size such as "4 GB", a number of slots, a schedule, or a `Policy`.
            on_action: called after each action of the schedule.
            until: (steps done, states) -> whether the run is over; its traces then have that many steps.
            every: number of steps between calls of `until`; `watch` is called at multiples of it.
            on_progress: called now and then with the share of the work that is done and the seconds left, such as a `ProgressBar`.
            watch: called in the reverse sweep, from the last step down to 0, with the step and the cotangents of the states there: the
                adjoint fields, over the cells.

        Returns:
            The solution, and a function that turns its cotangents (entries left out count as zero) into those of every
            input in `wrt`. It can be called at any time and any number of times. The simulation has storage for one run: if
            it was used for another run meanwhile, or the pullback was called before, the forward run is repeated.

        Raises:
            ReplayError: raised by the pullback: a repeated step gave another result than the first time.
        """
        options = RunOptions.of(Policy.of(checkpoint), until, every, on_action, on_progress, watch)
        if self._grouped:
            inputs = self._apart(inputs)
        return run_reversibly(self._compiled, inputs, check_steps(steps), options)

    def value_and_grad(
        self,
        loss: Loss,
        inputs: Mapping[str, npt.ArrayLike],
        steps: int,
        checkpoint: Checkpoint = "auto",
        on_action: Callable[[Action], None] | None = None,
        until: Until | None = None,
        every: int = 1,
        on_progress: OnProgress | None = None,
        watch: WatchAdjoint | None = None,
    ) -> tuple[float, dict[str, Array]]:
        """Value of a loss and its gradient for every input in `wrt`.

        Args:
            loss: solution -> a number, computed with `diffsim.numpy`; or (value, cotangents of the solution) in NumPy.
            inputs: and all others: see `vjp`.

        Raises:
            DerivativeError: the loss returns only a number, and uses an operation that loses a derivative.
        """
        function("loss", loss, "lambda solution: (solution.traces['p'] ** 2).sum()", optional=False)
        if self._grouped:
            inputs = self._apart(inputs)
        if type(inputs) is dict and DifferentiatedArray in map(type, inputs.values()):
            options = RunOptions.of(Policy.of(checkpoint), until, every, on_action, on_progress, watch)
            return value_and_grad_taped(self._compiled, loss, inputs, check_steps(steps), options)
        solution, pullback = self.vjp(inputs, steps, checkpoint, on_action, until, every, on_progress, watch)
        value, cotangents = value_and_cotangents(loss, solution)
        return value, pullback(cotangents)

    def jvp(self, inputs: Mapping[str, npt.ArrayLike], tangents: Mapping[str, npt.ArrayLike], steps: int) -> tuple[Solution, Solution]:
        """Solution and its derivative along `tangents` (inputs left out are fixed). Nothing is stored."""
        inputs = self._apart(mapping("inputs", inputs, "{'c': c}"))
        tangents = self._apart(mapping("tangents", tangents, "{'c': c_dot}"), "tangent of")
        check_names("tangents", tangents, self.inputs, "inputs", self.equation)
        with self._turn:
            tangent = self.tangent(differentiable=False)
            order = tangent.order
            both = tangent.run({**inputs, **{dot(name, order): value for name, value in tangents.items()}}, steps)
        primal = Solution({s: both.final[s] for s in self._step.states}, {s: both.traces[s] for s in self.receivers}, groups=self._groups)
        moved = {s: both.final[dot(s, order)] for s in self._step.states}
        return primal, Solution(moved, {s: both.traces[dot(s, order)] for s in self.receivers}, groups=self._groups)

    def to_xarray(
        self,
        solution: Solution | None = None,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        gradient: Mapping[str, npt.ArrayLike] | None = None,
        unit: str | None = None,
    ) -> xarray.Dataset:
        """A solution of this simulation as an `xarray.Dataset`, without copies: `to_netcdf` and `to_zarr` write it.

        Args:
            solution: its states become `final_p` and its traces `trace_p`.
            inputs: arrays by name, which become `input_c`.
            gradient: arrays by name, which become `gradient_c`.
            unit: unit of the grid's coordinates; None: the one that the grid states.

        Returns:
            A dataset with coordinates of cells (`x`, and `x_face` for fields on faces), of receivers and of time in seconds, units and
            names in words, and attributes that describe the run.

        Raises:
            MissingPackageError: xarray is not installed.
            ShapeError: an array is not of this simulation's shape.
        """
        return dataset(
            self._compiled,
            self._described(solution, inputs, gradient),
            self.grid.axis_units if unit is None else (unit,) * self.grid.ndim,
        )

    def to_vtk(
        self,
        path: str | os.PathLike[str],
        solution: Solution | None = None,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        gradient: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Path:
        """Write fields over the cells to a VTK file, which ParaView shows.

        Each field is data of cells, under the names of `to_xarray`. A value on the upper face of a cell is written to this cell. Arrays
        with a value for each step, such as traces, are left out.

        Args:
            path: the file. Its ending is `.vti`, or `.vtr` for a stretched grid, and is added if it is missing.
            solution: its final states are written.
            inputs: arrays by name.
            gradient: arrays by name.

        Returns:
            The path of the file.

        Raises:
            ParameterError: the path has another ending.
            ShapeError: an array is not of this simulation's shape.
        """
        from diffsim.simulation.export.vtk import write_vtk

        arrays = self._described(solution, inputs, gradient)
        return write_vtk(path, self.grid, [array for array in arrays if not array.rows])


def _loaded(
    equation: Equation,
    precision: str,
    points: dict[str, PointTable],
    receivers: tuple[str, ...],
    wrt: tuple[str, ...],
    order: int,
    differentiable: bool,
) -> Simulation:
    """Build a simulation from its pickled parts."""
    traced = trace(equation, [f for f in equation.forcings if source_points(f) in points], wrt)[0]
    places = [*map(source_points, traced.step.forcings), *map(receiver_points, receivers)]
    primal = {name: points[name] for name in places}
    simulation = Simulation._of(Compiled(equation, traced, primal, receivers, wrt, precision, Turn(), differentiable or order > 0))
    for number in range(order):
        simulation = simulation.tangent(differentiable or number + 1 < order)
    return simulation
