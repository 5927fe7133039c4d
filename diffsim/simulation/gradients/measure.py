"""Seconds of each part of a gradient of a simulation, measured by running some steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import median, quantiles

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import real_array
from diffsim.checkpoint import Binomial, Costs, DiskStore, HostStore, Policy, StateLayout, Sweep, parse_memory
from diffsim.checkpoint.growth import SAMPLES
from diffsim.checkpoint.storage.store import Store
from diffsim.engine import clock
from diffsim.errors import PlanError
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.inputs import input_meaning
from diffsim.simulation.prepared.reading import is_function
from diffsim.simulation.prepared.sizes import made_up
from diffsim.stepping.run.rounding import SPACING
from diffsim.stepping.run.stepper import Stepper
from diffsim.typing import Array

MOST_STEPS = 4096
"""Steps of a measurement, at most."""
PIECE = 0.03
"""Approximate seconds of a piece of a measurement."""
ROUNDS = 5
FRESH = 8
"""States that are written to new places of a file, as in a run. Writing to a new place may take longer than overwriting."""
MOST_SLOTS = 8
"""Slots of the short sweep that measures the cost in addition to the steps."""
FEW_TOGETHER = 16
"""Steps of a measurement in domains."""
MOST_RECORDED = 64
"""Steps that a measurement records at once."""


def measure(
    compiled: Compiled,
    policy: Policy,
    steps: int,
    inputs: Mapping[str, npt.ArrayLike] | None,
    seconds: float,
    room: int | None,
) -> Costs:
    """Seconds of each part of a gradient: the lowest decile of several runs, without compiling.

    Args:
        compiled: the simulation to differentiate.
        policy: contains the folder of files; files, and copies to the host, are measured if it allows them.
        steps: time steps of the gradient; no more are run.
        inputs: see `plan`.
        seconds: approximate limit for the measurement.
        room: the most bytes for slots and recorded steps; None: no limit.
    """
    compiled.give_up_waiting()
    stepper, undone = compiled.stepper, policy.runs_backwards
    count = min(steps, MOST_RECORDED if undone else MOST_STEPS)  # fewer where damped cells are stored as well
    if stepper.adjoint is None:
        raise PlanError("expected a simulation with an adjoint, got one without; plan a gradient of the simulation itself")
    try:
        slots, recorded = _room(stepper, count, room)
        stepper.storage.release()
        stepper.storage.plan(slots, recorded, undone=undone)
        once = _started(compiled, count, inputs, undone) + min(steps, SAMPLES) * _timed(stepper.cotangent_size)
        return _Bench(stepper, count, slots, recorded, seconds).costs(policy, once)
    finally:
        stepper.storage.release()


def measure_together(compiled: Compiled, steps: int, inputs: Mapping[str, npt.ArrayLike] | None) -> Costs:
    """Seconds of each part of a gradient of a grid in domains, by the same few steps on all ranks: those of rank 0."""
    compiled.give_up_waiting()
    stepper, count = compiled.stepper, min(steps, FEW_TOGETHER)
    if stepper.adjoint is None:
        raise PlanError("expected a simulation with an adjoint, got one without; plan a gradient of the simulation itself")
    try:
        stepper.storage.release()
        stepper.storage.plan(2, count)
        once = _started(compiled, count, inputs, False)
        stepper.save(0, 0)
        times: dict[str, float] = {}
        for _ in range(2):  # the first time compiles
            for name, held in (("advance", 0), ("record", count), ("single", 1)):
                stepper.load(0, 0)
                if name == "advance":
                    times[name] = _timed(partial(stepper.advance, 0, count)) / count
                elif name == "record":
                    times[name] = _timed(partial(stepper.record, 0, held)) / held
                    times["reverse recorded"] = _timed(partial(stepper.reverse, 0, held)) / held
                else:
                    times[name] = _timed(partial(stepper.reverse, 0, 1))
        stepper.load(0, 0)
        stepper.free(0)
    finally:
        stepper.storage.release()
    costs = Costs(times["advance"], times["record"], times["single"], times["reverse recorded"], None, 0.0, once=once)
    return compiled.domain.least(costs, 0)


def _room(stepper: Stepper, steps: int, room: int | None) -> tuple[int, int]:
    """The number of slots, and of recorded steps, that a measurement may use."""
    state, step = stepper.storage.state_bytes(), stepper.storage.recorded_bytes()
    if room is None:
        return min(MOST_SLOTS, steps), min(MOST_RECORDED, steps)
    slots = max(1, min(MOST_SLOTS, steps, (room - step) // state))
    recorded = (room - slots * state) // step if step else MOST_RECORDED
    return slots, max(1, min(MOST_RECORDED, steps, recorded))


def _started(compiled: Compiled, steps: int, inputs: Mapping[str, npt.ArrayLike] | None, undone: bool) -> float:
    """Put the simulation at its first step, and seed its reverse sweep with zeros. Return the seconds of start and end of a gradient."""
    stepper = compiled.stepper
    if inputs is None:
        fields = {name: compiled.at_cells(name, value) for name, value in made_up(compiled, steps).items()}
    else:
        driven = (*compiled.step.forcings, *compiled.step.series)
        cut = {
            name: _cut(compiled, name, value, steps) if name in driven and not is_function(value) else value
            for name, value in inputs.items()
        }
        fields = compiled.checked(cut, steps)
    seconds = []
    for _ in range(2):  # the first time touches memory
        began = clock()
        coefficients = compiled.start(fields, steps, undone, judged=inputs is not None)
        if inputs is not None:
            compiled.solution()
        stepper.seed({}, {})
        with np.errstate(all="ignore"):
            bars, coefficient_bars, _ = stepper.input_cotangents()
            compiled.initial.vjp({**fields, **coefficients}, bars)
            compiled.coefficients.vjp(fields, coefficient_bars)
        seconds.append(clock() - began)
    return seconds[-1]


def _cut(compiled: Compiled, name: str, value: npt.ArrayLike, steps: int) -> Array:
    """Amplitudes of the first steps."""
    return np.atleast_1d(real_array(f"input {name}", value, meaning=input_meaning(compiled, name)))[:steps]


class _Bench:
    """Times the parts of a gradient on a stepper that is at its first step, with its reverse sweep seeded.

    All parts are timed in turns, so that a short load by other processes does not slow down only one of them. The stepper may run `count`
    steps. Its memory has room for `slots` states and for `recorded` recorded steps.
    """

    def __init__(self, stepper: Stepper, count: int, slots: int, recorded: int, seconds: float) -> None:
        self._stepper, self._count, self._slots, self._recorded = stepper, count, slots, recorded
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
        began, turns = clock(), 0
        while turns < ROUNDS or clock() - began < self._seconds:
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
        """Compile everything, and choose the number of steps of a long advance."""
        self._turn(undone, None)
        self._times.clear()
        while self._advanced(self._long) < self._piece and self._long < self._count:
            self._long = min(2 * self._long, self._count)

    def _few(self) -> Binomial | None:
        """A short sweep, of about three forward runs where time allows.

        It includes the costs in addition to the steps: launches, the schedule's own work, and cache misses after other fields were used.
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
        """Seconds of running backwards, and of storing the values for it in the forward run."""
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
        stepper, recorded = self._stepper, self._recorded
        self._note("start", self._advanced(1))
        self._note("advance", self._advanced(self._long) / self._long)
        if undone:
            self._note("undo", self._undone(self._long) / self._long)
        stepper.load(0, 0)
        self._note("record", _timed(lambda: stepper.record(0, recorded)) / recorded)
        self._note("reverse recorded", _timed(lambda: stepper.reverse(0, recorded)) / recorded)
        stepper.load(0, 0)
        for _ in range(ROUNDS):
            self._note("reverse", _timed(lambda: stepper.reverse(0, 1)))
        if self._kept:
            stepper.keep(0, self._kept)
            self._note("run", _timed(lambda: stepper.reverse(0, self._kept + 1)))
            stepper.load(0, 0)
        if few is not None:
            stepper.free(0)  # the working state is still that of step 0, also after the sweep
            with Sweep(few, stepper) as sweep:
                sweep.forward()
                self._note("sweep", _timed(sweep.reverse))
            stepper.save(0, 0)

    def _note(self, name: str, seconds: float) -> None:
        self._times.setdefault(name, []).append(seconds)

    def _layout(self) -> StateLayout:
        return StateLayout.of(self._stepper.state_arrays())

    def _on_disk(self, policy: Policy) -> tuple[float, float]:
        """Seconds to write a state to a file, and to read it."""
        assert policy.disk is not None
        layout, room, slots = self._layout(), parse_memory(policy.disk), FRESH
        while slots > 1 and DiskStore.planned_file_bytes(layout, slots) > room:
            slots -= 1
        store = DiskStore.nameless(policy.writable_folder(), layout, slots, policy.compression)
        write, read = self._transfers(store, FRESH)
        return median(write[1:]), median(read[1:])

    def _to_host(self) -> tuple[float, float]:
        """Seconds of a copy to the host's memory, and of a copy back."""
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
    """The lowest decile, which ignores times that other processes made longer."""
    return quantiles(seconds, n=10, method="inclusive")[0]


def _timed(call: Callable[[], object]) -> float:
    began = clock()
    call()
    return clock() - began
