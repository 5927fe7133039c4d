"""A solver as one operation on the tape: it brings its own adjoint, and a tangent that is a solver again.

With the tangent of the solver, its adjoint has derivatives of its own: along (x', c') the pullback J(x)^T c changes by the first part of
the tangent's pullback of (c', c) at (x, x'). So solvers take part in derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from diffsim.ad.core import Primitive, aval, bind, is_plain
from diffsim.ad.ops.structure import zeros_like

Plain = Sequence[np.ndarray]


class Model(Protocol):
    """A solver from a row of arrays to a row of arrays."""

    def evaluate(self, *args: np.ndarray) -> tuple[np.ndarray, ...]:
        """The values."""

    def with_pullback(self, *args: np.ndarray) -> tuple[tuple[np.ndarray, ...], Callable[[Plain], Plain]]:
        """The values, and a pullback from their cotangents to one of each argument."""

    def tangent(self, differentiable: bool) -> Model:
        """The solver of (arguments, tangents) to (values, tangents); a flag if `with_pullback` of it will be wanted."""

    def bound(self, pulled: bool) -> Callable[..., Any]:
        """`with_pullback` (`pulled`) or `evaluate`, for many calls with arguments of the same shapes.

        It may raise any error of diffsim where the other would raise one, or do something else; then the other is called.
        """

    def is_current(self) -> bool:
        """True if a solver made now would be this one."""


def apply(model: Model, args: Sequence[Any]) -> tuple[Any, ...]:
    """Run a solver on core values, all of its floating-point type."""
    return bind(SOLVE, args, {"model": model})


def _filled(tangents: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    return [zeros_like(aval(a)) if t is None else t for t, a in zip(tangents, args, strict=True)]


def _jvp(args: Sequence[Any], tangents: Sequence[Any], out: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    along = [*args, *_filled(tangents, args)]
    both = apply(params["model"].tangent(differentiable=not is_plain(*along)), along)
    return both[len(out) :]


def _with_pullback(args: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]) -> tuple[Any, Callable[..., Any]]:
    model = params["model"]
    known = None
    if is_plain(*args):
        out, known = model.with_pullback(*args)
    else:
        out = apply(model, args)

    def pullback(cts: Sequence[Any]) -> Sequence[Any]:
        if known is not None and is_plain(*cts):
            return known(cts)
        return _pull(model, args, cts)

    return out, pullback


SOLVE = Primitive("simulation", lambda *args, model: model.evaluate(*args), jvp=_jvp, with_pullback=_with_pullback, multiple=True)


def _pull(model: Model, args: Sequence[Any], cts: Sequence[Any]) -> tuple[Any, ...]:
    return bind(ADJOINT, [*args, *cts], {"model": model, "count": len(args)})


def _adjoint_evaluate(*values: Any, model: Model, count: int) -> tuple[Any, ...]:
    return tuple(model.with_pullback(*values[:count])[1](values[count:]))


def _adjoint_jvp(values: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any]) -> Sequence[Any]:
    count = params["count"]
    moved = _filled(tangents, values)
    both = _pull(params["model"].tangent(differentiable=True), [*values[:count], *moved[:count]], [*moved[count:], *values[count:]])
    return both[:count]


def _adjoint_vjp(bars: Any, values: Sequence[Any], out: Any, params: dict[str, Any], wanted: tuple[bool, ...]) -> Sequence[Any]:
    count, tangent = params["count"], params["model"].tangent(differentiable=True)
    args, cts = values[:count], values[count:]
    along = [*args, *bars]
    arg_bars: Sequence[Any] = [None] * count
    if any(wanted[:count]):
        arg_bars = _pull(tangent, along, [*(zeros_like(aval(c)) for c in cts), *cts])[:count]
    ct_bars = apply(tangent, along)[len(cts) :] if any(wanted[count:]) else [None] * len(cts)
    return [*arg_bars, *ct_bars]


ADJOINT = Primitive(
    "adjoint of simulation",
    _adjoint_evaluate,
    jvp=_adjoint_jvp,
    vjp=_adjoint_vjp,
    keeps=lambda wanted: ((True,) * len(wanted), False),
    multiple=True,
)
