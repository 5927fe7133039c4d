"""All cells of a window are right, also those to which cells beyond a side of the grid are added."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.domains import domain
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir import program
from diffsim.stepping.ir.program import Box, Nest, Program
from diffsim.stepping.run.stepper import Stepper
from diffsim.stepping.source.kernel import NARROWING
from diffsim.typing import IntArray

FAR = 4
SHAPE = 13, 19
WHOLE: Box = tuple((0, n) for n in SHAPE)


class Spread(ds.Equation):
    """A field that reads itself four cells away along both axes, odd about the first and the last cell."""

    grid, dt = ds.Grid(SHAPE, 1.0), 0.1

    def __init__(self) -> None:
        self.states, self.parameters = {"u": ds.Variable("odd_image")}, {"k": ds.Variable("zero")}

    def step(self, u: Any, k: Any) -> dict[str, Any]:
        return {"u": u + k * u * sum(u.shifted(axis, far) for axis in (0, 1) for far in (-FAR, FAR))}


class Windowed(Stepper):
    """A stepper whose adjoints compute a window, with `rows` rows less at each end."""

    _alone = False
    rows = 0

    def __init__(self, window: Box, narrowest: tuple[int, int] | None, *arguments: Any) -> None:
        self._window, self._narrowest = window, narrowest
        super().__init__(*arguments)

    def _programs(self, differentiable: bool) -> Programs:
        programs = super()._programs(differentiable)
        programs.replace({each.name: self._in_window(each) for each in programs if each.direction < 0})
        return programs

    def _in_window(self, of: Program) -> Program:
        assert any(nest.swept for nest in of.nests)
        operations = [
            replace(each, window=self._window, narrowest=self._narrowest) if isinstance(each, Nest) else each for each in of.operations
        ]
        return replace(of, operations=tuple(operations))

    def _levels_back(self, stop: int, count: int, held: bool) -> dict[str, IntArray]:
        return {**super()._levels_back(stop, count, held), NARROWING: np.array([self.rows, 0], np.int32)}


def gradients(monkeypatch: pytest.MonkeyPatch, window: Box, narrowest: tuple[int, int] | None = None, count: int = 1) -> list[np.ndarray]:
    """The cotangents of a state a step before a random one, in a window that has 0, 1, ... rows less at each end."""
    ds.init(threads=1)
    monkeypatch.setattr(program, "LONG", 0)  # loops over the cells compute those beyond too
    monkeypatch.setattr(domain, "Stepper", partial(Windowed, window, narrowest))
    u, k, bar = np.random.default_rng(0).normal(size=(3, *SHAPE))
    simulation = ds.Simulation(Spread(), wrt=["u"])
    _, pullback = simulation.vjp({"u": u, "k": k}, 1)
    out, stepper = [], simulation._stepper
    assert isinstance(stepper, Windowed)
    for stepper.rows in range(count):
        out.append(pullback(ds.Solution({"u": bar}))["u"])
    return out


def test_a_window_has_what_is_added_from_beyond_the_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 4 gets from beyond the low side, row 8 and column 15 from beyond the high one. Blocks of rows and tiles end beside them.

    Rows 6 and 7 are the narrowest window, which begins and ends outside of the grid.
    """
    (whole,) = gradients(monkeypatch, WHOLE)
    (part,) = gradients(monkeypatch, ((FAR, 9), (0, 16)))
    np.testing.assert_array_equal(part[FAR:9, :16], whole[FAR:9, :16])
    for rows, each in enumerate(gradients(monkeypatch, ((-6, 19), WHOLE[1]), (6, 8), 12)):
        inside = slice(max(rows - 6, 0), 19 - rows)
        np.testing.assert_array_equal(each[inside], whole[inside], str(rows))
