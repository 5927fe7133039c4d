"""Derivatives of compositions with roots, logarithms, norms and other functions whose derivative is infinite or undefined at a point.

Each derivative is right, infinite or NaN where it has no value, or refused by name. None is wrong without a word.
"""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn

from .compositions import Composition, judged, outcome, require_none_wrong


def judge(c: Composition, count: dict[str, int]) -> list[str]:
    f, v = lambda x: c(dn, x), c.along
    if not np.isfinite(f(c.at)):
        count["no value"] += 1
        return []
    calls = {
        "grad": lambda: ds.grad(f)(c.at) @ v,
        "jvp": lambda: ds.jvp(f, (c.at,), (v,))[1],
        "hvp": lambda: ds.hvp(f, c.at, v) @ v,
        "hessian": lambda: v @ ds.hessian(f)(c.at) @ v,
        "reverse over reverse": lambda: ds.vjp(ds.grad(f), c.at)[1](v)[0] @ v,
        "forward over forward": lambda: ds.jvp(lambda x: ds.jvp(f, (x,), (v,))[1], (c.at,), (v,))[1],
    }
    return judged(c, f, {name: outcome(call) for name, call in calls.items()}, count)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("seed", "number"), [(1, 200), pytest.param(2, 2000, marks=pytest.mark.slow)])
def test_no_derivative_of_a_composition_is_wrong_without_a_word(seed: int, number: int) -> None:
    require_none_wrong(judge, seed, number, ("grad", "jvp", "hvp", "hessian"))
