"""Ensembles of states on the attractor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from diffsim.base.arguments import number, whole
from diffsim.chaos.tangents import Vectors
from diffsim.errors import DivergenceError
from diffsim.simulation import Batch, Simulation
from diffsim.typing import Array


class Ensemble:
    """Runs that begin with the same state, moved at random.

    Args:
        simulation: the system, with a receiver for each state at each cell.
        inputs: initial states, and parameters.
        members: number of runs.
        settle: steps before those that count, in which the members become independent of each other.
        spread: standard deviation of the random part of an initial state, relative to that of the state over `settle` steps.
    """

    def __init__(self, simulation: Simulation, inputs: Mapping[str, Any], members: int, settle: int, spread: float) -> None:
        self.members = whole("members", members, 2, remedy="give the number of runs")
        self.settle = whole("settle", settle, 1, remedy="give the steps before those that count")
        self.spread = number("spread", spread, "a number of at least 0", lambda value: value >= 0, "give the size of random changes")
        self.simulation, self.vectors = simulation, Vectors(simulation, inputs)
        vectors = self.vectors
        before = vectors.joined(simulation.run({**vectors.fixed, **vectors.apart(vectors.state)}, self.settle).traces, 1).std(axis=0)
        self.sizes = np.where(before > 0, before, np.abs(vectors.state))
        """The standard deviation of each state over `settle` steps, shape (size,)."""
        self.random = np.random.default_rng(0)
        self.states: Array = vectors.state + self.spread * self.sizes * self.random.standard_normal((self.members, vectors.size))
        """The states of the members, shape (members, size)."""

    def settle_down(self, batch: Batch) -> None:
        """Run the members, which are the runs of `batch`, through the steps before those that count."""
        with self.leaving():
            self.states = self.vectors.joined(batch.run(self.inputs(), self.settle).final, 1)

    @contextmanager
    def leaving(self, further: str = "") -> Iterator[None]:
        """Say of members that diverge that the run that was not moved did not; `further` is another change of theirs."""
        try:
            yield
        except DivergenceError as error:
            if not self.spread and not further:
                raise
            raise DivergenceError(
                f"a member of the ensemble diverged in the {self.settle} steps before those that count, and the run that was not moved did "
                f"not: expected finite states, got random changes of spread = {self.spread:g} standard deviations{further} that leave the "
                f"basin of the attractor, or a dt that is too large there; lower spread or dt. ({error})"
            ) from error

    def inputs(self, change: Array | float = 0.0) -> dict[str, Any]:
        """The inputs of a batch of the members, with states that differ by `change`."""
        return {**self.vectors.fixed, **self.vectors.apart(self.states + change)}

    def directions(self) -> Array:
        """A random direction for each member, as long as the vector of all standard deviations, shape (members, size)."""
        each = self.sizes * self.random.standard_normal((self.members, self.vectors.size))
        return np.asarray(each * (np.linalg.norm(self.sizes) / np.linalg.norm(each, axis=1, keepdims=True)))
