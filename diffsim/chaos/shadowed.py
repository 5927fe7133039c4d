"""Runs with unstable tangents, and the derivatives of averages that follow: forward along one parameter, in reverse for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.chaos.exponents import standard_error
from diffsim.chaos.segments import Segment, components, flow_of, least, measure, quantity, settled, spread, weights
from diffsim.chaos.sensitivity import Average, Sensitivities, Sensitivity
from diffsim.chaos.tangents import Tangents
from diffsim.simulation import Simulation, Solution
from diffsim.typing import Array

TOGETHER = 2**24
"""Bytes of tangents whose quantities are computed in one call."""


class Shadowed:
    """A run in segments with its unstable tangents.

    Args:
        simulation: the system, with a receiver for each state at each cell; for `back` with gradients for its states and parameters.
        inputs: its inputs.
        average: the quantity.
        steps: steps of a segment.
        unstable: number of unstable tangents.
        wrt: a parameter that one more tangent follows, for `along`; None: none.
        direction: see `Vectors.direction`.
    """

    def __init__(
        self,
        simulation: Simulation,
        inputs: Mapping[str, Any],
        average: Average,
        steps: int,
        unstable: int,
        wrt: str | None = None,
        direction: Any = None,
    ) -> None:
        self.simulation, self.average, self.steps, self.unstable = simulation, average, steps, unstable
        self.dt = simulation.equation.dt
        self.inputs, self.wrt, self.followed = inputs, wrt or "", 0 if wrt is None else 1
        self.tangents = Tangents(simulation, inputs, unstable + self.followed, wrt, direction, recorded=True)
        self.vectors = self.tangents.vectors
        self.parts, self.starts = list[Segment](), list[tuple[Array, Array]]()

    def go(self, state: Array, segments: int) -> None:
        """Run some segments from a state."""
        basis = np.linalg.qr(np.random.default_rng(0).standard_normal((self.vectors.size, self.unstable)))[0]
        moved, waiting = np.column_stack([basis, np.zeros((self.vectors.size, self.followed))]), list[tuple[Array, Array]]()
        for number in range(segments):
            if not self.followed:
                self.starts.append((state, moved))
            state, _, states, along = self.tangents.advance(state, moved, self.steps)
            part, moved = Segment.of(states, along, self.dt, self.unstable)
            self.parts.append(part)
            waiting.append((states, along))
            if number == segments - 1 or len(waiting) * along.nbytes > TOGETHER:
                measure(self.parts[-len(waiting) :], waiting, self.dt, self.average, self.vectors)
                waiting.clear()

    @property
    def mean(self) -> float:
        """The average of the quantity."""
        return sum(part.value for part in self.parts) / (len(self.parts) * self.steps * self.dt)

    @property
    def mean_error(self) -> float:
        """The standard error of the average."""
        return float(standard_error(np.array([part.value for part in self.parts]))) / (self.steps * self.dt)

    def along(self) -> Sensitivity:
        """The derivative along the parameter that a tangent followed."""
        forced, carried = np.stack([part.forced[:, 0] for part in self.parts]), np.stack([part.carried[:, 0] for part in self.parts[:-1]])
        added, _ = least(self.parts, -forced, carried)
        weights = np.column_stack([added, np.ones(len(added))])
        sizes = [a @ part.products @ a + 2 * a @ d + part.square[0, 0] for a, d, part in zip(added, forced, self.parts, strict=True)]
        settled(np.array(sizes), self.unstable)
        mean = self.mean
        shares = np.array([part.changed(mean) @ each for part, each in zip(self.parts, weights, strict=True)])
        spread(shares, self.wrt)
        time = self.steps * self.dt
        return Sensitivity(float(shares.mean()) / time, float(standard_error(shares)) / time, mean, self.mean_error, by_shadowing=True)

    def back(self, wrt: Sequence[str]) -> Sensitivities:
        """The derivatives for parameters: the transpose of `along`, which is linear in the tangent that follows a parameter.

        With the weights w of the unstable tangents in the derivative, the system of `least` with w on the right gives the cotangents of
        ∫ Wᵀ v dt and Qᵀ v. So the cotangent of v at a time is a combination of unstable tangents and the slope of J, and that at the end of
        a segment comes from the next one without its component along the flow and the unstable directions there.
        """
        mean = self.mean
        right = np.stack([part.changed(mean) for part in self.parts])
        of_forced, of_carried = least(self.parts, right, np.zeros_like(right[1:]))
        one, weight = Tangents(self.simulation, self.inputs, 1, recorded=True), weights(self.steps + 1, self.dt)
        sizes, shares = list[float](), list[dict[str, Array]]()
        bar: Array = np.zeros(self.vectors.size)
        for k in reversed(range(len(self.parts))):
            state, basis = self.starts[k]
            _, _, states, along = one.advance(state, -(basis @ of_forced[k])[:, None], self.steps)
            flow = flow_of(states, self.dt)
            _, slopes = quantity(self.average, states, weight, self.vectors)
            at_times = slopes + weight[:, None] * (along[0] - components(along[0], flow)[:, None] * flow)
            if k < len(self.parts) - 1:
                following = self.starts[k + 1][1]
                bar = bar + following @ (of_carried[k] - following.T @ bar)
            bar = bar + (mean - self.parts[k].last - bar @ flow[-1]) / (flow[-1] @ flow[-1]) * flow[-1]
            gradient, bar = self._gradient(state, at_times, bar)
            shares.append({name: gradient[name] for name in wrt})
            sizes.append(float(bar @ bar))
        settled(np.array(sizes), self.unstable)
        time = self.steps * self.dt
        each = {name: np.stack([share[name] for share in shares]) / time for name in wrt}
        for name, values in each.items():
            spread(values.reshape(len(values), -1).sum(axis=1), name)
        return Sensitivities(
            {name: values.mean(axis=0) for name, values in each.items()},
            {name: standard_error(values) for name, values in each.items()},
            mean,
            self.mean_error,
        )

    def _gradient(self, state: Array, at_times: Array, at_end: Array) -> tuple[dict[str, Array], Array]:
        """Cotangents of the inputs of a segment and, as a vector, of its first state, from those of its states at times and at the end."""
        names, inputs = self.vectors.names, {**self.vectors.fixed, **self.vectors.apart(state)}
        _, pullback = self.simulation.vjp(inputs, self.steps)
        traces = {name: bars.reshape(len(bars), -1) for name, bars in self.vectors.apart(at_times).items()}
        gradient = pullback(Solution(final=self.vectors.apart(at_end), traces=traces))
        return gradient, self.vectors.joined({name: gradient[name] for name in names})
