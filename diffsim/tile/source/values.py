"""Where the values of a tile program are while its kernel is written: in scratch memory, in an argument, or in a variable.

A kernel works on as many tiles at a time as a register has lanes. Entry e of a value is one register: the entries e of those tiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from diffsim import engine

KINDS = {"f4": "f", "f8": "d", "i4": "i", "i8": "n", "b1": "b"}
"""Types of values, by NumPy's names, and the letter that stands for each in a kernel."""
QUAD = {"f": 4, "i": 4, "d": 2, "n": 2}
"""Entries of 16 bytes: as much as NumPy's arrays are aligned to."""
LARGEST = 2**31 - 1
"""The most entries of an array of a launch: kernels index them with 32 bits."""
TYPES = {"f": "ti.f32", "d": "ti.f64", "i": "ti.i32", "n": "ti.i64"}


def kind_of(dtype: Any) -> str:
    """The letter of a type."""
    return KINDS[np.dtype(dtype).str[1:]]


def stored(kind: str) -> str:
    """The letter of the type that values are stored in: truth values are stored as integers."""
    return "i" if kind == "b" else kind


@dataclass(frozen=True)
class Affine:
    """A sum of a number and of multiples of loop variables."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms)
        terms = dict(self.terms)
        for name, factor in other.terms:
            terms[name] = terms.get(name, 0) + factor
        return Affine(self.constant + other.constant, tuple((n, f) for n, f in terms.items() if f))

    def __mul__(self, factor: int) -> Affine:
        return Affine(self.constant * factor, tuple((n, f * factor) for n, f in self.terms) if factor else ())

    def __str__(self) -> str:
        parts = [name if factor == 1 else f"{name} * {factor}" for name, factor in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)


class Buffer:
    """A part of the scratch memory.

    Attributes:
        kind: letter of the type of its entries.
        start: its first entry.
        size: entries.
        users: values, and operations that are still to be written, that refer to it.
    """

    __slots__ = ("kind", "size", "start", "users")

    def __init__(self, kind: str, start: int, size: int) -> None:
        self.kind, self.start, self.size, self.users = kind, start, size, 0


@dataclass(frozen=True)
class Uniform:
    """A value whose entries are all equal: a variable of the kernel, or a number."""

    text: str
    kind: str
    shape: tuple[int, ...] = ()

    def reshaped(self, shape: tuple[int, ...]) -> Uniform:
        return replace(self, shape=shape)


@dataclass(frozen=True)
class View:
    """A value in memory.

    Attributes:
        array: name of the array: "s" for the scratch memory, "x3" for an argument, "c" for constants.
        kind: letter of its type.
        shape: of the value.
        strides: entries from one index to the next along each axis.
        offset: of the first entry.
        buffer: in scratch memory.
    """

    array: str
    kind: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: Affine = field(default_factory=Affine)
    buffer: Buffer | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def contiguous(self) -> bool:
        return all(n == 1 or s == w for n, s, w in zip(self.shape, self.strides, row_strides(self.shape), strict=True))

    @property
    def whole(self) -> bool:
        """True if it is all of a buffer, entry by entry."""
        return self.buffer is not None and self.contiguous and self.size == self.buffer.size

    def at(self, index: Sequence[Affine]) -> Affine:
        affine = self.offset
        for place, stride in zip(index, self.strides, strict=True):
            affine = affine + place * stride
        return affine

    def row(self, k: Affine) -> View:
        """Entry `k` of the first axis."""
        return replace(self, shape=self.shape[1:], strides=self.strides[1:], offset=self.offset + k * self.strides[0])


Value = Uniform | View


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of rows side by side."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def in_quads(flat: np.ndarray, quad: int) -> np.ndarray:
    """An array as blocks of `quad` entries, 16 bytes, aligned to them."""
    if flat.ctypes.data % 16:
        moved = engine.aligned((flat.size,), flat.dtype)
        moved[:] = flat
        flat = moved
    return flat.reshape(-1, quad)


def strided(positions: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """The start and the strides of positions that are those of a view; None if they are not."""
    if not positions.size:
        return None
    start = int(positions.flat[0])
    strides = []
    for axis, n in enumerate(positions.shape):
        first = [0] * positions.ndim
        first[axis] = min(1, n - 1)
        strides.append(int(positions[tuple(first)]) - start)
    expected = np.full(positions.shape, start)
    for axis, stride in enumerate(strides):
        lengths = [1] * positions.ndim
        lengths[axis] = -1
        expected = expected + stride * np.arange(positions.shape[axis]).reshape(lengths)
    return (start, tuple(strides)) if np.array_equal(expected, positions) else None


def coalesced(shape: Sequence[int], views: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Groups of neighbouring axes that one loop can run over, for all of these strides. Axes of length 1 are in none."""
    groups: list[tuple[int, ...]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        last = groups[-1][-1] if groups else None
        if last is not None and all(strides[last] == strides[axis] * n for strides in views):
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return groups
