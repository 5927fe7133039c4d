"""Functions of values at one cell, under NumPy's names. Arguments and results are `Symbol`s. All arguments but one may be numbers."""

from __future__ import annotations

from diffsim.errors import TraceError
from diffsim.expr.symbol import Operand, Symbol


def where(condition: Symbol, a: Operand, b: Operand) -> Symbol:
    """a where the condition holds, b elsewhere. The condition is not differentiated."""
    return field_of(condition, "where").combine("select", a, b)


def minimum(a: Operand, b: Operand) -> Symbol:
    """The smaller of two values. A tie gives the whole derivative to `a`."""
    return lifted(a, b, "minimum").combine("min", b)


def maximum(a: Operand, b: Operand) -> Symbol:
    """The larger of two values. A tie gives the whole derivative to `a`."""
    return lifted(a, b, "maximum").combine("max", b)


def clip(f: Symbol, low: Operand, high: Operand) -> Symbol:
    """f between two bounds, `high` where they cross; at a bound the derivative is that inside."""
    return minimum(maximum(field_of(f, "clip"), low), high)


def sign(f: Symbol) -> Symbol:
    """1 where f > 0, -1 where f < 0, else 0; the derivative is 0."""
    f = field_of(f, "sign")
    return where(f > 0, 1, where(f < 0, -1, 0))


def floor(f: Symbol) -> Symbol:
    """The largest whole number that is at most f. The derivative is 0."""
    return field_of(f, "floor").combine("floor")


def sqrt(f: Symbol) -> Symbol:
    return field_of(f, "sqrt").combine("sqrt")


def exp(f: Symbol) -> Symbol:
    return field_of(f, "exp").combine("exp")


def log(f: Symbol) -> Symbol:
    return field_of(f, "log").combine("log")


def sin(f: Symbol) -> Symbol:
    return field_of(f, "sin").combine("sin")


def cos(f: Symbol) -> Symbol:
    return field_of(f, "cos").combine("cos")


def tan(f: Symbol) -> Symbol:
    return field_of(f, "tan").combine("tan")


def sinh(f: Symbol) -> Symbol:
    return field_of(f, "sinh").combine("sinh")


def cosh(f: Symbol) -> Symbol:
    return field_of(f, "cosh").combine("cosh")


def tanh(f: Symbol) -> Symbol:
    return field_of(f, "tanh").combine("tanh")


def arcsin(f: Symbol) -> Symbol:
    return field_of(f, "arcsin").combine("arcsin")


def arccos(f: Symbol) -> Symbol:
    return field_of(f, "arccos").combine("arccos")


def arctan(f: Symbol) -> Symbol:
    return arctan2(field_of(f, "arctan"), 1.0)


def arctan2(y: Operand, x: Operand) -> Symbol:
    """The angle of the point (x, y), -π to π."""
    return lifted(y, x, "arctan2").combine("arctan2", x)


def field_of(value: Symbol, what: str) -> Symbol:
    """The value if it is a field, or an expression of fields, of a step."""
    if not isinstance(value, Symbol):
        raise TraceError(f"{what}() of a {type(value).__name__}, expected a field of the step; compute numbers with math or NumPy")
    return value


def lifted(a: Operand, b: Operand, what: str) -> Symbol:
    """The first operand as a symbol, where only the second is one."""
    return a if isinstance(a, Symbol) else field_of(b, what)._lift(a)  # type: ignore[arg-type]
