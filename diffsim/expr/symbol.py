"""Symbolic expressions of a user's step, with their location on the cell.

A location has an entry an axis: 0 the centre of the cell, 1 its upper face, None any (a constant, or a profile along
another axis). Arithmetic between different locations raises: interpolate first.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, Union

import numpy as np

from diffsim.base.messages import shown
from diffsim.errors import ShapeError, TraceError
from diffsim.expr import refusals
from diffsim.expr.graph import CONDITIONS, LOGIC, Graph, Node

PartialLocation: TypeAlias = tuple[int | None, ...]
Operand: TypeAlias = Union["Symbol", float, int]
Condition: TypeAlias = Union["Symbol", bool]
OPERATORS: dict[str, Callable[..., Symbol]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "power": operator.pow,
    "negative": operator.neg, "positive": operator.pos, "absolute": operator.abs, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne, "remainder": operator.mod,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "invert": operator.invert,
}  # fmt: skip
"""NumPy's names of the operators of its numbers, such as * in np.float64(2) * f."""
SIGNS = {
    "and": "&", "or": "|", "not": "~", "add": "+", "sub": "-", "mul": "*", "div": "/", "power": "**",
    "lt": "a comparison", "le": "a comparison", "select": "where()", "min": "minimum()", "max": "maximum()", "abs": "abs()",
}  # fmt: skip
"""Operation of the graph -> its form in a step."""


class Several:
    """A group of expressions, whose own operators combine it with one expression."""

    __slots__ = ()


