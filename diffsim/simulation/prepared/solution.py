"""The result of a simulation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

from diffsim.base.messages import shown
from diffsim.base.summary import Rows, Summary, array_shown
from diffsim.errors import MissingError
from diffsim.simulation.prepared.groups import NO_GROUPS, Groups, listed
from diffsim.typing import Array


class Parts(dict[str, Any]):
    """Values by the names of states. That of a vector or tensor is an array of its components, along a first axis. A name that is not
    there is refused by a message."""

    groups = NO_GROUPS
    what: ClassVar[str]
    remedy: ClassVar[str]

    def copy(self) -> Any:
        """A copy that knows the vectors, as `copy.copy` gives it."""
        return copy.copy(self)

    def __missing__(self, name: str) -> Any:
        if (value := self.groups.together(self, name)) is not None:
            return value
        known = listed(self, self.groups.parts) or "none"
        raise MissingError(f"{self.what}[{shown(name)}] was read, expected one of {known}; {self.remedy}, or correct the name")


class Final(Parts):
    """States by name."""

    what, remedy = "final", "name a state of the equation"


class Traces(Parts):
    """Traces by the name of their state."""

    what, remedy = "traces", "give receivers of the state to the simulation"


@dataclass(frozen=True)
class Solution(Summary):
    """The result of a simulation, or its tangents or cotangents.

    Attributes:
        final: each state after the last step, over the cells.
        traces: each state that has receivers, there, shape (steps + 1, receivers); row 0 is the initial state.
        vectors: vectors and tensors, which can be read by their own names too: arrays of their components.

    Raises:
        MissingError: a state is read, from either, that is not there.
        ShapeError: components of a vector that is read have different shapes.

    Example:
        import numpy as np

        import diffsim as ds

        grid = ds.Grid((40,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), receivers={"T": [[0.5], [1.5]]})
        inputs = {"kappa": np.full(40, 5e-3), "T": np.linspace(0.0, 1.0, 40)}
        solution, pullback = rod.vjp(inputs, steps=60)
        assert solution.final["T"].shape == (40,) and solution.traces["T"].shape == (61, 2)
        last = np.zeros((61, 2))
        last[-1, 0] = 1.0  # a cotangent: the last value at the first receiver
        gradient = pullback(ds.Solution(traces={"T": last}))
        assert np.isclose(gradient["T"].sum(), 1.0, atol=1e-5)  # a mean of the initial temperatures
    """

    final: Mapping[str, Array] = field(default_factory=dict)
    traces: Mapping[str, Array] = field(default_factory=dict)
    groups: InitVar[Groups] = field(default=NO_GROUPS, kw_only=True)
    vectors: ClassVar[Groups] = NO_GROUPS

    def __post_init__(self, groups: Groups) -> None:
        if type(self.final) is dict:
            object.__setattr__(self, "final", Final(self.final))
        elif isinstance(self.final, Parts) and not groups.parts:
            groups = self.final.groups
        if type(self.traces) is dict:
            object.__setattr__(self, "traces", Traces(self.traces))
        elif isinstance(self.traces, Parts) and not groups.parts:
            groups = self.traces.groups  # those of a solution of which the rest is replaced
        if groups.parts:
            object.__setattr__(self, "vectors", groups)
            for part in (self.final, self.traces):
                if isinstance(part, Parts):
                    part.groups = groups

    def _summary(self) -> tuple[str, Rows]:
        parts = (("final", self.final), ("traces", self.traces))
        return "Solution", [(f"{part} {name}", array_shown(value)) for part, values in parts for name, value in values.items()]

    def __repr__(self) -> str:
        parts = {"final": self.final, "traces": self.traces}
        return f"Solution({', '.join(f'{part}={_shapes(values)}' for part, values in parts.items())})"


def _shapes(values: Mapping[str, Array]) -> str:
    return str({name: tuple(getattr(value, "shape", ())) for name, value in values.items()})


Pullback = Callable[[Solution], dict[str, Array]]
