"""A wrong argument of a transformation is refused by an error of diffsim with the expected value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DiffsimError
from tests.base.wrong_calls import WRONG, Call

X = np.linspace(1.0, 2.0, 3)
FURTHER: dict[str, Any] = {
    "empty tuple": tuple,
    "pair": lambda: (1, 2),
    "ones": lambda: np.ones(3),
    "empty": lambda: np.zeros(0),
    "set": lambda: {1.0},
    "bytes": lambda: b"a",
    "objects": lambda: np.array([1.0, None], object),
    "dates": lambda: np.array(["2020"], "M8[Y]"),
    "-7": lambda: -7,
}
INTERNAL = (AttributeError, KeyError, AssertionError, RecursionError, ZeroDivisionError, NameError)


def _energy(x: Any) -> Any:
    return dn.sum(dn.sin(x) * x)


def _square(x: Any) -> Any:
    return x * x


def _of_custom_vjp(forward: Any, backward: Any, of: Any = _square) -> Any:
    function = ds.custom_vjp(of)
    function.defvjp(forward, backward)
    return ds.vjp(function, X)[1](X)


def _of_custom_jvp(rule: Any, of: Any = _square) -> Any:
    function = ds.custom_jvp(of)
    function.defjvp(rule)
    return ds.jvp(function, (X,), (X,))


def _while(cond: Any, body: Any, max_steps: Any) -> Any:
    return ds.vjp(lambda x: ds.while_loop(cond, body, x, max_steps=max_steps), X)


def _integrate(step: Any, steps: Any) -> Any:
    return ds.vjp(lambda x: ds.integrate(step, x, steps=steps), X)


DOUBLED = {"forward": lambda x: (2 * x, None), "backward": lambda _, bar: (2 * bar,)}
CALLS = [
    Call("vjp", lambda f, has_aux: ds.vjp(f, X, has_aux=has_aux), {"f": _energy, "has_aux": False}),
    Call("jvp", lambda f, has_aux: ds.jvp(f, (X,), (X,), has_aux), {"f": _energy, "has_aux": False}),
    Call("jvp of", lambda primals, tangents: ds.jvp(_energy, primals, tangents), {"primals": (X,), "tangents": (X,)}),
    Call("tangent", lambda tangent: ds.jvp(_energy, (X,), (tangent,)), {"tangent": X}),
    Call("cotangent", lambda cotangent: ds.vjp(_square, X)[1](cotangent), {"cotangent": X}),
    Call("grad", lambda f, argnums, has_aux: ds.grad(f, argnums, has_aux)(X), {"f": _energy, "argnums": 0, "has_aux": False}),
    Call("grad gives", lambda value: ds.grad(lambda x: value)(X), {"value": 1.0}),
    Call("value_and_grad", lambda f, argnums: ds.value_and_grad(f, argnums)(X), {"f": _energy, "argnums": (0,)}),
    Call("jacobian", lambda f, argnums, mode: ds.jacobian(f, argnums, mode)(X), {"f": _square, "argnums": 0, "mode": "auto"}),
    Call("jacrev", lambda f, argnums: ds.jacrev(f, argnums)(X), {"f": _square, "argnums": 0}),
    Call("jacfwd", lambda f, argnums: ds.jacfwd(f, argnums)(X), {"f": _square, "argnums": 0}),
    Call("hessian", lambda f, argnums: ds.hessian(f, argnums)(X), {"f": _energy, "argnums": 0}),
    Call("hvp", lambda f, v: ds.hvp(f, X, v), {"f": _energy, "v": X}),
    Call("linearize", lambda f, tangent: ds.linearize(f, X)[1](tangent), {"f": _square, "tangent": X}),
    Call("linear_operator", lambda f, x, vector: ds.linear_operator(f, x).argument(vector), {"f": _square, "x": X, "vector": X}),
    Call("custom_vjp", _of_custom_vjp, {**DOUBLED, "of": _square}),
    Call("custom_jvp", _of_custom_jvp, {"rule": lambda p, t: (2 * p[0], 2 * t[0]), "of": _square}),
    Call("nondiff_argnums", lambda numbers: ds.custom_vjp(_square, numbers), {"numbers": ()}),
    Call("forward gives", lambda pair: _of_custom_vjp(lambda x: pair, DOUBLED["backward"]), {"pair": (X, None)}),
    Call("backward gives", lambda bars: _of_custom_vjp(DOUBLED["forward"], lambda _, bar: bars), {"bars": (X,)}),
    Call("rule gives", lambda pair: _of_custom_jvp(lambda p, t: pair), {"pair": (X, X)}),
    Call("remat", lambda f: ds.grad(lambda x: dn.sum(ds.remat(f)(x)))(X), {"f": _square}),
    Call(
        "fori_loop",
        lambda lower, upper, body: ds.vjp(lambda x: ds.fori_loop(lower, upper, body, x), X),
        {"lower": 10**12 - 1, "upper": 3, "body": lambda i, x: 0.5 * x},
    ),
    Call("fori_loop gives", lambda state: ds.vjp(lambda x: ds.fori_loop(0, 3, lambda i, s: state, x), X), {"state": X}),
    Call("while_loop", _while, {"cond": lambda x: x[0] < 9, "body": lambda x: 1.5 * x, "max_steps": 100}),
    Call("cond", lambda a, b: ds.cond(True, a, b, X), {"a": _square, "b": _square}),
    Call("pred", lambda pred: ds.cond(pred, _square, _square, X), {"pred": True}),
    Call("integrate", _integrate, {"step": lambda x: 0.5 * x, "steps": 2}),
    Call("scan", lambda op, xs: ds.vjp(lambda x: ds.scan(op, xs), X), {"op": "add", "xs": X}),
    Call("reduce", lambda op, xs: ds.vjp(lambda x: ds.reduce(op, xs), X), {"op": "add", "xs": X}),
    Call("map", lambda f, xs: ds.vjp(lambda x: ds.map(f, xs), X), {"f": _square, "xs": X}),
    Call("label", lambda text: ds.vjp(lambda x: ds.label(x, text), X), {"text": "speed"}),
    Call("show_tape", lambda f: ds.show_tape(f, X), {"f": _square}),
    Call(
        "check_grads",
        lambda **a: ds.check_grads(**a),
        {"f": _energy, "args": (X,), "order": 1, "modes": ("forward",), "directions": 1, "step": None, "seed": 0},
    ),
]


def _outcomes(call: Call) -> dict[str, set[str]]:
    """For each argument the values that were taken, or left an error of another kind."""
    outcomes: dict[str, set[str]] = {}
    for argument in call.arguments:
        for what, make in {**WRONG, **FURTHER}.items():
            if what == "type" or (what == "huge" and argument in ("upper", "steps", "order", "directions")):
                continue  # a type can be called; a loop of 10^12 steps is a valid request
            try:
                call._with(argument, make)
            except DiffsimError as error:
                if len(str(error)) < 20:
                    outcomes.setdefault(argument, set()).add(f"{what}: short")
            except INTERNAL:
                raise
            except Exception as error:
                outcomes.setdefault(argument, set()).add(f"{what}: {type(error).__name__}")
            else:
                outcomes.setdefault(argument, set()).add(what)
    return outcomes


FITTING: dict[str, set[str]] = {
    "tangent tangent": {"None", "ones"},
    "cotangent cotangent": {"None", "ones"},
    "grad argnums": {"-1", "0", "empty tuple", "list"},
    "grad gives value": {"-1", "-7", "0", "1.5", "no axes", "True", "huge", "inf", "nan"},
    "value_and_grad argnums": {"-1", "0", "empty tuple", "list"},
    "jacobian argnums": {"-1", "0"},
    "jacrev argnums": {"-1", "0"},
    "jacfwd argnums": {"-1", "0"},
    "hessian argnums": {"-1", "0"},
    "hvp v": {"None", "ones"},
    "linearize tangent": {"None", "ones"},
    "linear_operator x": {"five numbers: TypeError", "ragged: TypeError", "ones"},
    "linear_operator vector": {"ones"},
    "nondiff_argnums numbers": {"empty tuple", "list", "pair"},
    "forward gives pair": {"pair"},
    "rule gives pair": {"pair"},
    "fori_loop lower": {"-1", "-7", "0", "huge"},
    "fori_loop upper": {"-1", "-7", "0"},
    "fori_loop gives state": {"-1", "-7", "0", "True", "huge", "ones"},
    "while_loop max_steps": {"None", "huge"},
    "pred pred": {"True"},
    "integrate steps": {"0"},
    "scan xs": {"empty", "five numbers", "list", "ones"},
    "reduce xs": {"empty", "five numbers", "list", "ones"},
    "map xs": {"empty", "five numbers", "list", "ones"},
    "label text": {"digits", "text"},
    "check_grads args": {"five numbers: TypeError", "ragged: TypeError"},
    "check_grads step": {"None"},
    "check_grads seed": {"0", "huge"},
}
"""Values that rightly work as well, or that NumPy refuses in its words."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_wrong_arguments_are_refused(call: Call) -> None:
    call.function(**call.arguments)
    outcomes = {f"{call.name} {argument}": whats for argument, whats in _outcomes(call).items()}
    assert outcomes == {name: whats for name, whats in FITTING.items() if name.rpartition(" ")[0] == call.name}
