"""What a gradient of a simulation will take, before it is run: bytes by counting, seconds by running some steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from diffsim.arguments import mapping, number, real_array, shown
from diffsim.checkpoint import (
    Binomial,
    Costs,
    DiskStore,
    HostStore,
    Plan,
    Policy,
    Sizes,
    StateLayout,
    Sweep,
    choose,
    parse_memory,
)
from diffsim.checkpoint.growth import SAMPLES
from diffsim.checkpoint.storage.store import ALIGNMENT, Store, round_up
from diffsim.errors import ParameterError, PlanError
from diffsim.runtime import settings
from diffsim.simulation.checks import check_steps
from diffsim.stepping.forward import receiver_points
from diffsim.stepping.rounding import SPACING
from diffsim.stepping.stepper import Stepper
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.simulation.simulation import Simulation

RECORDED = 4
"""Numbers for a step and receiver: the trace as it is recorded, the solution's copy, its cotangent by the loss, and that of the sweep."""
FORCED = 4
"""Numbers for a step and source: the amplitude, its cotangent, and two copies of that while the gradient is handed over."""
ON_DEVICE = 2
"""Of both, those that are in a GPU's memory."""
MOST_STEPS = 4096
"""Steps of a measurement, at most."""
PIECE = 0.03
"""Seconds that a piece of a measurement takes about."""
ROUNDS = 5
FRESH = 8
"""States that are written to a file, each where nothing was before, as in a run: it may take longer than writing again."""
MOST_SLOTS = 8
"""Of a sweep that shows what comes beside its steps."""
MOST_RECORD = 64
"""Steps of a record that is measured."""


def sizes_of(simulation: Simulation, steps: int, fields: Mapping[str, Array] | None = None) -> Sizes:
    """Bytes of all that a gradient allocates.

    Args:
        simulation: what is differentiated.
        steps: time steps.
        fields: inputs, where strips of damped cells are to be counted: what they damp may depend on parameters.
    """
    stepper, item = simulation._stepper, simulation.dtype.itemsize
    cells = round_up(math.prod(simulation.grid.shape) * item, ALIGNMENT)
    points = simulation._points
    step = simulation._step
    forced = steps * sum(math.prod(simulation.input_shape(name, 1)) for name in (*step.forcings, *step.series))
    slim = [each for each in stepper.launcher.slim.values() if each.series]
    kept = steps * sum(math.prod(stepper.layout.slim_storage(each)) for each in slim)
    recorded = (steps + 1) * sum(points[receiver_points(s)].count for s in simulation.receivers)
    on_host = settings().arch == "cpu"
    streams = item * (FORCED * forced + RECORDED * recorded if on_host else ON_DEVICE * (forced + recorded))
    return Sizes(
        state=stepper.storage.state_bytes(),
        recorded=stepper.storage.recorded_bytes(),
        working=stepper.storage.working_bytes(),
        around=cells * _fields_around(simulation) + _kept_by_solvers(simulation) if on_host else 0,
        streams=streams + item * kept,
        row=sum(stepper.depths.values()) * cells,
        strips=0 if fields is None else _strip_bytes(simulation, steps, fields),
        second=stepper.storage.second_bytes() + (stepper.storage.second_copies() * cells if on_host else 0),
    )


def _strip_bytes(simulation: Simulation, steps: int, fields: Mapping[str, Array]) -> int:
    backwards = simulation._stepper.backwards
    if backwards is None:
        return 0
    with np.errstate(all="ignore"):  # inputs may be made up
        return backwards.strip_bytes(simulation._coefficients(fields), steps)


def _fields_around(simulation: Simulation) -> int:
    """Fields over the cells that are there when most are: as the final states' and coefficients' cotangents become those of the inputs.

    The final states, the coefficients, the cotangents of both; then, either what a function on the host takes and gives, or, of what is
    done once before the first step, what it reads, with halos, the cotangents of what it gives, with halos, and those of what it reads.
    """
    states, coefficients = len(simulation._step.states), len(simulation._coefficients.traced.outputs)
    once = (simulation._initial, simulation._coefficients)
    pulled = max(2 * len(part.placed) + len(part.traced.outputs) for part in once)
    return 2 * (states + coefficients) + max(pulled, host_copies(simulation))


def _kept_by_solvers(simulation: Simulation) -> int:
    """Bytes of matrices and their factors; tangents and adjoints solve with the same ones."""
    return sum(call.function.room(math.prod(simulation.grid.shape)) for call in simulation._stepper.forward.calls)


