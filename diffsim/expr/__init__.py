"""The expression graph: nodes, operators, derivatives, and their Taichi source."""

from diffsim.expr.graph import OPERATIONS, Graph, Node
from diffsim.expr.operators import (
    cos,
    diff,
    diff_centred,
    div,
    exp,
    grad,
    interpolate,
    laplacian,
    log,
    maximum,
    minimum,
    sin,
    sqrt,
    tanh,
    where,
)
from diffsim.expr.symbol import Symbol

__all__ = [
    "OPERATIONS",
    "Graph",
    "Node",
    "Symbol",
    "cos",
    "diff",
    "diff_centred",
    "div",
    "exp",
    "grad",
    "interpolate",
    "laplacian",
    "log",
    "maximum",
    "minimum",
    "sin",
    "sqrt",
    "tanh",
    "where",
]
