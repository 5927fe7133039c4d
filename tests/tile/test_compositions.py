"""Random compositions with an infinite or undefined derivative at a point, in a tile: right, NaN or refused, never wrong without a word."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError, TileError
from tests.numpy.compositions import Composition, judged, outcome, require_none_wrong


def judge(c: Composition, count: dict[str, int]) -> list[str]:
    def f(x: Any) -> Any:
        return c(dn, x)

    if not np.isfinite(f(c.at)):
        count["no value"] += 1
        return []
    mapped = ds.tile.map(f)
    x, v = c.at[None], c.along[None]
    total = lambda x: dn.sum(mapped(x))  # noqa: E731
    calls = {
        "grad": lambda: np.sum(ds.grad(total)(x) * v),
        "jvp": lambda: ds.jvp(total, (x,), (v,))[1],
        "hvp": lambda: np.sum(ds.hvp(total, x, v) * v),
    }
    if c.names[1] == "abs of a complex number":  # some derivatives have no rule
        with contextlib.suppress(TileError):
            return judged(c, f, {name: outcome(call) for name, call in calls.items()}, count)
        with pytest.raises(TileError, match="a kink of complex numbers has no rule in tile programs"):
            calls["hvp"]()
        return []
    return judged(c, f, {name: outcome(call) for name, call in calls.items()}, count)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_derivative_of_a_composition_in_a_tile_is_wrong_without_a_word() -> None:
    require_none_wrong(judge, 1, 150, ("grad", "jvp", "hvp"))


BY_VALUE: dict[str, Callable[[Any], Any]] = {
    "cos of a root": lambda x: dn.sum(dn.cos(dn.sqrt(x))),
    "square of an angle": lambda x: dn.sum(dn.arccos(1.0 - x) ** 2),
    "product of an input and its root": lambda x: dn.sum(x * dn.sqrt(x)),
}
LEFT_OUT: dict[str, tuple[Callable[..., Any], float]] = {
    "a mask": (lambda x, u: dn.sum(dn.where(x > 0, dn.sqrt(x), 3.0 * x)), 3.0),
    "an index": (lambda x, u: dn.sqrt(x)[1] + dn.sum(x), 1.0),
    "a factor that is another input": (lambda x, u: dn.sum(u * dn.sqrt(x)), 0.0),
    "a constant factor": (lambda x, u: dn.sum(np.array([0.0, 1.0]) * dn.sqrt(x)), 0.0),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_cotangent_that_is_0_by_its_value_does_not_make_an_infinite_derivative_0() -> None:
    x, u = np.array([[0.0, 0.5], [0.3, 0.5]]), np.zeros((2, 2))
    for f in BY_VALUE.values():
        mapped = ds.tile.map(f)
        gradient = ds.grad(lambda x, m=mapped: dn.sum(m(x)))(x)
        assert np.isnan(gradient[0, 0]) and np.isfinite(gradient[0, 1]) and np.isfinite(gradient[1]).all()
        assert ds.grad(lambda x, m=mapped: m(x)[1])(x)[0].tolist() == [0.0, 0.0]  # a tile that is left out
    for f, wanted in LEFT_OUT.values():
        mapped = ds.tile.map(f)
        assert ds.grad(lambda x, m=mapped: dn.sum(m(x, u)))(x)[0, 0] == wanted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_tangent_that_is_0_by_its_value_does_not_make_an_infinite_derivative_0() -> None:
    x, v = np.array([[0.0, 0.5], [0.3, 0.5]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    for f in (lambda x: dn.sum(dn.sqrt(x * x)), lambda x: dn.arccos(1.0 - x[0] * x[0])):
        mapped = ds.tile.map(f)
        with pytest.raises(DerivativeError, match=r"the product of 0 and an infinite derivative of (sqrt|arccos) is not defined"):
            ds.jvp(mapped, (x,), (v,))
        assert np.isfinite(ds.jvp(mapped, (x,), (v * [[0.0], [1.0]],))[1]).all()  # along which the first tile does not move
    masked = ds.tile.map(lambda x: dn.sum(dn.where(x > 0, dn.sqrt(x * x), 3.0 * x)))
    assert ds.jvp(masked, (x,), (v,))[1].tolist() == [3.0, 2.0]