def host_copies(simulation: Simulation) -> int:
    """Fields over the cells that a function on the host is given and gives, at most; what it allocates itself is not known."""
    calls = [call for program in simulation._stepper.programs for call in program.calls]
    return max((len(call.inputs) + len(call.outputs) for call in calls), default=0)


def plan(
    simulation: Simulation,
    memory: str | int | None = None,
    *,
    steps: int,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    seconds: float = 1.0,
    **fields: Any,
) -> Plan:
    """Plan a gradient: measure what it takes, and choose how to keep the states that its reverse sweep needs.

    Kernels are compiled first, which takes its time; some steps are run then, and their time is measured. All storage of the simulation is
    given back afterwards, so a pullback that is still waiting makes its forward run again.

    Args:
        simulation: what is differentiated.
        memory: the most that the gradient may take, such as "4 GB" or bytes; None: half of what is available.
        steps: time steps.
        inputs: see `Simulation`; None: ones for parameters, and zeros, which take no longer and no shorter.
        seconds: that the measurement may take, about.
        **fields: others of `diffsim.checkpoint.Policy`: slots, schedule, disk, host, folder, compression, verify, resume.

    Returns:
        A plan, to print, to draw, and to give as `checkpoint=`.

    Raises:
        PlanError: the memory is too little; the message names the smallest that works.
        ParameterError: fields that cannot be, or do not go together.
    """
    if not hasattr(simulation, "_stepper"):
        raise ParameterError(f"simulation = {shown(simulation)}, expected a diffsim.Simulation; build one of an equation")
    steps = check_steps(steps)
    if inputs is not None:
        mapping("inputs", inputs, "{'c': c}")
    seconds = number(
        "seconds", seconds, "a number above 0, at most 3600", lambda x: 0 < x <= 3600, "a measurement of 1 s is precise enough"
    )
    policy = Policy(memory=memory, **fields)
    return plan_for(simulation, policy, steps, inputs, seconds)


def plan_for(
    simulation: Simulation, policy: Policy, steps: int, inputs: Mapping[str, npt.ArrayLike] | None = None, seconds: float = 1.0
) -> Plan:
    """`plan`, for a policy."""
    if policy.runs_backwards:
        simulation.require_undoable()
    with simulation._turn:
        fields = None if not policy.runs_backwards else made_up(simulation, steps) if inputs is None else simulation._checked(inputs, steps)
        sizes = sizes_of(simulation, steps, fields)
        first = choose(policy, steps, sizes)  # refuses what cannot be, before anything is compiled
        room = None if first.budget is None else first.budget - sizes.fixed
        return choose(policy, steps, sizes, measure(simulation, policy, steps, inputs, seconds, room))


def measure(
    simulation: Simulation,
    policy: Policy | None = None,
    steps: int = MOST_STEPS,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    seconds: float = 1.0,
    room: int | None = None,
) -> Costs:
    """Seconds of all that a gradient is made of, the lowest tenth of several runs; compiling is not counted.

    Args:
        simulation: whose.
        policy: says whether files and copies to the host are to be measured, and where.
        steps: of the gradient; no more are run.
        inputs: see `plan`.
        seconds: that it may take, about.
        room: bytes that slots and records may take; None: as many as it needs.
    """
    with simulation._turn:
        return _measured(simulation, Policy() if policy is None else policy, steps, inputs, seconds, room)


def _measured(
    simulation: Simulation,
    policy: Policy,
    steps: int,
    inputs: Mapping[str, npt.ArrayLike] | None,
    seconds: float,
    room: int | None,
) -> Costs:
    simulation._give_up_waiting()
    stepper, undone = simulation._stepper, policy.runs_backwards
    count = min(steps, MOST_RECORD if undone else MOST_STEPS)  # the former as what damped cells lose is kept too
    if stepper.adjoint is None:
        raise PlanError("expected a simulation with an adjoint, got one without; plan a gradient of the simulation itself")
    try:
        slots, record = _room(stepper, count, room)
        stepper.storage.release()
        stepper.storage.plan(slots, record, undone=undone)
        once = _started(simulation, count, inputs, undone) + min(steps, SAMPLES) * _timed(stepper.cotangent_size)
        return _Bench(stepper, count, slots, record, seconds).costs(policy, once)
    finally:
        stepper.storage.release()


