"""Systems with constant weights on a box: sine, cosine and Fourier transforms turn the matrix into numbers.

The right transform depends on the boundary rules. It is not derived from their names, but by trial: the candidate is chosen whose numbers
give the same result as the stencil.

Reference: Strang, The discrete cosine transform, SIAM Review 41 (1999) 135 - 147, doi:10.1137/S0036144598336745.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diffsim.linear import fourier
from diffsim.linear.iterations import norm
from diffsim.linear.periodic import PeriodicKernel, Place, periodic_kernel
from diffsim.linear.sparse import require_compatible
from diffsim.linear.stencil import Stencil

ALIKE = 1e-12
"""Largest relative difference between the stencil and its numbers."""
ZERO = 1e-14
"""A number this much smaller than the largest counts as 0, for each halving of the grid."""
REAL: tuple[tuple[str, int], ...] = (("cosine", 2), ("sine", 2), ("sine", 1), ("cosine", 1), ("cosine", 4), ("sine", 4))


@dataclass(frozen=True)
class Transform:
    """A transform along each axis: Fourier transforms along some, real transforms along the others."""

    shape: tuple[int, ...]
    fourier: tuple[int, ...]
    real: dict[int, tuple[str, int]]

    def forward(self, values: npt.NDArray) -> npt.NDArray:
        from scipy import fft

        original = values
        for axis, (kind, number) in self.real.items():
            values = (fft.dct if kind == "cosine" else fft.dst)(values, number, axis=axis, norm="ortho", overwrite_x=values is not original)
        return fourier.forward(values, self.fourier) if self.fourier else values

    def backward(self, values: npt.NDArray) -> npt.NDArray:
        """The inverse of `forward`. It may overwrite its argument."""
        from scipy import fft

        if self.fourier:
            values = fourier.backward(values, self.fourier, self.shape[self.fourier[-1]])
        for axis, (kind, number) in self.real.items():
            values = (fft.idct if kind == "cosine" else fft.idst)(values, number, axis=axis, norm="ortho", overwrite_x=True)
        return values


@dataclass(frozen=True)
class Inside:
    """A solution from one array into another by a kernel of its own, or by a function of a larger kernel.

    Attributes:
        kernel: has the function.
        source, target: where the right side and the solution lie.
        check: takes the norms that the function leaves, and raises if the right side is not in the range of the matrix. None where it
            always is, or need not be.
    """

    kernel: PeriodicKernel
    source: Place
    target: Place
    check: Callable[[float, float], None] | None

    def solver(self) -> Callable[[], object]:
        """A function that solves as often as it is called, with the check."""
        solve, check = self.kernel.between(self.source, self.target), self.check
        return solve if check is None else lambda: check(*solve())


class Diagonal:
    """A matrix with constant weights, as numbers. Solutions are computed in the type of the right side.

    For a mode whose number is 0, usually the constant field, the solution is 0, and the right side must be 0. (It is the least-squares
    solution, and its transpose is that of the transposed matrix.)

    Args:
        transform: of the box.
        numbers: by which the matrix multiplies coefficients.
        kept: whether many right sides are to come, so that a small periodic box is worth a kernel of its own (`periodic.py`).
    """

    def __init__(self, transform: Transform, numbers: npt.NDArray, kept: bool = False) -> None:
        self._transform, self._kept = transform, kept
        self._kernels: dict[np.dtype, PeriodicKernel | None] = {}
        size = np.abs(numbers)
        zero = size <= ZERO * max(1.0, math.log2(size.size)) * size.max()
        self._zero = np.flatnonzero(zero)
        inverse = np.where(zero, 0, 1 / np.where(zero, 1, numbers))
        if np.iscomplexobj(inverse) and (np.abs(inverse.imag) <= ALIKE * np.abs(inverse)).all():  # of a symmetric matrix
            inverse = np.ascontiguousarray(inverse.real)
        self._inverse = inverse
        self._factors: dict[tuple[np.dtype, bool], npt.NDArray] = {}  # by type of the coefficients, and conjugate or not

    @property
    def regular(self) -> bool:
        return not self._zero.size

    def solve(self, right_side: npt.NDArray, transposed: bool, size: npt.NDArray | None = None) -> npt.NDArray:
        """The solution for the matrix, or for its transpose.

        Raises:
            SingularError: the right side is not in the range of the matrix. For the transpose, that part is ignored.
        """
        kernel = self._kernel_for(right_side)
        if kernel is not None:
            solution, part, whole = kernel.solve(right_side)
            if not transposed:
                self._check(part, whole, right_side, size)
            return solution
        hat = self._transform.forward(right_side)
        if not self.regular and not transposed:
            with np.errstate(over="ignore", invalid="ignore"):
                flat = hat.reshape(-1)
                part, whole = (norm(values.view(values.real.dtype)) for values in (flat[self._zero], flat))
            self._check(part, whole, right_side, size)
        factors = self._factors_for(hat.dtype, transposed)
        scaled = hat if np.iscomplexobj(factors) else hat.view(factors.dtype)  # twice as fast as to multiply complex numbers
        scaled *= factors
        return self._transform.backward(hat)

    def inside(self, right_side: npt.NDArray, solution: npt.NDArray, transposed: bool, size: npt.NDArray | None) -> Inside | None:
        """`solve` by a kernel from one array into another; None where there is no kernel, or it would copy them."""
        kernel = self._kernel_for(right_side)
        places = None if kernel is None else kernel.places(right_side, solution)
        if kernel is None or places is None:
            return None
        checked = not self.regular and not transposed
        return Inside(kernel, *places, (lambda part, whole: self._check(part, whole, right_side, size)) if checked else None)

    def _check(self, part: float, whole: float, right_side: npt.NDArray, size: npt.NDArray | None) -> None:
        """Raise if a right side has a part that the matrix cannot give, whose norm is compared with that of all of it."""
        if not self.regular and math.isfinite(whole):  # else the solution is not finite either, and the run says so
            require_compatible(part / whole if whole else 0.0, right_side, size)

    def _kernel_for(self, right_side: npt.NDArray) -> PeriodicKernel | None:
        dtype = right_side.dtype
        if dtype not in self._kernels:
            everywhere = self._kept and len(self._transform.fourier) == right_side.ndim
            self._kernels[dtype] = periodic_kernel(right_side.shape, dtype, self._inverse, not self.regular) if everywhere else None
        return self._kernels[dtype]

    def _factors_for(self, dtype: np.dtype, transposed: bool) -> npt.NDArray:
        """The inverse, or that of the transpose, for coefficients of a type. Real factors of complex numbers occur twice, once a part."""
        conjugate = transposed and np.iscomplexobj(self._inverse)
        factors = self._factors.get((dtype, conjugate))
        if factors is None:
            inverse = np.conj(self._inverse) if conjugate else self._inverse
            pairs = np.issubdtype(dtype, np.complexfloating) and not np.iscomplexobj(inverse)
            real = np.empty(0, dtype).real.dtype
            factors = np.repeat(inverse, 2, axis=-1).astype(real) if pairs else inverse.astype(dtype)
            self._factors[dtype, conjugate] = factors
        return factors


def diagonal(stencil: Stencil, weights: Sequence[float], kept: bool = False) -> Diagonal | None:
    """The matrix as numbers, or None if no transform is found."""
    by_transform = numbers_of(stencil, weights)
    return None if by_transform is None else Diagonal(*by_transform, kept)


def numbers_of(stencil: Stencil, weights: Sequence[float]) -> tuple[Transform, npt.NDArray] | None:
    """A transform, and the numbers by which the matrix multiplies its coefficients; None if no transform is found.

    The matrix is a sum over sets of offsets with equal weights. The numbers of each set are kept with the stencil, so for other weights,
    as where the time step varies, they are only scaled and added up.
    """
    sets: dict[float, list[int]] = {}
    for number, weight in enumerate(weights):
        sets.setdefault(weight, []).append(number)
    pattern = tuple(map(tuple, sets.values()))
    if pattern not in stencil.modes:
        stencil.modes[pattern] = _modes(stencil, pattern)
    modes = stencil.modes[pattern]
    if modes is None:
        return None
    transform, parts = modes
    return transform, sum(weight * part for weight, part in zip(sets, parts, strict=True))


def _modes(stencil: Stencil, pattern: tuple[tuple[int, ...], ...]) -> tuple[Transform, list[npt.NDArray]] | None:
    """The transform for all matrices with equal weights at each set of offsets, and the numbers of each set."""
    transform = Transform(stencil.shape, (), {})
    for axis in range(len(stencil.shape)):
        along = _along(stencil, axis, pattern)
        if along is None:
            return None
        if isinstance(along, str):
            transform = dataclasses.replace(transform, fourier=(*transform.fourier, axis))
        else:
            transform = dataclasses.replace(transform, real={**transform.real, axis: along})
    parts = []
    for numbers in pattern:
        ones = [float(number in numbers) for number in range(len(stencil.offsets))]
        part = _numbers(transform, lambda x, ones=ones: stencil.apply(ones, x))  # type: ignore[misc]
        if part is None:
            return None
        parts.append(part)
    return transform, parts


def _along(stencil: Stencil, axis: int, pattern: tuple[tuple[int, ...], ...]) -> str | tuple[str, int] | None:
    """The transform along an axis: Fourier, or a real one if the weights are the same in both directions."""
    n, shifts = stencil.shape[axis], stencil.along[axis]
    fourier = Transform((n,), (0,), {})
    if all(_numbers(fourier, matrix.__matmul__) is not None for matrix in shifts.values()):
        return "fourier"
    which = {stencil.offsets[number]: index for index, numbers in enumerate(pattern) for number in numbers}
    mirrored = {o: tuple(-s if a == axis else s for a, s in enumerate(o)) for o in stencil.offsets}
    if any(which.get(other) != which[o] for o, other in mirrored.items()):
        return None
    for candidate in REAL:
        transform = Transform((n,), (), {0: candidate})
        if n > 1 and all(_numbers(transform, (shifts[s] + shifts[-s]).__matmul__) is not None for s in shifts if s >= 0):
            return candidate
    return None


def _numbers(transform: Transform, apply: Callable[[npt.NDArray], npt.NDArray]) -> npt.NDArray | None:
    """The number by which a matrix multiplies each coefficient of a transform; None if it is not diagonal."""
    ones = np.ones_like(transform.forward(np.zeros(transform.shape)))
    numbers = transform.forward(apply(transform.backward(ones)))
    random = np.random.default_rng(0).standard_normal(transform.shape)
    wanted, returned = apply(random), transform.backward(numbers * transform.forward(random))
    return numbers if np.abs(returned - wanted).max() <= ALIKE * np.abs(numbers).max() * np.abs(random).max() else None
