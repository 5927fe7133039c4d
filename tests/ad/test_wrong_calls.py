"""Calls of rules by hand and loops without a meaning are refused, with the expected form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError, DiffsimError


@pytest.mark.parametrize("bounds", [(0, 2.5), (0.0, 2), (0, "3"), (None, 2), (0, np.float64(2.0)), (0, [1, 2])])
def test_bounds_of_loops_are_whole_numbers(bounds: Any) -> None:
    with pytest.raises(DiffsimError, match="expected a whole number"):
        ds.fori_loop(*bounds, lambda i, x: x, 1.0)


def test_rules_by_hand_take_arguments_by_keyword() -> None:
    def product(x: Any, y: Any = 1.0, *, s: float = 2.0) -> Any:
        return x * y * s

    by_vjp, by_jvp = ds.custom_vjp(product), ds.custom_jvp(lambda x, y=1.0: x * y)
    by_vjp.defvjp(lambda x, y=1.0, *, s=2.0: (x * y * s, (x, y, s)), lambda r, c: (c * r[1] * r[2], c * r[0] * r[2]))
    by_jvp.defjvp(lambda p, t: (p[0] * p[1], t[0] * p[1] + p[0] * t[1]))
    for f in (lambda x: by_vjp(x, y=3.0), lambda x: by_vjp(y=3.0, x=x), lambda x: by_vjp(3.0, y=x), lambda x: by_jvp(y=6.0, x=x)):
        assert ds.grad(f)(2.0) == 6.0
    assert ds.grad(lambda x: by_vjp(x, s=5.0))(2.0) == 5.0
    with pytest.raises(DerivativeError, match="keyword-only"):
        ds.grad(lambda x: by_vjp(2.0, s=x))(2.0)


def test_a_function_with_a_rule_by_hand_may_not_edit_its_argument() -> None:
    """Outside of a derivative its caller would see that."""

    def doubled(x: Any) -> Any:
        x *= 2.0
        return dn.sum(x)

    forward, reverse = ds.custom_jvp(doubled), ds.custom_vjp(doubled)
    forward.defjvp(lambda p, t: (doubled(p[0]), 2.0 * dn.sum(t[0])))
    reverse.defvjp(lambda x: (doubled(x), x), lambda x, ct: (2.0 * ct * dn.ones_like(x),))
    for f in (forward, reverse):
        with pytest.raises(DerivativeError, match="copy it first"):
            ds.grad(lambda x, f=f: f(x * 1.0))(np.ones(2))
    with pytest.raises(DerivativeError, match="copy it first"):
        ds.jvp(lambda x: forward(x * 1.0), (np.ones(2),), (np.ones(2),))