class Symbol:
    """A symbolic field or an expression of symbolic fields.

    `spacing` is the distance of cell centres along each axis, None where the grid is stretched.

    Example:
        import numpy as np

        import diffsim as ds

        class Upwind(ds.Equation):
            # The arguments of `step` are symbols: arithmetic and `shifted` make expressions of them.

            states = {"c": ds.Variable("periodic")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, c):
                assert isinstance(c, ds.expr.Symbol) and c.location == (0,)
                return {"c": c - self.dt / self.grid.spacing[0] * (c - c.shifted(0, -1))}

        c = np.eye(1, 12, 3)[0]
        found = ds.Simulation(Upwind(ds.Grid((12,), spacing=1.0), dt=1.0)).run({"c": c}, steps=4).final["c"]
        assert (found == np.roll(c, 4)).all()
    """

    __slots__ = ("graph", "location", "node", "spacing")

    def __init__(self, graph: Graph, node: Node, location: PartialLocation, spacing: tuple[float | None, ...]) -> None:
        self.graph = graph
        self.node = node
        self.location = location
        self.spacing = spacing

    @property
    def ndim(self) -> int:
        return len(self.spacing)

    def like(self, node: Node, location: PartialLocation | None = None) -> Symbol:
        return Symbol(self.graph, node, self.location if location is None else location, self.spacing)

    def _lift(self, value: Operand) -> Symbol:
        if isinstance(value, Symbol):
            if value.graph is not self.graph:
                raise TraceError("fields of two different steps meet in one expression; use those that the step was given")
            return value
        if isinstance(value, (int, float)) or (hasattr(value, "__float__") and getattr(value, "ndim", 1) == 0 and _real(value)):
            return self.like(self.graph.const(float(value)), (None,) * self.ndim)
        raise refusals.of_operand(value)

    def combine(self, op: str, *others: Operand) -> Symbol:
        """Apply an operation of the graph to this and other operands of the same location."""
        symbols = [self, *map(self._lift, others)]
        for number, symbol in enumerate(symbols):
            symbol.expect(op in LOGIC or (op == "select" and not number), SIGNS.get(op, f"{op}()"))
        location = self.location
        for other in symbols[1:]:
            location = merge_locations(location, other.location)
        return self.like(self.graph.apply(op, *(s.node for s in symbols)), location)

    @property
    def is_condition(self) -> bool:
        """True if the value is a condition, such as f > 0, not a number."""
        return self.node.op in CONDITIONS

    def expect(self, condition: bool, what: str) -> None:
        """Raise unless the value is a condition, or a number, as expected. A constant counts as both.

        Args:
            condition: whether a condition is expected.
            what: the operation, for the message.

        Raises:
            TraceError: it is a number in place of a condition, or the reverse.
        """
        if self.node.op != "const" and self.is_condition is not condition:
            raise refusals.of_kind(what, condition)

    def axis(self, axis: int) -> int:
        """The number of an axis, counted from the first. A negative number counts from the last.

        Raises:
            ShapeError: the grid has no such axis.
        """
        try:
            number = operator.index(axis)
        except TypeError:
            number = self.ndim
        if not -self.ndim <= number < self.ndim:
            expected = f"expected {-self.ndim} to {self.ndim - 1}"
            raise ShapeError(f"axis = {shown(axis)} of a {self.ndim}-D grid, {expected}; name an axis of the grid by its number")
        return number % self.ndim

    def shifted(self, axis: int, cells: int) -> Symbol:
        """The value `cells` cells further along `axis`. A negative axis counts from the last."""
        axis = self.axis(axis)
        try:
            cells = operator.index(cells)
        except TypeError:
            raise ShapeError(f"cells = {shown(cells)}, expected a whole number of cells; give one, or interpolate") from None
        offset = tuple(cells if a == axis else 0 for a in range(self.ndim))
        return self.like(self.graph.shift(self.node, offset))

    def across(self, axis: int) -> Symbol:
        """The same values, moved from the centres to the upper faces of `axis`, or from the faces to the centres below them.

        Nothing is interpolated: the number of a cell becomes that of its upper face. An upwind value at a face is an example.

        Args:
            axis: the axis across the faces.

        Raises:
            ShapeError: the grid does not have the axis.

        Example:
            import numpy as np

            import diffsim as ds
            from diffsim.expr import diff

            class Upwind(ds.Equation):
                # A substance that a flow of 1 m/s carries upwards: the cell below a face gives its value.

                states = {"c": ds.Variable("periodic")}

                def __init__(self, grid, dt):
                    self.grid, self.dt = grid, dt

                def step(self, c):
                    return {"c": c - self.dt * diff(c.across(0), 0)}

            bump = np.where(abs(np.arange(40) - 10) < 4, 1.0, 0.0)
            found = ds.Simulation(Upwind(ds.Grid((40,), 1.0), dt=1.0), precision="f64").run({"c": bump}, steps=20).final["c"]
            assert np.allclose(found, np.roll(bump, 20))
        """
        axis = self.axis(axis)
        return self.like(self.node, tuple(1 - p if a == axis and p is not None else p for a, p in enumerate(self.location)))

    def __add__(self, other: Operand) -> Symbol:
        return NotImplemented if isinstance(other, Several) else self.combine("add", other)

    def __sub__(self, other: Operand) -> Symbol:
        return NotImplemented if isinstance(other, Several) else self.combine("sub", other)

    def __mul__(self, other: Operand) -> Symbol:
        return NotImplemented if isinstance(other, Several) else self.combine("mul", other)

    def __truediv__(self, other: Operand) -> Symbol:
        return NotImplemented if isinstance(other, Several) else self.combine("div", other)

    def __radd__(self, other: Operand) -> Symbol:
        return self._lift(other).combine("add", self)

    def __rsub__(self, other: Operand) -> Symbol:
        return self._lift(other).combine("sub", self)

    def __rmul__(self, other: Operand) -> Symbol:
        return self._lift(other).combine("mul", self)

    def __rtruediv__(self, other: Operand) -> Symbol:
        return self._lift(other).combine("div", self)

    def __mod__(self, other: Operand) -> Symbol:
        """The remainder of division by `other`, with its sign: a - b floor(a / b)."""
        b = self._lift(other)
        for operand in (self, b):
            operand.expect(False, "%")
        return self.like(self.graph.remainder(self.node, b.node), merge_locations(self.location, b.location))

    def __rmod__(self, other: Operand) -> Symbol:
        return self._lift(other) % self

    def __and__(self, other: Condition) -> Symbol:
        """The condition that both hold."""
        return self._logic("and", other)

    def __or__(self, other: Condition) -> Symbol:
        """The condition that at least one holds."""
        return self._logic("or", other)

    def __invert__(self) -> Symbol:
        """The condition that this one does not hold."""
        return self.combine("not")

    __rand__, __ror__ = __and__, __or__

    def _logic(self, op: str, other: Condition) -> Symbol:
        if not isinstance(other, (Symbol, bool, np.bool_)):
            raise refusals.of_kind(SIGNS[op], True, other)
        return self.combine(op, other)

    def __neg__(self) -> Symbol:
        self.expect(False, "-")
        return self.like(self.graph.negative(self.node))

    def __pow__(self, exponent: Operand, modulus: None = None) -> Symbol:
        if modulus is not None:
            raise refusals.of_operator("pow() with a modulus")
        if isinstance(exponent, Several):
            return NotImplemented
        if not isinstance(exponent, (int, float)):
            return self.combine("power", exponent)
        self.expect(False, "**")
        return self.like(self.graph.apply("pow", self.node, data=float(exponent)))

    def __lt__(self, other: Operand) -> Symbol:
        return self.combine("lt", other)

    def __le__(self, other: Operand) -> Symbol:
        return self.combine("le", other)

    def __gt__(self, other: Operand) -> Symbol:
        return self._lift(other).combine("lt", self)

    def __ge__(self, other: Operand) -> Symbol:
        return self._lift(other).combine("le", self)

    def __eq__(self, other: object) -> bool:
        raise TraceError("a step compares fields with ==, which rarely holds for floating point; use < and <= in where()")

    __hash__ = object.__hash__

    def __pos__(self) -> Symbol:
        return self

    def __rpow__(self, base: Operand) -> Symbol:
        return self._lift(base).combine("power", self)

    def __abs__(self) -> Symbol:
        return self.combine("abs")

    def __bool__(self) -> bool:
        raise TraceError("a step branches on the value of a field, which differs from cell to cell; use where(condition, a, b)")

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *inputs: object, **kwargs: object) -> Symbol:
        if how != "__call__" or kwargs or ufunc.__name__ not in OPERATORS:
            raise refusals.of_numpy(ufunc, how)
        return OPERATORS[ufunc.__name__](*map(self._operand, inputs))

    def _operand(self, value: Any) -> Operand:
        """An operand without NumPy's operators, which would call this method again."""
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 and _real(value):
            return float(value)
        return value if isinstance(value, (Symbol, int, float)) else self._lift(value)

    def __array_function__(self, function: Callable[..., object], types: object, args: object, kwargs: object) -> NoReturn:
        raise refusals.of_numpy(function)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise refusals.of_numbers("a NumPy array")

    def __float__(self) -> NoReturn:
        raise refusals.of_numbers("float()")

    def __int__(self) -> NoReturn:
        raise refusals.of_numbers("int()")

    def __index__(self) -> NoReturn:
        raise refusals.of_numbers("an index, or a count,")

    def __complex__(self) -> NoReturn:
        raise refusals.of_numbers("complex()")

    def __len__(self) -> NoReturn:
        raise refusals.of_cells("len()")

    def __iter__(self) -> NoReturn:
        raise refusals.of_cells("a loop, or an unpacking,")

    def __getitem__(self, index: object) -> NoReturn:
        raise refusals.of_cells("an entry [...]")

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise refusals.of_cells("an assignment to an entry [...]")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)  # Python and NumPy look for their protocols
        raise refusals.of_attribute(name)

    def __matmul__(self, other: object) -> NoReturn:
        raise refusals.of_operator("@")

    def __floordiv__(self, other: object) -> NoReturn:
        raise refusals.of_operator("//")

    def __round__(self, digits: int | None = None) -> NoReturn:
        raise refusals.of_operator("round()")

    def __divmod__(self, other: object) -> NoReturn:
        raise refusals.of_operator("divmod()")

    def __xor__(self, other: object) -> NoReturn:
        raise refusals.of_operator("^")

    def __lshift__(self, other: object) -> NoReturn:
        raise refusals.of_operator("<<")

    def __rshift__(self, other: object) -> NoReturn:
        raise refusals.of_operator(">>")

    __rmatmul__, __rfloordiv__, __rdivmod__ = __matmul__, __floordiv__, __divmod__
    __rxor__, __rlshift__, __rrshift__ = __xor__, __lshift__, __rshift__

    def __trunc__(self) -> NoReturn:
        raise refusals.of_numbers("trunc()")

    def __contains__(self, value: object) -> NoReturn:
        raise refusals.of_cells("a test by `in`")

    def __delitem__(self, index: object) -> NoReturn:
        raise refusals.of_cells("the deletion of an entry [...]")

    def __format__(self, form: str) -> str:
        if form:
            raise refusals.of_numbers("a format")
        return repr(self)

    def __repr__(self) -> str:
        return f"Symbol({self.node!r}, location={self.location})"


def _real(value: Any) -> bool:
    """True for a number of Python's or NumPy's, or an array without axes, that is real."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return isinstance(value.item(), (numbers.Real, np.integer, np.floating))
    dtype = getattr(value, "dtype", None)  # other packages have types of their own
    return not isinstance(value, complex) and getattr(dtype, "kind", "f") in "fiub" and "complex" not in str(dtype)


def merge_locations(a: PartialLocation, b: PartialLocation) -> PartialLocation:
    """The common location of two operands."""
    if any(p is not None and q is not None and p != q for p, q in zip(a, b, strict=True)):
        raise ShapeError(
            f"operands live at different places of the cell, {describe(a)} and {describe(b)}; "
            "bring one to the other's place with interpolate() or diff()"
        )
    return tuple(q if p is None else p for p, q in zip(a, b, strict=True))


def describe(location: PartialLocation) -> str:
    if not any(location):
        return "the centre"
    return "the face of axis " + ", ".join(str(axis) for axis, place in enumerate(location) if place)
