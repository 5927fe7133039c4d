"""Axes whose ends are joined: adjoints read cotangents beyond an end at the other end, and fold nothing along them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import laplacian
from diffsim.stepping.derive import programs
from diffsim.stepping.derive.adjoint import adjoint_program
from tests.cases import Case
from tests.stepping.passes.test_sharing import traced
from tests.stepping.run_cases import outputs

Rule = Any


class Turning(ds.Equation):
    """Products of neighbours, a stage whose cotangent is that of a state, and coefficients with rules of their own."""

    def __init__(self, shape: tuple[int, ...], rule: Rule, k: Rule = "periodic", profile: bool = False, region: bool = False) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        where = np.arange(np.prod(shape)).reshape(shape) % 5 < 4 if region else None
        self.states = {"u": ds.Variable(rule), "v": ds.Variable(rule, region=where)}
        self.parameters = {"k": ds.Variable(k), "c": ds.Variable(axes=())}
        self.profiles = {"w": ds.Profile(0, np.linspace(0.5, 1, shape[0]))} if profile else {}

    def step(self, u: Any, v: Any, k: Any, c: Any, **profiles: Any) -> dict[str, Any]:
        w = profiles.get("w", 1.0)
        s = ds.stage(u + self.dt * c * (v.shifted(0, 1) * k - v.shifted(-1, -1)) * w, self.states["u"].boundary)
        turned = s.shifted(0, 2) * s.shifted(-1, -1) + s * s.shifted(-1, 1)
        return {"u": 0.9 * s + 0.02 * laplacian(s), "v": 0.9 * v + self.dt * k * turned}


def _joined(*args: Any, **kwargs: Any) -> tuple[int, ...]:
    return traced(Turning(*args, **kwargs)).joined


def test_an_axis_is_joined_where_all_that_a_step_reads_is_periodic() -> None:
    wide = (7, 8)
    assert _joined(wide, "periodic") == (0, 1)
    assert _joined(wide, ("mirror", "periodic")) == (1,)
    assert _joined(wide, ds.Antiperiodic()) == ()
    assert _joined(wide, "periodic", k="mirror") == ()
    assert _joined(wide, "periodic", k=("mirror", "periodic")) == (1,)
    assert _joined(wide, "periodic", profile=True) == (1,)
    assert _joined(wide, "periodic", region=True) == ()
    assert _joined((3, 8), "periodic") == (1,)  # narrower than an adjoint may read


@pytest.mark.parametrize(("rule", "folded"), [("periodic", (0, 0)), (("periodic", "mirror"), (0, 1)), (("zero", "periodic"), (0, 0))])
def test_nothing_is_folded_along_a_joined_axis(rule: Rule, folded: tuple[int, int]) -> None:
    step = traced(Turning((9, 10), rule))
    program = adjoint_program(step, ()).program
    outside = [assign.outside for nest in program.nests for assign in nest.folded]
    assert tuple(np.max(outside, axis=0, initial=0).tolist() if outside else (0, 0)) == folded
    assert step.joined


@pytest.mark.parametrize(
    ("shape", "rule", "k"),
    [
        ((9, 13), "periodic", "periodic"),
        ((4, 4), "periodic", "periodic"),
        ((9, 13), ("mirror", "periodic"), ("mirror", "periodic")),
        ((9, 13), ("periodic", ds.Extrapolate(1)), "mirror"),
        pytest.param((21,), "periodic", "periodic", marks=pytest.mark.slow),
        pytest.param((5, 4, 9), ("periodic", "zero", "periodic"), "periodic", marks=pytest.mark.slow),
    ],
)
def test_gradients_are_those_of_scattered_cotangents(shape: tuple[int, ...], rule: Rule, k: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers lie in the outermost cells. One of `u` adds to the cotangent that is stored once, as that of the stage."""
    monkeypatch.setattr(programs, "_worth_barriers", lambda step: True)
    ends = [[0.0] * len(shape), [float(n - 1) for n in shape]]
    found, wanted = outputs(Case("", lambda: Turning(shape, rule, k), 4, {}, {"u": ends, "v": ends}, {}), "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-13 * np.abs(values).max(), err_msg=name)
