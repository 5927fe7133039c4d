"""Associative operators: by name, by a function's expressions, or as a function that is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim import kernels
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import bottom, is_known
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import structure as st
from diffsim.ad.scans import scalar
from diffsim.ad.tree import LEAF, Tree, flatten
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.expr.graph import Graph

Op = str | Callable[..., Any]
KINDS = {
    "+": "+", "add": "+", "sum": "+", "*": "*", "mul": "*", "multiply": "*", "prod": "*",
    "min": "min", "minimum": "min", "max": "max", "maximum": "max",
}  # fmt: skip
NEUTRAL = {"+": 0.0, "*": 1.0, "min": np.inf, "max": -np.inf}
_GRAPH_KINDS = {"add": "+", "mul": "*", "min": "min", "max": "max"}
_MEANING = {"+": ew.add, "*": ew.multiply, "min": ew.minimum, "max": ew.maximum}


def _kind(op: Op) -> str | None:
    if not isinstance(op, str) and not callable(op):
        raise ParameterError(f"operator {shown(op)} is unknown; write one of {', '.join(KINDS)}, or a function of two values")
    name = op if isinstance(op, str) else getattr(op, "__name__", "")
    if isinstance(op, str) and name not in KINDS:
        raise ParameterError(f"operator {shown(op)} is unknown; write one of {', '.join(KINDS)}, or a function of two values")
    known = (
        isinstance(op, str)
        or op is min
        or op is max
        or getattr(op, "__module__", None) in ("_operator", "operator")
        or not hasattr(op, "__code__")
    )
    return KINDS.get(name) if known else None


def _operator(op: Callable[..., Any], tree: Tree, dtypes: Sequence[Any]) -> kernels.Operator:
    """The expressions of an operator on pytrees of scalars.

    Raises:
        NotScalarError: it has none.
    """
    graph = Graph()
    k = len(dtypes)
    names = [[f"{side}{i}" for i in range(k)] for side in "ab"]
    outputs, structure = scalar.trace_scalars(op, (tree, tree), names, (dtypes, dtypes), graph)
    if structure != tree:
        raise ShapeError(f"the operator returned a pytree of the structure {structure}, expected that of its operands, {tree}")
    return kernels.Operator(graph, tuple(outputs))


def _recognised(operator: kernels.Operator) -> str | None:
    """The kind of an operator that is one of the known ones."""
    (*outputs,) = operator.outputs
    root = outputs[0]
    if len(outputs) == 1 and root.op in _GRAPH_KINDS and {a.data[0] for a in root.args if a.op == "read"} == {"a0", "b0"}:
        in_order = [a.data[0] for a in root.args] == ["a0", "b0"]
        return _GRAPH_KINDS[root.op] if in_order or root.op in ("add", "mul") else None
    return None


def apply(operator: kernels.Operator, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """The operator on arrays, entry by entry."""
    values = {f"a{i}": v for i, v in enumerate(left)} | {f"b{i}": v for i, v in enumerate(right)}
    out = scalar.evaluate(operator.outputs, values)
    shape = np.broadcast_shapes(*(v.shape for v in (*left, *right)))
    results = []
    for value, like in zip(out, left, strict=True):
        full = value if getattr(value, "shape", None) == shape else value + np.zeros(shape, like.dtype)
        results.append(full if full.dtype == like.dtype else st.astype(full, dtype=like.dtype))
    return results


def same_pytree(value: Any, tree: Tree) -> Any:
    structure = flatten(value)[1]
    if structure != tree:
        raise ShapeError(f"the operator returned a pytree of the structure {structure}, expected that of its operands, {tree}")
    return value


def traced(op: Op, tree: Tree, xs: Sequence[Any]) -> tuple[str | None, kernels.Operator | None]:
    """The kind of an operator if it is a known one, and its expressions if it has some."""
    kind = _kind(op)
    floating = all(x.dtype.kind == "f" for x in xs)
    if kind is None and any(x.dtype.kind == "c" for x in xs):
        return None, None
    if kind is not None and tree != LEAF:
        raise ParameterError(f"operator {shown(op)} works on one array, got a pytree {tree}; give a function of two pytrees")
    function = op if kind is None else {"+": _plus, "*": _times, "min": _minimum, "max": _maximum}[kind]
    assert callable(function)
    try:
        operator = _operator(function, tree, [x.dtype for x in xs])
    except scalar.NotScalarError:
        return kind, None
    except (IndexError, TypeError, ValueError, AttributeError):
        if all(x.ndim == 1 for x in xs):
            raise
        return kind, None  # it takes rows, not numbers
    kind = kind or (_recognised(operator) if floating else None)
    if kind is None and floating:
        _require_associative(operator, xs)
    return kind, operator


def _require_associative(operator: kernels.Operator, xs: Sequence[Any]) -> None:
    """Try an operator on three elements of its arrays: a recurrence that is none would give a number that means nothing."""
    n = xs[0].shape[0] if xs[0].ndim else 0
    if n < 3 or not is_known(*xs):
        return
    a, b, c = ([np.asarray(bottom(x)[k], float).ravel()[:1] for x in xs] for k in (0, n // 2, n - 1))
    if not all(np.isfinite(v).all() and v.size for v in (*a, *b, *c)):
        return
    with np.errstate(all="ignore"):
        left = apply(operator, apply(operator, a, b), c)
        right = apply(operator, a, apply(operator, b, c))
    tolerance = 1e-3 if any(x.dtype == np.float32 for x in xs) else 1e-6
    size = max(float(np.abs(v).max()) for v in (*a, *b, *c, *left, *right))
    if not size < 1e100 or all(np.abs(p - q).max() <= tolerance * size for p, q in zip(left, right, strict=True)):
        return
    raise ParameterError(
        f"the operator is not associative: for elements of the arrays op(op(a, b), c) = {[float(v[0]) for v in left]}, "
        f"but op(a, op(b, c)) = {[float(v[0]) for v in right]}; a recurrence such as y -> m y + x is one "
        "as the composition of pairs (m, x), or write a loop"
    )


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _times(a: Any, b: Any) -> Any:
    return a * b


def _minimum(a: Any, b: Any) -> Any:
    return wrap(ew.minimum(core(a), core(b)))


def _maximum(a: Any, b: Any) -> Any:
    return wrap(ew.maximum(core(a), core(b)))


def as_function(op: Op, kind: str | None) -> Callable[..., Any]:
    """The operator as a function of two pytrees."""
    if kind is None:
        assert callable(op)
        return op
    return lambda a, b: wrap(_MEANING[kind](core(a), core(b)))
