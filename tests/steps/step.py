"""A time step with all that a test needs: its equation, inputs that exercise it, and the same step in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

import diffsim as ds

Fields = dict[str, np.ndarray]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """A time step of the field, and what the contracts need of it.

    Attributes:
        name: of the step.
        shape: cells; few, rows no multiple of a block of rows, columns no multiple of the lanes.
        equation: shape -> the equation. Cells are `spacing` large along every axis, the first one has its centre at 0.
        inputs: (random numbers, shape) -> parameters, series and initial fields, at least a thousandth of their size away from most
            kinks.
        advance: the step in NumPy, called with states, parameters, densities of forcings and this step's values of series by name;
            gives the next states.
        spacing: of the equation's grid.
        steps: of a run.
        sources: forcing -> the cell with its source.
        receivers: state -> the cell with its receiver.
    """

    name: str
    shape: Shape
    equation: Callable[[Shape], ds.Equation]
    inputs: Callable[[np.random.Generator, Shape], Fields]
    advance: Callable[..., Fields]
    spacing: float = 1.0
    steps: int = 9
    sources: Mapping[str, Shape] = field(default_factory=dict)
    receivers: Mapping[str, Shape] = field(default_factory=dict)

    def simulation(self, precision: str = "f64", shape: Shape | None = None) -> ds.Simulation:
        """The equation with its source and receiver, on the cells of the step or others."""
        places = [{name: [[self.spacing * k for k in cell]] for name, cell in part.items()} for part in (self.sources, self.receivers)]
        return ds.Simulation(self.equation(shape or self.shape), sources=places[0], receivers=places[1], precision=precision)

    def all_inputs(self, shape: Shape | None = None) -> Fields:
        """The same numbers at each call: parameters, initial fields and amplitudes."""
        rng = np.random.default_rng(5)
        amplitudes = {name: rng.uniform(0.5, 1.0, (self.steps, 1)) for name in self.sources}
        return self.inputs(rng, shape or self.shape) | amplitudes

    def by_numpy(self, inputs: Fields, equation: ds.Equation) -> ds.Solution:
        """The run that `Simulation.run` makes."""
        now = {name: inputs[name] for name in equation.states}
        changing = {*equation.states, *equation.series, *self.sources}
        constants = {name: value for name, value in inputs.items() if name not in changing}
        records = {name: [now[name][cell]] for name, cell in self.receivers.items()}
        shape = next(iter(now.values())).shape
        for n in range(self.steps):
            densities = {}
            for name, cell in self.sources.items():
                densities[name] = np.zeros(shape)
                densities[name][cell] = inputs[name][n, 0] / self.spacing ** len(self.shape)
            series = {name: inputs[name][n] for name in equation.series}
            now = self.advance(**now, **constants, **densities, **series)
            for name, cell in self.receivers.items():
                records[name].append(now[name][cell])
        return ds.Solution(now, {name: np.array(values)[:, None] for name, values in records.items()})


def direction(rng: np.random.Generator, inputs: Fields) -> Fields:
    """A random change of all inputs, as large as each number is, so that what is 0 (a dry cell) stays 0."""
    return {name: rng.standard_normal(value.shape) * np.abs(value) for name, value in inputs.items()}


def weights(rng: np.random.Generator, solution: ds.Solution) -> ds.Solution:
    """Random cotangents of a solution."""
    parts = [{name: rng.standard_normal(value.shape) for name, value in part.items()} for part in (solution.final, solution.traces)]
    return ds.Solution(*parts)
