"""Fourier transforms of real numbers along a line, as straight-line programs of additions and multiplications.

An even number of them is halved: sums of opposite ones are transformed again, and differences, which change sign after half a turn, are
complex numbers, half as many. Those have split radix. Odd lengths have their sums.

`hartley` makes real numbers of the coefficients, H_k = Re X_k - Im X_k. This transform is its own inverse, but for the number of its
values, so one program does both. It diagonalises each matrix that shifts in both directions alike.

Reference: Duhamel and Vetterli, Fast Fourier transforms: a tutorial review and a state of the art, Signal Processing 19 (1990) 259 - 299,
doi:10.1016/0165-1684(90)90158-U. Bracewell, Discrete Hartley transform, J. Opt. Soc. Am. 73 (1983) 1832, doi:10.1364/JOSA.73.001832.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

LARGEST_ODD = 15
"""Largest odd factor of a length. Sums over it have as many products as its square."""

Value: TypeAlias = tuple[int, int]
"""A sign, and the number of an operation."""
Complex: TypeAlias = tuple[Value, Value]


@dataclass(frozen=True)
class Operation:
    """One operation of a program.

    Attributes:
        kind: "input", "add", "subtract" or "multiply".
        arguments: numbers of operations; of an input its place.
        factor: of a product, a number, or the name of one.
    """

    kind: str
    arguments: tuple[int, ...]
    factor: float | str = 1.0


class Code:
    """A linear straight-line program in the making."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def _next(self, kind: str, *arguments: int, factor: float | str = 1.0) -> int:
        self.operations.append(Operation(kind, arguments, factor))
        return len(self.operations) - 1

    def input(self, place: int) -> Value:
        return 1, self._next("input", place)

    def add(self, a: Value, b: Value) -> Value:
        if a[0] == b[0]:
            return a[0], self._next("add", a[1], b[1])
        return 1, self._next("subtract", *((a[1], b[1]) if a[0] > 0 else (b[1], a[1])))

    def subtract(self, a: Value, b: Value) -> Value:
        return self.add(a, _negative(b))

    def multiply(self, factor: float | str, a: Value) -> Value:
        if isinstance(factor, float) and abs(factor) == 1:
            return a if factor > 0 else _negative(a)
        if isinstance(factor, float) and factor < 0:
            factor, a = -factor, _negative(a)
        return a[0], self._next("multiply", a[1], factor=factor)

    def total(self, terms: Sequence[Value]) -> Value:
        first, *others = terms
        for term in others:
            first = self.add(first, term)
        return first

    def positive(self, a: Value) -> int:
        """A value without a sign."""
        return a[1] if a[0] > 0 else self._next("multiply", a[1], factor=-1.0)

    # complex numbers

    def add_complex(self, a: Complex, b: Complex) -> Complex:
        return self.add(a[0], b[0]), self.add(a[1], b[1])

    def turned(self, a: Complex, turn: Fraction) -> Complex:
        """A number times exp(-2πi turn)."""
        quarters = (turn % 1) * 4
        re, im = a
        for _ in range(int(quarters)):
            re, im = im, _negative(re)
        rest = quarters - int(quarters)
        if not rest:
            return re, im
        factor = cmath.exp(-0.5j * cmath.pi * float(rest))
        if rest == Fraction(1, 2):  # (1 - i) / √2
            root = 0.5**0.5
            return self.multiply(root, self.add(re, im)), self.multiply(root, self.subtract(im, re))
        return self._product(re, im, factor.real, factor.imag)

    def named_turn(self, a: Complex, re: str, im: str) -> Complex:
        """A number times another one, whose parts have names."""
        return self._product(*a, re, im)

    def _product(self, re: Value, im: Value, c: float | str, s: float | str) -> Complex:
        real = self.subtract(self.multiply(c, re), self.multiply(s, im))
        return real, self.add(self.multiply(s, re), self.multiply(c, im))


@dataclass(frozen=True)
class Mode:
    """A coefficient: its frequency, and its parts. The coefficients of constants and of the shortest waves are real."""

    frequency: int
    re: Value
    im: Value | None = None

    def conjugate(self) -> Mode:
        return self if self.im is None else Mode(-self.frequency, self.re, _negative(self.im))


def real_modes(code: Code, x: Sequence[Value]) -> list[Mode]:
    """The coefficients of real numbers, each but for those that are conjugates of others. The first is their sum."""
    n = len(x)
    if n % 2:
        return _odd_modes(code, x)
    half = n // 2
    sums = [code.add(a, b) for a, b in zip(x[:half], x[half:], strict=True)]
    even = [Mode(2 * mode.frequency, mode.re, mode.im) for mode in real_modes(code, sums)]
    return even + negacyclic_modes(code, [code.subtract(a, b) for a, b in zip(x[:half], x[half:], strict=True)])


