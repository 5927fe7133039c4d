"""Random compositions with an infinite or undefined derivative at a point, in a step: right or refused, never wrong without a word."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim import expr
from diffsim.errors import DerivativeError, DivergenceError
from tests.numpy.compositions import Composition, judged, outcome, require_none_wrong

MISSING = {"arccosh", "abs of a complex number", "std"}
"""Functions that steps have not."""


class Entries:
    """An array of expressions of a step: two, or one where it is a number."""

    def __init__(self, *of: Any) -> None:
        self.of = of

    def __getitem__(self, k: int) -> Entries:
        return Entries(self.of[k])

    def __neg__(self) -> Entries:
        return each(lambda a: -a)(self)


def each(function: Callable[..., Any]) -> Callable[..., Entries]:
    """A function of expressions as one of arrays of them."""

    def of_arrays(*args: Any) -> Entries:
        size = max(len(a.of) for a in args if isinstance(a, Entries))
        spread = [[a] * size if not isinstance(a, Entries) else a.of * (size // len(a.of)) for a in args]
        return Entries(*(function(*row) for row in zip(*spread, strict=True)))

    return of_arrays


for _name, _function in {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "gt": lambda a, b: a > b,
}.items():
    setattr(Entries, f"__{_name}__", each(_function))
    setattr(Entries, f"__r{_name}__", lambda a, b, f=_function: each(f)(b, a))


def norm(x: Entries, order: int = 2) -> Entries:
    a, b = x.of
    return Entries(expr.sqrt(a * a + b * b) if order == 2 else (abs(a) ** order + abs(b) ** order) ** (1 / order))


class Step:
    """The functions of a step under NumPy's names."""

    linalg = SimpleNamespace(norm=norm)
    cbrt = staticmethod(each(lambda a: a ** (1 / 3)))
    log1p = staticmethod(each(lambda a: expr.log(1.0 + a)))
    expm1 = staticmethod(each(lambda a: expr.exp(a) - 1.0))
    square = staticmethod(each(lambda a: a * a))
    abs = staticmethod(each(abs))
    hypot = staticmethod(each(lambda a, b: expr.sqrt(a * a + b * b)))
    sum = staticmethod(lambda x: Entries(sum(x.of[1:], x.of[0])))


for _name in ("sqrt", "log", "sin", "cos", "tanh", "sinh", "exp", "arcsin", "arccos", "maximum", "minimum", "where"):
    setattr(Step, _name, staticmethod(each(getattr(expr, _name))))


class Composed(ds.Equation):
    """A composition of two fields, cell by cell."""

    def __init__(self, composition: Composition) -> None:
        self.grid, self.dt, self.composition = ds.Grid((1,), spacing=1.0), 1.0, composition
        self.states = {"u": ds.Variable(), "v": ds.Variable()}

    def step(self, u: Any, v: Any) -> dict[str, Any]:
        return {"u": u, "v": self.composition(Step, Entries(u, v)).of[0]}


REFUSED = (DerivativeError, DivergenceError), "is no longer finite after 1 steps|expected arguments at which it is"


def judge(c: Composition, count: dict[str, int]) -> list[str]:
    def f(x: Any) -> Any:
        return c(dn, x)

    if c.names[1] in MISSING or not np.isfinite(f(c.at)):
        count["no value"] += 1
        return []
    run = ds.Simulation(Composed(c), precision="f64")
    of_step = lambda x: dn.sum(run.run({"u": x[:1], "v": x[1:]}, 1).final["v"])  # noqa: E731
    assert float(of_step(c.at)) == pytest.approx(float(f(c.at)), rel=1e-9, abs=1e-9)
    runs = {
        "grad": lambda: ds.grad(of_step)(c.at) @ c.along,
        "jvp": lambda: ds.jvp(of_step, (c.at,), (c.along,))[1],
        "hvp": lambda: ds.hvp(of_step, c.at, c.along) @ c.along,
    }
    return judged(c, f, {name: outcome(run, *REFUSED) for name, run in runs.items()}, count)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_derivative_of_a_composition_in_a_step_is_wrong_without_a_word() -> None:
    require_none_wrong(judge, 1, 190, ("grad", "jvp", "hvp"), least=0.3)
