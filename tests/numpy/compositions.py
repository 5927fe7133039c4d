"""Random compositions of functions that have an infinite or undefined derivative with others, smooth or not, and their right results.

A composition is a function of an array of two numbers, written with the functions of a namespace. At a point and along a direction, its
first and second derivatives from each side are differences in long double. Where these have not converged, nothing is judged.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from diffsim.errors import DerivativeError

INNER: dict[str, tuple[Callable[..., Any], str]] = {
    "sqrt": (lambda np, x: np.sqrt(x), "half"),
    "cbrt": (lambda np, x: np.cbrt(x), "half"),
    "log": (lambda np, x: np.log(x), "half"),
    "log1p": (lambda np, x: np.log1p(x - 1.0), "half"),
    "x^0.5": (lambda np, x: x**0.5, "half"),
    "x^0.75": (lambda np, x: x**0.75, "half"),
    "x^1.5": (lambda np, x: x**1.5, "half"),
    "x^(1/3)": (lambda np, x: x ** (1 / 3), "half"),
    "arcsin": (lambda np, x: np.arcsin(1.0 - x), "half"),
    "arccos": (lambda np, x: np.arccos(1.0 - x), "half"),
    "arccosh": (lambda np, x: np.arccosh(1.0 + x), "half"),
    "abs": (lambda np, x: np.abs(x), "line"),
    "abs of a complex number": (lambda np, x: np.abs(x * (1.0 + 2.0j)), "line"),
    "norm": (lambda np, x: np.linalg.norm(x), "line"),
    "norm of order 3": (lambda np, x: np.linalg.norm(x, 3), "line"),
    "hypot": (lambda np, x: np.hypot(x[0], 2.0 * x[1]), "line"),
    "std": (lambda np, x: np.std(x), "line"),
    "maximum": (lambda np, x: np.maximum(x, 0.0 * x), "line"),
    "minimum": (lambda np, x: np.minimum(x[0], x[1]), "line"),
    "root of squares": (lambda np, x: np.sqrt(np.sum(x * x)), "line"),
}
"""Functions of an array, singular where it is 0, and whether they are defined for positive numbers alone."""
BEFORE: dict[str, Callable[..., Any]] = {
    "x": lambda np, x: x,
    "3 x": lambda np, x: 3.0 * x,
    "x^2": lambda np, x: x * x,
    "sinh x": lambda np, x: np.sinh(x),
}
OUTER: dict[str, Callable[..., Any]] = {
    "t": lambda np, t, x: t,
    "t^2": lambda np, t, x: t**2,
    "square": lambda np, t, x: np.square(t),
    "t t": lambda np, t, x: t * t,
    "t^3": lambda np, t, x: t**3,
    "t^4": lambda np, t, x: t**4,
    "t^1.5": lambda np, t, x: np.abs(t) ** 1.5,
    "cos": lambda np, t, x: np.cos(t),
    "sin": lambda np, t, x: np.sin(t),
    "exp": lambda np, t, x: np.exp(t),
    "expm1": lambda np, t, x: np.expm1(t),
    "exp(-t^2)": lambda np, t, x: np.exp(-(t**2)),
    "1 / (1 + t^2)": lambda np, t, x: 1.0 / (1.0 + t**2),
    "log(1 + t^2)": lambda np, t, x: np.log1p(t**2),
    "sqrt(1 + t^2)": lambda np, t, x: np.sqrt(1.0 + t * t),
    "tanh": lambda np, t, x: np.tanh(t),
    "x t": lambda np, t, x: x[0] * t,
    "1 - t": lambda np, t, x: 1.0 - t,
    "0 t + x": lambda np, t, x: 0.0 * t + np.sum(x),
    "masked": lambda np, t, x: np.where(x[0] > 0.1, t, 2.0 * x[0]),
}


@dataclass(frozen=True)
class Composition:
    """A function of an array of two numbers, a point and a direction."""

    names: tuple[str, ...]
    at: np.ndarray
    along: np.ndarray

    def __call__(self, np: Any, x: Any) -> Any:
        before, inner, *outer = self.names
        t = INNER[inner][0](np, BEFORE[before](np, x))
        for name in outer:
            t = OUTER[name](np, t, x)
        return np.sum(t)

    @property
    def half(self) -> bool:
        return INNER[self.names[1]][1] == "half"


def compositions(seed: int, count: int) -> list[Composition]:
    """Half of them are taken at the singular point, a quarter where one of two numbers is at it."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(count):
        outer = rng.choice(list(OUTER), rng.integers(1, 4))
        names = (str(rng.choice(list(BEFORE))), str(rng.choice(list(INNER))), *map(str, outer))
        at = rng.uniform(0.2, 0.8, 2) * rng.choice([[0, 0], [0, 0], [0, 1], [1, 1]])
        drawn.append(Composition(names, at, rng.uniform(0.3, 1.0, 2)))
    return drawn


