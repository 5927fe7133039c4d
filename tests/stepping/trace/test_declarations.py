"""Equations with a slip in what they declare, ask for or return: each is refused by what was expected, what is there, and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DiffsimError
from diffsim.expr import interpolate, laplacian

SHAPE = (6, 7)
STEP: Callable[..., Any] = lambda self, u, k: {"u": u + 0.1 * k * laplacian(u)}  # noqa: E731
INPUTS = {"u": np.ones(SHAPE), "k": np.ones(SHAPE)}
PLACES = {"f": [[3.0, 3.0]]}


def run(inputs: dict[str, Any] = INPUTS, sources: dict[str, Any] | None = None, **declared: Any) -> ds.Solution:
    """A run of the equation with some of its attributes and methods replaced."""
    usual = {"dt": 0.1, "grid": ds.Grid(SHAPE, 1.0), "step": STEP}
    fields = {"states": {"u": ds.Variable("mirror")}, "parameters": {"k": ds.Variable("mirror")}}
    equation = type("Slip", (ds.Equation,), usual | fields | declared)()
    return ds.Simulation(equation, sources=sources, precision="f64").run(inputs, steps=2)


def with_forcing(step: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: run(INPUTS | {"f": np.ones((2, 1))}, PLACES, forcings=("f",), step=step)


SLIPS: dict[str, tuple[Callable[[], Any], str]] = {
    "a name that is not declared": (lambda: run(step=lambda self, u, q: {"u": u}), r"asks for q, expected some of u, k, .*declare it"),
    "initial without initials": (
        lambda: run({"u0": INPUTS["u"], "k": INPUTS["k"]}, initial=lambda self, u0: {"u": u0}),
        r"initial\(\) asks for u0, expected some of k, .*declare it in initials",
    ),
    "a state that initial gives": (
        lambda: run(initial=lambda self, k: {"u": 2.0 * k}),
        r"inputs names u, but the inputs are k; .*initial\(\) of the equation gives u: leave it out, or declare",
    ),
    "coefficients of another name": (lambda: run(coefficients=lambda self, q: {"k": q}), r"\(\) asks for q, .*declare it in parameters"),
    "no dict": (lambda: run(step=lambda self, u, k: u), r"step\(\) gave a Symbol, expected a dict .*; return one, as in \{'u': u\}"),
    "nothing returned": (lambda: run(step=lambda self, u, k: None), r"step\(\) gave a NoneType, expected a dict .*; return one"),
    "an array": (lambda: run(step=lambda self, u, k: {"u": np.ones(SHAPE)}), r"u is a ndarray, expected an expression .*; return one"),
    "a state too much": (lambda: run(step=lambda self, u, k: {"u": u, "w": u}), r"expected one entry for each state: \['u'\]; return"),
    "a complex number": (lambda: run(step=lambda self, u, k: {"u": u * np.complex128(1j)}), "real and the imaginary part as two fields"),
    "a forcing between cells": (
        with_forcing(lambda self, u, k, f: {"u": u + interpolate(interpolate(f, 0), 0)}),
        r"interpolate\(\) of the forcing f, expected a field",
    ),
    "a forcing with a factor between cells": (
        with_forcing(lambda self, u, k, f: {"u": u + interpolate(2.0 * f, 1).across(1)}),
        r"interpolate\(\) of the forcing f, expected a field; .*add it as it stands",
    ),
} | {
    f"a group over {len(letters)} axes": (
        lambda letters=letters, group=group: run(states={"v": group(letters)}, parameters={}, inputs={}, step=lambda self, v: {"v": v}),
        f"v of Slip is a vector or tensor over {len(letters)} axes, {letters}, expected 2, .*; give a letter for each",
    )
    for letters in ("x", "zyx")
    for group in (ds.Vector, ds.SymmetricTensor)
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_with_a_remedy(slip: str) -> None:
    call, message = SLIPS[slip]
    with pytest.raises(DiffsimError, match=message) as caught:
        call()
    assert re.search("; ", str(caught.value)) and "\n" not in str(caught.value)


def test_numbers_are_between_cells_as_they_are() -> None:
    """Only a forcing has no place of its own; a number of the run is the same everywhere."""
    number = {"k": ds.Variable(axes=())}
    end = run({"u": INPUTS["u"], "k": 0.5}, parameters=number, step=lambda self, u, k: {"u": u + interpolate(interpolate(k, 0), 0)})
    assert np.allclose(end.final["u"], 2.0)
