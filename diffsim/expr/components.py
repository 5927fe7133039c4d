"""Vectors and symmetric tensors of expressions: the values that a step gets for a group of fields."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NoReturn, TypeAlias, Union, overload

from diffsim.base.messages import shown
from diffsim.errors import ShapeError
from diffsim.expr.symbol import Operand, Several, Symbol

Index: TypeAlias = "str | int"
Values: TypeAlias = Union["Components", Symbol, float, int]


@dataclass(frozen=True)
class Layout:
    """Which components a vector or a symmetric tensor has.

    Attributes:
        axes: a letter for each axis of the grid; digits, if they have no names.
        rank: 1 for a vector, 2 for a tensor.
        keys: the letters of each component: "z" and "x", or "zz", "xz" and "xx".
    """

    axes: str
    rank: int
    keys: tuple[str, ...]

    def name(self, group: str, *index: Index) -> str:
        """The name of a component: `vx` of `v`, `v1x` of `v1`, and `tau_xz` of `tau`, in the order of the alphabet."""
        joined = "" if len(group) == 1 or (group[:1].isalpha() and group[1:].isdigit()) else "_"
        return group + joined + self.key(group, *index)

    def names(self, group: str) -> dict[str, str]:
        """The names of all components, by their letters."""
        return {key: self.name(group, *key) for key in self.keys}

    def each(self, function: Callable[..., Symbol]) -> Components:
        """A group of these components, each given by a function of its letters, which come in the order of the axes."""
        return Components(self, {key: function(*sorted(key, key=self.axes.find)) for key in self.keys})

    def key(self, what: str, *index: Index) -> str:
        """The letters of a component, in the order of the alphabet.

        Args:
            what: the group, for the message.
            index: a letter, or the number of an axis, for each rank.

        Raises:
            ShapeError: there is no such component.
        """
        letters = "".join(sorted(self._letter(each) for each in index))
        if len(index) != self.rank or letters not in self.keys:
            written = ", ".join(f'"{letter}"' for letter in self.keys[0])
            raise ShapeError(
                f"component {', '.join(map(shown, index))} of {what}, expected one of {', '.join(self.keys)}; "
                f"write it like {what}[{written}]"
            )
        return letters

    def _letter(self, index: Index) -> str:
        if isinstance(index, str):
            return index
        try:
            return self.axes[operator.index(index)]
        except (TypeError, IndexError):
            return "?"


def vector_layout(axes: str, keys: Sequence[str] | None = None) -> Layout:
    """The layout of a vector. `keys` None: a component an axis."""
    return Layout(axes, 1, tuple(axes if keys is None else keys))


def tensor_layout(axes: str) -> Layout:
    """The layout of a symmetric tensor: (0, 0), (0, 1), ..., (1, 1), ..."""
    return Layout(axes, 2, tuple("".join(sorted(pair)) for pair in combinations_with_replacement(axes, 2)))


class Components(Several):
    """A vector or a symmetric tensor of expressions, such as a step is given for a `diffsim.Vector` or a `diffsim.SymmetricTensor`.

    `v["x"]` and `tau["x", "z"]` are its components, by letters or by the numbers of axes: `v[1]`, `tau[1, 0]`. Arithmetic goes component by
    component, with another group that has the same ones, with an expression and with a number. A vector can be unpacked, `vz, vx = v`, and
    so can the rows of a tensor.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import div, grad

        class Sound(ds.Equation):
            # p_t = -K ∇·v, v_t = -∇p / ρ, between walls.

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt
                self.states = {"p": ds.Variable("mirror", unit="Pa"), "v": ds.Vector("zx", ds.Dirichlet(0.0), unit="m/s")}
                self.parameters = {"rho": ds.Variable(axes=(), unit="kg/m³")}

            def step(self, p, v, rho):
                assert isinstance(v, ds.expr.Components) and v["x"].location == (0, 1)
                v = ds.stage(v - self.dt / rho * grad(p), boundary=v)
                return {"p": p - self.dt * 1.4e5 * div(v), "v": v}

        room = ds.Simulation(Sound(ds.Grid((20, 30), spacing=0.1), dt=1e-4), receivers={"vx": [[1.0, 1.5]]})
        found = room.run({"p": np.eye(20, 30), "rho": 1.2}, steps=20)
        assert set(found.final) == {"p", "vz", "vx"} and np.isclose(found.final["p"].sum(), 20.0)
    """

    __slots__ = ("layout", "parts")
    __array_ufunc__ = None  # so that np.float64(2) * v asks v

    def __init__(self, layout: Layout, parts: Mapping[str, Symbol]) -> None:
        self.layout = layout
        self.parts = dict(parts)

    @overload
    def __getitem__(self, index: str | tuple[Index, ...]) -> Symbol: ...

    @overload
    def __getitem__(self, index: int) -> Any: ...  # a component of a vector, a row of a tensor

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Symbol | tuple[Symbol, ...]:
        layout = self.layout
        if layout.rank == 2 and not isinstance(index, (str, tuple)):  # a row, as of a tuple of tuples
            rows: tuple[tuple[Symbol, ...], ...] = tuple(self)
            return rows[index]
        pair = tuple(index) if isinstance(index, (str, tuple)) else (index,)
        return self.parts[layout.key("v" if layout.rank == 1 else "tau", *pair)]

    def __iter__(self) -> Iterator[Any]:
        if self.layout.rank == 1:
            return iter(self.parts.values())
        return iter([tuple(self[a, b] for b in self.layout.axes) for a in self.layout.axes])

    def __len__(self) -> int:
        return len(self.parts) if self.layout.rank == 1 else len(self.layout.axes)

    def each(self, function: Callable[..., Symbol]) -> Components:
        """A group of the same components, each given by a function of its letters: of `i`, or of `i` and `j` of a tensor."""
        return self.layout.each(function)

    def over(self, axes: str) -> Components:
        """The same where its axes have other letters, if they have none of their own."""
        if self.layout.axes == axes or not self.layout.axes.isdigit() or len(axes) != len(self.layout.axes):
            return self
        renamed = {key: "".join(sorted(axes[int(digit)] for digit in key)) for key in self.parts}
        layout = Layout(axes, self.layout.rank, tuple(renamed.values()))
        return Components(layout, {renamed[key]: part for key, part in self.parts.items()})

    def _combined(self, other: Values, function: Callable[[Operand, Operand], Symbol], swapped: bool = False) -> Components:
        if not isinstance(other, Several):
            each = {key: function(other, part) if swapped else function(part, other) for key, part in self.parts.items()}
            return Components(self.layout, each)
        assert isinstance(other, Components)
        a, b = self.over(other.layout.axes), other.over(self.layout.axes)
        sums = function in (operator.add, operator.sub)
        if a.parts.keys() != b.parts.keys() and not (sums and (a._diagonal_of(b) or b._diagonal_of(a))):
            raise ShapeError(
                f"a vector or tensor of components {', '.join(a.parts)} meets one of {', '.join(b.parts)}, expected the same; "
                "take the components that you mean, as in v['x']"
            )
        first = a if len(a.parts) >= len(b.parts) else b
        return Components(first.layout, {key: function(a.parts.get(key, 0.0), b.parts.get(key, 0.0)) for key in first.parts})

    def _diagonal_of(self, other: Components) -> bool:
        """True if it has the diagonal of another tensor alone."""
        return other.layout.rank == 2 and list(self.parts) == [a + a for a in other.layout.axes]

    def __add__(self, other: Values) -> Components:
        return self._combined(other, operator.add)

    def __sub__(self, other: Values) -> Components:
        return self._combined(other, operator.sub)

    def __mul__(self, other: Values) -> Components:
        return self._combined(other, operator.mul)

    def __truediv__(self, other: Values) -> Components:
        return self._combined(other, operator.truediv)

    def __radd__(self, other: Operand) -> Components:
        return self._combined(other, operator.add, swapped=True)

    def __rsub__(self, other: Operand) -> Components:
        return self._combined(other, operator.sub, swapped=True)

    def __rmul__(self, other: Operand) -> Components:
        return self._combined(other, operator.mul, swapped=True)

    def __rtruediv__(self, other: Operand) -> Components:
        return self._combined(other, operator.truediv, swapped=True)

    def __neg__(self) -> Components:
        return Components(self.layout, {key: -part for key, part in self.parts.items()})

    def __pow__(self, exponent: Operand) -> Components:
        return self._combined(exponent, operator.pow)

    def __rpow__(self, base: Operand) -> Components:
        return self._combined(base, operator.pow, swapped=True)

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise ShapeError("an assignment to a component, expected a new group; give all of them, as in v.each(lambda i: ...)")

    def __repr__(self) -> str:
        return f"Components({self.parts!r})"