def negacyclic_modes(code: Code, x: Sequence[Value]) -> list[Mode]:
    """Coefficients of h real numbers that change sign after half of 2 h places, without those that are conjugates of others."""
    h = len(x)
    n = 2 * h
    if h % 2:  # times (-1)^j they do not change
        turned = [value if j % 2 == 0 else _negative(value) for j, value in enumerate(x)]
        return [Mode((2 * mode.frequency + h) % n, mode.re, mode.im) for mode in real_modes(code, turned)]
    pairs = [code.turned((a, _negative(b)), Fraction(j, n)) for j, (a, b) in enumerate(zip(x[: h // 2], x[h // 2 :], strict=True))]
    return [Mode(4 * k + 1, *value) for k, value in complex_modes(code, pairs)]


def complex_modes(code: Code, z: Sequence[Complex]) -> list[tuple[int, Complex]]:
    """The coefficients of complex numbers with their frequencies."""
    n = len(z)
    if n == 1:
        return [(0, z[0])]
    if n % 2:
        parts = [_odd_modes(code, [value[part] for value in z]) for part in (0, 1)]
        return _joined(code, n, *parts)
    half = n // 2
    sums = [code.add_complex(a, b) for a, b in zip(z[:half], z[half:], strict=True)]
    apart = [code.add_complex(a, (_negative(b[0]), _negative(b[1]))) for a, b in zip(z[:half], z[half:], strict=True)]
    even = [(2 * k, value) for k, value in complex_modes(code, sums)]
    if n % 4:
        odd = complex_modes(code, [code.turned(value, Fraction(j, n)) for j, value in enumerate(apart)])
        return even + [(2 * k + 1, value) for k, value in odd]
    for first, sign in ((1, -1), (3, 1)):  # p - i q, and p + i q
        pairs = zip(apart[: half // 2], apart[half // 2 :], strict=True)
        mixed = [code.add_complex(p, code.turned(q, Fraction(-sign, 4))) for p, q in pairs]
        turned = [code.turned(value, Fraction(first * j, n)) for j, value in enumerate(mixed)]
        even += [(4 * k + first, value) for k, value in complex_modes(code, turned)]
    return even


def hartley(code: Code, modes: Sequence[Mode], n: int) -> dict[int, Value]:
    """The values H_k of n numbers by k, from some of their coefficients."""
    out: dict[int, Value] = {}
    for mode in modes:
        k = mode.frequency % n
        if mode.im is None:
            out[k] = mode.re
        else:
            out[k], out[-k % n] = code.subtract(mode.re, mode.im), code.add(mode.re, mode.im)
    return out


def _odd_modes(code: Code, x: Sequence[Value]) -> list[Mode]:
    n, half = len(x), len(x) // 2
    sums = [code.add(x[j], x[n - j]) for j in range(1, half + 1)]
    apart = [code.subtract(x[n - j], x[j]) for j in range(1, half + 1)]
    modes = [Mode(0, code.total([x[0], *sums]))]
    for k in range(1, half + 1):
        turns = [cmath.exp(2j * cmath.pi * (j * k % n) / n) for j in range(1, half + 1)]
        re = [code.multiply(turn.real, value) for turn, value in zip(turns, sums, strict=True)]
        im = [code.multiply(turn.imag, value) for turn, value in zip(turns, apart, strict=True)]
        modes.append(Mode(k, code.total([x[0], *re]), code.total(im)))
    return modes


def _joined(code: Code, n: int, of_re: Sequence[Mode], of_im: Sequence[Mode]) -> list[tuple[int, Complex]]:
    """The coefficients of a + i b from those of a and of b."""
    out = [(0, (of_re[0].re, of_im[0].re))]
    for a, b in zip(of_re[1:], of_im[1:], strict=True):
        assert a.im is not None and b.im is not None
        out.append((a.frequency, (code.subtract(a.re, b.im), code.add(a.im, b.re))))
        out.append((n - a.frequency, (code.add(a.re, b.im), code.subtract(b.re, a.im))))
    return out


def _negative(a: Value) -> Value:
    return -a[0], a[1]


@dataclass(frozen=True)
class Codelet:
    """A linear function of some numbers.

    Attributes:
        operations: its program.
        outputs: numbers of the operations that are its results.
    """

    operations: tuple[Operation, ...]
    outputs: tuple[int, ...]

    @staticmethod
    def of(inputs: int, function: Callable[[Code, list[Value]], Sequence[Value]]) -> Codelet:
        code = Code()
        outputs = function(code, [code.input(place) for place in range(inputs)])
        numbers = tuple(map(code.positive, outputs))
        return Codelet(tuple(code.operations), numbers)

    @property
    def length(self) -> int:
        return len(self.operations) + len(self.outputs)

    def lines(self, prefix: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """Assignments that compute it, from the source of its inputs to that of its outputs. Outputs may overwrite inputs."""
        name = [f"{prefix}{number}" for number in range(len(self.operations))]
        out = []
        for number, operation in enumerate(self.operations):
            arguments, by = operation.arguments, operation.factor
            if operation.kind == "input":
                value = inputs[arguments[0]]
            elif operation.kind == "multiply":
                value = f"{by if isinstance(by, str) else f'F({by!r})'} * {name[arguments[0]]}"
            else:
                value = f" {'+' if operation.kind == 'add' else '-'} ".join(name[argument] for argument in arguments)
            out.append(f"{name[number]} = {value}")
        return out + [f"{place} = {name[number]}" for place, number in zip(outputs, self.outputs, strict=True)]
