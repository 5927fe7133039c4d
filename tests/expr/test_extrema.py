"""minimum, maximum and clip in a step are those of NumPy, also for NaN and infinite values: a value that went wrong stays in the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import clip, exp, maximum, minimum, sqrt, where

NAN, HUGE = -77.0, 1e30
"""Numbers that a step returns for NaN and for large or infinite values, since a run that ends with them raises."""
CASES, SHAPE = 30, (3, 37)
STEPS = SimpleNamespace(maximum=maximum, minimum=minimum, clip=clip, where=where, sqrt=sqrt, exp=exp)


def drawn(seed: int, e: Any, fields: list[Any]) -> Any:
    """A composition of extrema of fields and numbers; the same for each `e`."""
    rng = np.random.default_rng(seed)

    def value(depth: int) -> Any:
        how = rng.integers(5) if depth else 0
        if how == 0:
            return fields[rng.integers(len(fields))]
        if how == 1:
            return value(depth - 1) + 0.5 * value(depth - 1)
        if how == 2:
            return e.clip(value(depth - 1), -0.75, float(rng.choice([0.25, 2.0])))
        first = value(depth - 1)
        pair = (first, float(rng.choice([-1.0, -0.0, 0.5])) if rng.random() < 0.4 else value(depth - 1))
        return (e.maximum if how == 3 else e.minimum)(*(pair if rng.random() < 0.5 else pair[::-1]))

    result = value(4)
    return e.where(result > HUGE, HUGE, e.where(result < -HUGE, -HUGE, e.where((result < 0) | (result >= 0), result, NAN)))


def wrong(field: Any, e: Any) -> Any:
    """A field that is NaN where it is below -1.5, and of infinite size beyond 1 and -1."""
    return e.where(
        field < -1.5, e.sqrt(field), e.where(abs(field) > 1.0, e.where(field < 0, -e.exp(-1e3 * field), e.exp(1e3 * field)), field)
    )


class Extrema(ds.Equation):
    """States that become drawn expressions of fields that the step makes NaN and infinite in some cells."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid(SHAPE, 1.0), 1.0
        self.states = {f"f{n}": ds.Variable("mirror") for n in range(CASES)}
        self.parameters = {name: ds.Variable("mirror") for name in "abc"}

    def step(self, a: Any, b: Any, c: Any) -> dict[str, Any]:
        fields = [ds.stage(wrong(each, STEPS), boundary="mirror") for each in (a, b, c)]
        return {name: drawn(n, STEPS, fields) for n, name in enumerate(self.states)}


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_extrema_keep_nan(precision: Any) -> None:
    rng, plain = np.random.default_rng(4), SimpleNamespace(**{name: getattr(np, name) for name in vars(STEPS)})
    fields = {name: rng.normal(size=SHAPE).astype("f4" if precision == "f32" else "f8") for name in "abc"}
    final = ds.Simulation(Extrema(), precision=precision).run(fields, 1).final
    with np.errstate(all="ignore"):
        values = [wrong(each, plain) for each in fields.values()]
        wanted = {name: drawn(n, plain, values) for n, name in enumerate(final)}
    assert 0.05 < np.mean([each == NAN for each in wanted.values()]) < 0.95
    for name, each in wanted.items():
        assert final[name] == pytest.approx(each, rel=1e-6), name
