"""A run in windows, each of which begins with a state of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffsim import numpy as dnp
from diffsim.assimilate.observations import Observations
from diffsim.base.arguments import whole
from diffsim.checkpoint import Checkpoint
from diffsim.errors import ParameterError
from diffsim.simulation import Batch, Simulation, Solution
from diffsim.typing import Array


class Windows:
    """A simulation, run from the beginning of each window to its end.

    Args:
        simulation: the simulation.
        inputs: all inputs. Those that are unknown are replaced.
        steps: of the whole run.
        windows: number of windows, of equally many steps.
        free: the states that begin each window anew. Others go on from one window to the next.
        checkpoint: see `Simulation.vjp`.
    """

    def __init__(
        self, simulation: Simulation, inputs: Mapping[str, Any], steps: int, windows: int, free: Sequence[str], checkpoint: Checkpoint
    ) -> None:
        self.count, self.simulation, self.inputs, self.checkpoint = windows, simulation, dict(inputs), checkpoint
        self.steps = whole("steps", steps, 1, remedy="give the steps of the whole run")
        if self.steps % windows:
            raise ParameterError(f"steps = {steps} in {windows} windows, expected windows of equally many steps; take a divisor")
        self.each, self.free = self.steps // windows, tuple(free)
        equation = simulation.equation
        self._by_step = tuple(name for name in (*equation.series, *equation.forcings) if name in inputs)
        if windows > 1 and (simulation._step.clock or equation.initials.keys() - equation.states.keys()):
            raise ParameterError(
                f"{windows} windows of {type(equation).__name__}, whose step reads the time or whose states are made of other inputs, "
                "expected a step that is the same at all times and initial states as inputs; take one window, or give the time as a series"
            )
        together = windows > 1 and set(equation.states) <= set(free) and not self._by_step and Batch.obstacle(simulation) is None
        self._batch = Batch(simulation, windows) if together else None

    def run(self, unknowns: Mapping[str, Any]) -> list[Solution]:
        """The solution of each window. Of a state that begins each window anew, `unknowns` has one for each, along the first axis."""
        if self._batch is not None:
            joint = self._batch.run({**self.inputs, **unknowns}, self.each, checkpoint=self.checkpoint)
            return [
                Solution({name: value[k] for name, value in joint.final.items()}, {name: value[k] for name, value in joint.traces.items()})
                for k in range(self.count)
            ]
        solutions: list[Solution] = []
        inputs = {**self.inputs, **unknowns}
        for k in range(self.count):
            rows = slice(k * self.each, (k + 1) * self.each)
            mine = {name: value[rows] if name in self._by_step else value for name, value in inputs.items()}
            if self.count > 1:
                mine |= {name: inputs[name][k] for name in self.free}
            if solutions:
                mine |= {name: value for name, value in solutions[-1].final.items() if name not in self.free}
            solutions.append(self.simulation.run(mine, self.each, checkpoint=self.checkpoint))
        return solutions

    def outputs(self, unknowns: Mapping[str, Any], observations: Sequence[Observations]) -> dict[str, list[Any]]:
        """All that is compared: jumps of the free states between windows, shape (windows - 1, cells), and predictions of observations."""
        solutions = self.run(unknowns)
        jumps = []
        if self.count > 1:
            jumps = [unknowns[name][1:] - dnp.stack([solution.final[name] for solution in solutions[:-1]]) for name in self.free]
        return {"jumps": jumps, "predicted": [each.predicted(solutions) for each in observations]}

    def unbroken_starts(self) -> dict[str, Array]:
        """The free states at the beginning of each window in a run without jumps from the inputs, shape (windows, cells)."""
        inputs, starts = dict(self.inputs), []
        for k in range(self.count):
            rows = slice(k * self.each, (k + 1) * self.each)
            starts.append({name: np.asarray(inputs[name], np.float64) for name in self.free})
            if k + 1 < self.count:
                mine = {name: value[rows] if name in self._by_step else value for name, value in inputs.items()}
                inputs |= self.simulation.run(mine, self.each).final
        return {name: np.stack([start[name] for start in starts]) for name in self.free}
