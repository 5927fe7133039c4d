"""The same simulation by NumPy: expressions evaluated cell array by cell array, adjoints scattered. Slow and plain.

It shares the traced expressions and their partial derivatives with the product, and nothing of its kernels: not the
gathers, tiles, folds, time levels, schedules or point tables' transposes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import diffsim as ds
from diffsim.boundary import zero_rules
from diffsim.expr.evaluate import evaluate, inner, pad, scattered, transposed
from diffsim.stepping.derive.forward import receiver_points, source_points
from diffsim.stepping.stages.repeat import Repeat
from diffsim.stepping.trace.reductions import Reduction
from diffsim.stepping.trace.trace import profile_array

HALO = 6  # cells; at least the reach of any case


def pullback(graph: Any, outputs: Any, cotangents: Any, wanted: Any, extended: Any, shape: Any, halo: Any) -> dict[str, Any]:
    """Cotangents of the wanted fields, name -> boundary rules, from those of the outputs. An output without one counts as zero."""
    terms = transposed(graph, outputs, [*cotangents], [*wanted], len(shape))
    return scattered(terms, cotangents, wanted, _arrays(extended), shape, halo)


def _arrays(fields: Any) -> dict[str, Any]:
    """The fields, without the laps of loops."""
    return {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}


class Reference:
    """Forward and adjoint of `simulation` on the same inputs."""

    def __init__(self, simulation: ds.Simulation) -> None:
        self.sim, self.step, self.grid = simulation, simulation._step, simulation.grid
        self.halo = (HALO,) * self.grid.ndim
        self.zero = zero_rules(self.grid.ndim)
        self.profiles = {}
        for name, profile in self.step.profiles.items():
            values = profile_array(profile, self.grid, self.halo, np.float64)
            self.profiles[name] = values.reshape([-1 if axis == profile.axis else 1 for axis in range(self.grid.ndim)])

    def _fields(self, states: dict[str, Any], n: int) -> dict[str, Any]:
        out = {name: pad(value, self.halo, self.step.states[name].rules) for name, value in states.items()}
        out |= {name: pad(value, self.halo, self.step.coefficients[name].rules) for name, value in self.coefficients.items()}
        for forcing in self.step.forcings:
            dense, table = np.zeros(self.grid.shape), self.sim._compiled.points[source_points(forcing)]
            for point in range(table.count):
                for entry in range(table.starts[point], table.starts[point + 1]):
                    dense[tuple(table.cells[entry])] += table.weights[entry] * self.amplitudes[forcing][n, point]
            out[forcing] = pad(dense, self.halo, self.zero)
        out |= self.profiles
        for name, placed in self.step.series.items():
            out[name] = pad(self._over_cells(self.series[name][n], placed.axes), self.halo, placed.rules)
        out |= {name: np.full((1,) * self.grid.ndim, {"t": n * self.step.graph.dt, "n": n}[name], float) for name in self.step.clock}
        self._add_stages(self.step.stages, out)
        return out

    def _add_stages(self, stages: Any, out: dict[str, Any]) -> None:
        """Compute stages from fields, and add them to these."""
        for stage in stages:
            if isinstance(stage, Reduction):
                cells = out[stage.source][inner(self.grid.shape, self.halo)]
                out[stage.name] = np.full((1,) * self.grid.ndim, cells.sum() if stage.how == "sum" else cells.max())
            elif isinstance(stage, Repeat):
                cells = [out[start][inner(self.grid.shape, self.halo)] for start in stage.starts]
                laps = out[f"laps of {stage.name}"] = []
                for _ in range(stage.count):
                    laps.append(self._lap(stage, cells, out))
                    cells = evaluate(list(stage.body.outputs.values()), _arrays(laps[-1]), self.grid.shape, self.halo)
                for output, value in zip(stage.outputs, cells, strict=True):
                    out[output.name] = pad(np.array(value), self.halo, output.rules)
            else:
                (value,) = evaluate([stage.node], _arrays(out), self.grid.shape, self.halo)
                out[stage.name] = pad(np.array(value), self.halo, stage.rules)

    def _lap(self, stage: Repeat, cells: Any, around: dict[str, Any]) -> dict[str, Any]:
        """All fields that a lap of a loop reads."""
        states = stage.body.states.items()
        fields = around | {name: pad(np.array(value), self.halo, p.rules) for (name, p), value in zip(states, cells, strict=True)}
        self._add_stages(stage.body.stages, fields)
        return fields

    def _back_through(self, stages: Any, found: dict[str, Any], fields: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Go through stages, last to first: add what their cotangents give to those of what they read."""
        step, shape = self.step, self.grid.shape
        for stage in reversed(stages):
            if isinstance(stage, Reduction):
                self._through(stage, found, fields)
                continue
            if isinstance(stage, Repeat):
                body, bars = stage.body, [found.pop(output.name) for output in stage.outputs]
                inside = wanted | {n: p.rules for n, p in body.states.items()}
                inside |= {field.name: field.rules for inner_stage in body.stages for field in inner_stage.outputs}
                for lap in reversed(fields[f"laps of {stage.name}"]):
                    seeds = dict(zip(body.outputs, bars, strict=True))
                    more = pullback(step.graph, body.outputs, seeds, inside, lap, shape, self.halo)
                    self._back_through(body.stages, more, lap, inside)
                    bars = [more.pop(name) for name in body.states]
                    for name, value in more.items():
                        if name in found:
                            found[name] += value
                for start, value in zip(stage.starts, bars, strict=True):
                    found[start] += value
                continue
            more = pullback(step.graph, {"x": stage.node}, {"x": found.pop(stage.name)}, wanted, fields, shape, self.halo)
            for name, value in more.items():
                if name in found:
                    found[name] += value

    def _over_cells(self, values: Any, axes: Any) -> Any:
        values = np.reshape(values, [n if a in axes else 1 for a, n in enumerate(self.grid.shape)])
        return np.array(np.broadcast_to(values, self.grid.shape))

    def _through(self, stage: Reduction, found: dict[str, Any], fields: dict[str, Any]) -> None:
        """Go through a number of all cells: each cell that it comes from has its cotangent, or its part of it."""
        cells = fields[stage.source][inner(self.grid.shape, self.halo)]
        chosen = np.ones(cells.shape) if stage.how == "sum" else (cells == cells.max()) / np.sum(cells == cells.max())
        if stage.source in found:
            found[stage.source] += chosen * found.pop(stage.name).sum()

    def _sample(self, state: str, values: Any) -> list[float]:
        table = self.sim._compiled.points[receiver_points(state)]
        spans = [range(table.starts[p], table.starts[p + 1]) for p in range(table.count)]
        return [sum(table.weights[e] * values[tuple(table.cells[e])] for e in span) for span in spans]

    def _existing(self, states: dict[str, Any]) -> dict[str, Any]:
        """States, or their cotangents, which are 0 where a state does not exist."""
        regions = {name: placed.region for name, placed in self.step.states.items() if placed.region is not None}
        return {name: np.where(regions[name].inside, value, 0) if name in regions else value for name, value in states.items()}

    def forward(self, inputs: dict[str, Any], steps: int) -> ds.Solution:
        self.steps = steps
        full = {name: np.asarray(inputs.get(name, np.zeros(self.grid.shape)), float) for name in self.sim.inputs}
        for name, placed in self.sim._compiled.coefficients.traced.inputs.items():
            full[name] = full[name] if placed.axes is None else self._over_cells(full[name], placed.axes)
        self.series = {name: full[name] for name in self.step.series}
        self.coefficients = self.sim._compiled.coefficients(full)
        self.amplitudes = {f: full[f] for f in self.step.forcings}
        states = self._existing(self.sim._compiled.initial({**full, **self.coefficients}))
        self.full, self.tape = full, []
        traces = {s: [self._sample(s, states[s])] for s in self.sim.receivers}
        for n in range(steps):
            fields = self._fields(states, n)
            self.tape.append(fields)
            names = list(states)
            states = {
                k: np.array(v)
                for k, v in zip(
                    names, evaluate([self.step.outputs[k] for k in names], _arrays(fields), self.grid.shape, self.halo), strict=True
                )
            }
            states = self._existing(states)
            for s in traces:
                traces[s].append(self._sample(s, states[s]))
        return ds.Solution(states, {s: np.array(rows) for s, rows in traces.items()})

    def _inject(self, bars: dict[str, Any], traces: Any, n: int) -> None:
        for state, rows in traces.items():
            table = self.sim._compiled.points[receiver_points(state)]
            for point in range(table.count):
                for entry in range(table.starts[point], table.starts[point + 1]):
                    bars[state][tuple(table.cells[entry])] += table.weights[entry] * rows[n, point]

    def adjoint(self, cotangents: ds.Solution) -> dict[str, Any]:
        step, shape = self.step, self.grid.shape
        bars = {s: np.array(cotangents.final.get(s, np.zeros(shape)), float) for s in step.states}
        coefficient_bars = {c: np.zeros(shape) for c in step.coefficients}
        amplitude_bars = {f: np.zeros_like(a) for f, a in self.amplitudes.items()}
        placed_inputs = {**step.states, **step.coefficients, **step.series}
        series_bars = {name: np.zeros_like(values) for name, values in self.series.items()}
        wanted = {name: placed.rules for name, placed in placed_inputs.items()} | dict.fromkeys(step.forcings, self.zero)
        stage_rules = {field.name: field.rules for stage in step.stages for field in stage.outputs}
        for n in reversed(range(self.steps)):
            self._inject(bars, cotangents.traces, n + 1)
            bars = self._existing(bars)
            fields = self.tape[n]
            bars_of_reads = pullback(step.graph, step.outputs, bars, wanted | stage_rules, fields, shape, self.halo)
            self._back_through(step.stages, bars_of_reads, fields, wanted | stage_rules)
            bars = {s: bars_of_reads[s] for s in step.states}
            for c in coefficient_bars:
                coefficient_bars[c] += bars_of_reads[c]
            for name, placed in step.series.items():
                others = tuple(axis for axis in range(self.grid.ndim) if axis not in placed.axes)
                series_bars[name][n] = bars_of_reads[name].sum(axis=others)
            for f in amplitude_bars:
                table = self.sim._compiled.points[source_points(f)]
                for point in range(table.count):
                    for entry in range(table.starts[point], table.starts[point + 1]):
                        amplitude_bars[f][n, point] += table.weights[entry] * bars_of_reads[f][tuple(table.cells[entry])]
        self._inject(bars, cotangents.traces, 0)
        initial = self.sim._compiled.initial.vjp({**self.full, **self.coefficients}, self._existing(bars))
        for c in coefficient_bars:
            coefficient_bars[c] += initial.pop(c, 0)
        parameters = self.sim._compiled.coefficients.vjp(self.full, coefficient_bars)
        for name, placed in self.sim._compiled.coefficients.traced.inputs.items():
            if placed.axes is not None:
                parameters[name] = parameters[name].sum(axis=tuple(a for a in range(self.grid.ndim) if a not in placed.axes))
        return {**parameters, **initial, **amplitude_bars, **series_bars}