def _room(stepper: Stepper, steps: int, room: int | None) -> tuple[int, int]:
    """How many slots, and how many steps of a record, a measurement may use."""
    state, recorded = stepper.storage.state_bytes(), stepper.storage.recorded_bytes()
    if room is None:
        return min(MOST_SLOTS, steps), min(MOST_RECORD, steps)
    slots = max(1, min(MOST_SLOTS, steps, (room - recorded) // state))
    record = (room - slots * state) // recorded if recorded else MOST_RECORD
    return slots, max(1, min(MOST_RECORD, steps, record))


def _started(simulation: Simulation, steps: int, inputs: Mapping[str, npt.ArrayLike] | None, undone: bool) -> float:
    """Put the simulation at its first step, and seed its reverse sweep with zeros; returns the seconds of both ends of a gradient."""
    stepper = simulation._stepper
    if inputs is None:
        fields = made_up(simulation, steps)
    else:
        driven = (*simulation._step.forcings, *simulation._step.series)
        cut = {name: _cut(name, value, steps) if name in driven else value for name, value in inputs.items()}
        fields = simulation._checked(cut, steps)
    seconds = []
    for _ in range(2):  # the first time touches memory
        began = time.perf_counter()
        coefficients = simulation._start(stepper, fields, steps, undone)
        if inputs is not None:
            simulation._solution(stepper)
        stepper.seed({}, {})
        with np.errstate(all="ignore"):
            bars, coefficient_bars, _ = stepper.cotangents()
            simulation._initial.vjp({**fields, **coefficients}, bars)
            simulation._coefficients.vjp(fields, coefficient_bars)
        seconds.append(time.perf_counter() - began)
    return seconds[-1]


def _cut(name: str, value: npt.ArrayLike, steps: int) -> Array:
    """Amplitudes of the first steps."""
    return np.atleast_1d(real_array(f"input {name}", value))[:steps]


def made_up(simulation: Simulation, steps: int) -> dict[str, Array]:
    """Inputs that keep every number finite and none tiny: ones for parameters, and zeros, which steps leave zeros or turn into ones."""
    fields = {}
    for name in simulation.inputs:
        shape = simulation.input_shape(name, steps)
        value = np.full(shape, 1.0 if name in simulation.equation.parameters else 0.0, simulation.dtype)
        fields[name] = simulation._traced.over_cells(name, value)
    return fields


class _Bench:
    """Times the parts of a gradient on a stepper that is at its first step, with its reverse sweep seeded.

    All parts are timed in turns, so that what other processes do for a while does not fall on one of them alone.

    Args:
        stepper: what is timed.
        count: steps that it may run.
        slots: that it has room for.
        record: steps of a record that it has room for.
        seconds: for all of it.
    """

    def __init__(self, stepper: Stepper, count: int, slots: int, record: int, seconds: float) -> None:
        self._stepper, self._count, self._slots, self._record = stepper, count, slots, record
        self._seconds, self._piece = seconds, min(PIECE, seconds / 40)
        self._kept = min(slots, count) - 1  # states of a kept run: one slot keeps the first state
        self._long = 1  # steps of an advance that hides its start
        self._times: dict[str, list[float]] = {}

    def costs(self, policy: Policy, once: float) -> Costs:
        """All costs."""
        stepper = self._stepper
        backwards = stepper.backwards if policy.runs_backwards else None
        if backwards is not None:
            backwards.keeping = False
        undone = backwards is not None
        stepper.save(0, 0)
        self._warm_up(undone)
        few = self._few()
        began, turns = time.perf_counter(), 0
        while turns < ROUNDS or time.perf_counter() - began < self._seconds:
            self._turn(undone, few)
            turns += 1
        host = self._to_host() if policy.host is not None else (0.0, 0.0)
        disk = self._on_disk(policy) if policy.disk is not None else (0.0, 0.0)
        stepper.load(0, 0)
        stepper.free(0)
        usual = {name: _usual(times) for name, times in self._times.items()}
        advance, single = usual["advance"], usual["reverse"]
        reverse = max(usual["run"] - single, 0.0) / self._kept if self._kept else single
        call = usual["start"] - advance
        if few is not None:
            call = (usual["sweep"] - (few.advances - few.steps + 1) * advance - few.steps * reverse) / few.starts
        undo = usual.get("undo")
        if undo is not None and "sample" in usual:
            undo += max(usual["sample"] - single, 0.0) / SPACING
        return Costs(advance, usual["record"], reverse, usual["reverse recorded"], undo, max(call, 0.0), *disk, *host, once)

    def _warm_up(self, undone: bool) -> None:
        """Compile everything, and find how many steps a long advance has."""
        self._turn(undone, None)
        self._times.clear()
        while self._advanced(self._long) < self._piece and self._long < self._count:
            self._long = min(2 * self._long, self._count)

    def _few(self) -> Binomial | None:
        """A short sweep, of about three forward runs where time allows.

        It has what comes beside steps: launches, the schedule's own work, and fields that are in no cache as others were used meanwhile.
        """
        if self._count < 2:
            return None
        step = self._advanced(self._long) / self._long
        slots, steps = self._slots, min(self._slots * (self._slots + 1) + 1, self._count)
        while steps > max(slots, 4) and 6 * step * steps > 2 * self._piece:
            steps //= 2
        steps = max(steps, 2)
        return Binomial(steps, min(slots, steps))

    def _advanced(self, steps: int) -> float:
        self._stepper.load(0, 0)
        return _timed(lambda: self._stepper.advance(0, steps))

    def _undone(self, steps: int) -> float:
        """Seconds of going back, and of keeping what that needs on the way there."""
        stepper, backwards = self._stepper, self._stepper.backwards
        assert backwards is not None
        plain = self._advanced(steps)
        backwards.keeping = True
        there = self._advanced(steps)
        back = _timed(lambda: stepper.undo(0, steps))
        backwards.keeping = False
        if stepper.storage.second_bytes():
            self._note("sample", _timed(lambda: stepper.reverse(0, 1)))
        return max(there - plain, 0.0) + back

    def _turn(self, undone: bool, few: Binomial | None) -> None:
        """Time each part once."""
        stepper, record = self._stepper, self._record
        self._note("start", self._advanced(1))
        self._note("advance", self._advanced(self._long) / self._long)
        if undone:
            self._note("undo", self._undone(self._long) / self._long)
        stepper.load(0, 0)
        self._note("record", _timed(lambda: stepper.record(0, record)) / record)
        self._note("reverse recorded", _timed(lambda: stepper.reverse(0, record)) / record)
        stepper.load(0, 0)
        for _ in range(ROUNDS):
            self._note("reverse", _timed(lambda: stepper.reverse(0, 1)))
        if self._kept:
            stepper.keep(0, self._kept)
            self._note("run", _timed(lambda: stepper.reverse(0, self._kept + 1)))
            stepper.load(0, 0)
        if few is not None:
            stepper.free(0)  # the working state is that of step 0 still, and so it is after the sweep
            with Sweep(few, stepper) as sweep:
                sweep.forward()
                self._note("sweep", _timed(sweep.reverse))
            stepper.save(0, 0)

    def _note(self, name: str, seconds: float) -> None:
        self._times.setdefault(name, []).append(seconds)

    def _layout(self) -> StateLayout:
        return StateLayout.of(self._stepper.state_arrays())

    def _on_disk(self, policy: Policy) -> tuple[float, float]:
        """Seconds until a state is in a file, and back from it."""
        assert policy.disk is not None
        layout, room, slots = self._layout(), parse_memory(policy.disk), FRESH
        while slots > 1 and DiskStore.planned_file_bytes(layout, slots) > room:
            slots -= 1
        store = DiskStore.nameless(policy.writable_folder(), layout, slots, policy.compression)
        write, read = self._transfers(store, FRESH)
        return median(write[1:]), median(read[1:])

    def _to_host(self) -> tuple[float, float]:
        """Seconds of a copy to the host's memory, and back."""
        write, read = self._transfers(HostStore(self._layout(), 1), ROUNDS)
        return _usual(write[1:]), _usual(read[1:])

    def _transfers(self, store: Store, rounds: int) -> tuple[list[float], list[float]]:
        """Seconds of writes, to one slot after the other, and of reads."""
        stepper = self._stepper
        write: list[float] = []
        read: list[float] = []
        with store:
            for turn in range(rounds):
                slot = turn % store.slots
                stepper.load(0, 0)
                write.append(_timed(partial(self._keep, store, slot)))
                read.append(_timed(partial(self._bring, store, slot)))
        return write, read

    def _keep(self, store: Store, slot: int) -> None:
        store.write(slot, 0, self._stepper.state_arrays())
        store.kept()  # waits for the file

    def _bring(self, store: Store, slot: int) -> None:
        self._stepper.set_state(store.read(slot, 0))


def _usual(seconds: Iterable[float]) -> float:
    """The lowest decile: what other processes do to some of the times does not count."""
    return quantiles(seconds, n=10, method="inclusive")[0]


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