STEPS = np.longdouble(10.0) ** -np.arange(3, 7)
CLOSE = 0.02
"""Differences at the smallest step differ from their limits by less, if they differ by less from those of the step before."""


def slopes(f: Callable[[Any], Any], at: np.ndarray, along: np.ndarray, side: int) -> tuple[float | None, float | None]:
    """First and second derivatives from one side: a number, infinity, or None if that is not clear."""
    at, along = at.astype(np.longdouble), along.astype(np.longdouble)
    values = [[f(at + side * k * h * along) for k in range(4)] for h in STEPS]
    first = [(-11 * v[0] + 18 * v[1] - 9 * v[2] + 2 * v[3]) / (6 * h) * side for h, v in zip(STEPS, values, strict=True)]
    second = [(2 * v[0] - 5 * v[1] + 4 * v[2] - v[3]) / h**2 for h, v in zip(STEPS, values, strict=True)]
    return limit(first), limit(second)


def limit(found: list[Any]) -> float | None:
    """The limit of a sequence, if it has clearly converged or grown."""
    *_, before, last = (float(x) for x in found)
    if not np.isfinite(last):
        return None
    if abs(last - before) <= 0.3 * CLOSE * max(1.0, abs(last)):
        return last
    sizes = [abs(float(x)) for x in found]
    grows = all(b > 1.3 * a for a, b in itertools.pairwise(sizes)) and sizes[-1] > 3.0
    return np.inf if grows else None


def agrees(found: float, sides: list[float | None], kink: bool) -> bool | None:
    """True if a finite derivative is that of a side, or between both where they differ (a subgradient); None if that is not clear."""
    known = [s for s in sides if s is not None]
    if len(known) < len(sides):
        return None
    near = any(abs(found - s) <= CLOSE * max(1.0, abs(s)) for s in known if np.isfinite(s))
    return near or (kink and min(known) - CLOSE <= found <= max(known) + CLOSE and np.isfinite(known).all())


def judged(c: Composition, f: Callable[[Any], Any], found: Mapping[str, float | None], count: dict[str, int]) -> list[str]:
    """Derivatives that are wrong without a word, or refused where the function is smooth.

    Args:
        c: the composition.
        f: it as a function of numbers.
        found: derivatives along its direction, None where they are refused, infinite or NaN. Those named "grad" and "jvp" are first ones.
        count: how often each is right, refused, wrong or not judged; is added to.
    """
    one_sided = c.half and not c.at.all()
    sides = [slopes(f, c.at, c.along, side) for side in ((1,) if one_sided else (1, -1))]
    smooth = all(s is not None and np.isfinite(s) for pair in sides for s in pair) and np.ptp([s[0] for s in sides]) < CLOSE
    wrong = []
    for name, x in found.items():
        order = 0 if name in ("grad", "jvp") else 1
        wanted = [s[order] for s in sides]
        right = None if x is None else agrees(x, wanted, order == 0)
        count[f"{name}: {'refused' if x is None else {True: 'right', False: 'WRONG', None: 'not judged'}[right]}"] += 1
        if right is False:
            wrong.append(f"{name} of {c.names} at {c.at} along {c.along}: {x}, differences {wanted}")
        if x is None and c.at.all() and smooth:
            wrong.append(f"{name} of {c.names} at {c.at}, where it is smooth, is refused")
    grad, jvp = found["grad"], found["jvp"]
    if grad is not None and jvp is not None and abs(grad - jvp) > 1e-9 * max(1, abs(jvp)):
        wrong.append(f"grad {grad} and jvp {jvp} of {c.names} at {c.at}")
    return wrong


def outcome(
    derive: Callable[[], Any],
    errors: tuple[type[Exception], ...] = (DerivativeError,),
    message: str = "is not defined.*expected arguments at which it is",
) -> float | None:
    """A derivative; None if it is infinite, NaN, or refused with the message."""
    with contextlib.suppress(*errors):
        value = float(derive())
        return value if np.isfinite(value) else None
    with pytest.raises(errors, match=message):
        derive()
    return None


def require_none_wrong(
    judge: Callable[[Composition, dict[str, int]], list[str]], seed: int, number: int, derivatives: Sequence[str], least: float = 0.4
) -> None:
    """Judge drawn compositions: no derivative is wrong without a word, and of each kind at least this part is right."""
    count: dict[str, int] = collections.Counter()
    wrong = [line for c in compositions(seed, number) for line in judge(c, count)]
    print(*(f"{n:6} {name}" for name, n in sorted(count.items())), sep="\n")
    assert not wrong, "\n".join(wrong)
    assert all(count[f"{name}: right"] > least * number for name in derivatives)
