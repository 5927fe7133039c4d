"""The number of steps between exchanges: what the model of costs chooses, for all ranks alike."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

import diffsim as ds
from diffsim.domains import domain, mpi, stepper
from diffsim.domains.ranks import Alone

Value = TypeVar("Value")


class StopError(Exception):
    """The stepper would be built, and the box is known."""


class Two(Alone):
    """The second of two ranks, whose first one has `first` in place of a number."""

    rank, size = 1, 2

    def __init__(self, first: int | None = None) -> None:
        super().__init__(launched=True)
        self.first = first

    def gathered(self, value: Value) -> list[Value]:
        first: Any = value if self.first is None or not isinstance(value, int) or isinstance(value, bool) else self.first
        return [first, value]


@pytest.fixture(name="ghosts")
def _ghosts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The ghost cells along the first axis, by equation, depths of steps together, and the choice of rank 0."""

    def stop(self: Any, neighbours: Any, *others: Any) -> None:
        raise StopError(neighbours.cuts.ghosts[0])

    def ghosts(equation: ds.Equation, together: frozenset[int], first: int | None = None) -> int:
        monkeypatch.setattr(mpi, "_known", [Two(first)])
        monkeypatch.setattr(stepper.DomainStepper, "__init__", stop)
        monkeypatch.setattr(domain, "steps_together", lambda programs, boxes: together)
        with pytest.raises(StopError) as stopped:
            ds.Simulation(equation, domains=(2, *(1,) * (equation.grid.ndim - 1)), wrt=[])
        return int(stopped.value.args[0])

    return ghosts


def test_steps_together_and_cheap_exchanges_decide(ghosts: Any) -> None:
    """Ghost cells of k steps of elastic waves are 6, 10, 14 ...; of heat k."""
    solid = ds.solvers.Elastic(ds.Grid((100, 100, 200), 10.0), 5e-4, 4)
    assert ghosts(solid, frozenset({2, 4, 8})) == 10  # two steps: four have too many ghost cells
    assert ghosts(solid, frozenset()) == 6  # one, where more would only be computed twice
    assert ghosts(solid, frozenset(), first=2) == 14  # rank 0 has other caches
    small = ds.solvers.Heat(ds.Grid((20, 20), 0.5), 0.1)
    assert ghosts(small, frozenset()) == 8  # an exchange costs more than all cells


@pytest.mark.parametrize(("cost", "wanted"), [(0.0, 1), (2e4, 7), (1e6, 8)])
def test_the_cost_of_an_exchange_decides_where_rows_are_long(
    ghosts: Any, monkeypatch: pytest.MonkeyPatch, cost: float, wanted: int
) -> None:
    """k steps compute (k - 1) / 2 rows of 1000 cells twice at each end, and share the cost: least near 6.3."""
    monkeypatch.setattr("diffsim.domains.costs.CELLS_OF_EXCHANGE", cost)
    assert ghosts(ds.solvers.Heat(ds.Grid((4000, 1000), 0.5), 0.1), frozenset()) == wanted
