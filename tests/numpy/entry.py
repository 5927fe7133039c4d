"""An entry of the table of array operations: a function of a namespace and arrays, and recipes for the arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

Recipe = Callable[[np.random.Generator], Any]


class Argument:
    """An array to differentiate for, made from a random generator."""

    def __init__(self, make: Recipe) -> None:
        self.make = make

    def every_other(self) -> Argument:
        """The same, not contiguous in memory."""

        def make(rng: np.random.Generator) -> Any:
            x = self.make(rng)
            return np.stack([x, x], -1)[..., 0]

        return Argument(make)


def normal(*shape: int) -> Argument:
    return Argument(lambda rng: rng.normal(size=shape))


def uniform(low: float, high: float, *shape: int) -> Argument:
    return Argument(lambda rng: rng.uniform(low, high, size=shape))


def positive(*shape: int) -> Argument:
    return uniform(0.5, 2.0, *shape)


def complex_normal(*shape: int) -> Argument:
    return Argument(lambda rng: rng.normal(size=shape) + 1j * rng.normal(size=shape))


def complex_ring(*shape: int) -> Argument:
    """Complex numbers away from 0 and from the negative numbers, where roots and logarithms jump."""

    def make(rng: np.random.Generator) -> Any:
        return rng.uniform(0.5, 2.0, shape) * np.exp(1j * rng.uniform(-2.5, 2.5, shape))

    return Argument(make)


def apart(*shape: int) -> Argument:
    """Entries of both signs, of which no two, no entry and zero, and no two absolute values are nearer than 0.1."""

    def make(rng: np.random.Generator) -> Any:
        size = int(np.prod(shape))
        sizes = (rng.permutation(size) + rng.uniform(0.6, 0.8, size)) / 2.0
        return (sizes * rng.choice([-1.0, 1.0], size)).reshape(shape)

    return Argument(make)


def increasing(n: int) -> Argument:
    return Argument(lambda rng: np.cumsum(rng.uniform(0.5, 1.5, n)))


def regular(*shape: int) -> Argument:
    """Well-conditioned square matrices."""
    return Argument(lambda rng: rng.normal(size=shape) * 0.3 + 2.0 * np.eye(shape[-1]))


def complex_regular(*shape: int) -> Argument:
    """Well-conditioned square matrices of complex numbers."""
    return Argument(lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape)) * 0.3 + (2.0 + 1.0j) * np.eye(shape[-1]))


def definite(*shape: int) -> Argument:
    """Symmetric positive definite matrices, with eigenvalues apart."""

    def make(rng: np.random.Generator) -> Any:
        x = rng.normal(size=shape) * 0.2
        return x @ np.swapaxes(x, -1, -2) + np.diag(np.arange(1.0, shape[-1] + 1))

    return Argument(make)


def graded(*shape: int) -> Argument:
    """Matrices of any shape, with singular values apart from one another and from 0."""
    n = min(shape[-2:])
    scale = np.zeros(shape[-2:])
    scale[range(n), range(n)] = np.arange(1.0, n + 1)
    return Argument(lambda rng: rng.normal(size=shape) * 0.2 + scale)


def scalar(low: float, high: float) -> Argument:
    """A NumPy number, not an array."""
    return Argument(lambda rng: np.float64(rng.uniform(low, high)))


@dataclasses.dataclass(frozen=True)
class Entry:
    """One way to call one function.

    Attributes:
        name: its name in that of the test.
        covers: the public name that it tests: "sum", "linalg.solve", "operator.add", "method.sum".
        function: of a namespace (NumPy's or ours) and the arguments.
        arguments: recipes.
        reference: in place of NumPy's, for names that NumPy lacks.
        tolerance: of first derivatives against differences, relative to their size.
        second: whether derivatives of second order exist; if not, `why` says so.
        single: whether it works in single precision.
        constant: the derivative is zero, or there is none.
        dispatch: whether NumPy's function leads to ours.
    """

    name: str
    covers: str
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    reference: Callable[..., Any] | None = None
    tolerance: float = 1e-8
    second: bool = True
    single: bool = True
    constant: bool = False
    dispatch: bool = True
    why: str = ""

    def values(self) -> tuple[Any, ...]:
        """The arguments, the same ones each time."""
        rng = np.random.default_rng([len(self.name), *self.name.encode()])
        return tuple(a.make(rng) for a in self.arguments)

    def of_numpy(self, *values: Any) -> Any:
        """The function by NumPy alone."""
        return self.reference(*values) if self.reference else self.function(np, *values)


class Table:
    """Entries under distinct names."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, covers: str, function: Callable[..., Any], arguments: tuple[Argument, ...], note: str = "", **options: Any) -> None:
        """An entry with a function of its own."""
        name = f"{covers} {note}".strip()
        taken = {e.name for e in self.entries}
        number = next(k for k in range(1, 1000) if (name if k == 1 else f"{name} #{k}") not in taken)
        name = name if number == 1 else f"{name} #{number}"
        self.entries.append(Entry(name, covers, function, arguments, **options))

    def call(self, covers: str, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """An entry that calls the function of this name: arguments of the table are filled in, others stay as they are."""
        places = [k for k, a in enumerate(args) if isinstance(a, Argument)]

        def function(namespace: Any, *values: Any) -> Any:
            full = list(args)
            for place, value in zip(places, values, strict=True):
                full[place] = value
            target = namespace
            for part in covers.split("."):
                target = getattr(target, part)
            return target(*full, **kwargs)

        note = ", ".join(f"{k}={v}" for k, v in kwargs.items())
        self.add(covers, function, tuple(args[k] for k in places), note, **(options or {}))
