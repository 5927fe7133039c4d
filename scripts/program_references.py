"""Derivatives of the programs of tests/ad/programs with many digits.

Each program runs as it stands on a namespace whose numbers have 100 digits, and central differences with a step of 1e-25 give its
Jacobian (or Hessian) to some 50. Needs mpmath, which nothing else of the project does. From the root of the repository:

    PYTHONPATH=. python scripts/program_references.py            writes the numbers of the cases that are STORED
    PYTHONPATH=. python scripts/program_references.py --check    compares every smooth case with them
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy

from tests.ad.programs import cases, oracles, reference
from tests.ad.programs.collection import CASES
from tests.ad.programs.trees import flatten

mpmath.mp.dps = 100
STEP = mpmath.mpf(10) ** -25
# The collection is held to 1e-9 itself; its closed forms are evaluated in double precision.
AGREEMENT = 1e-11
# An array of objects has no real part as an attribute.
LEFT_OUT = {"fft and complex/complex_array_filled_in_a_loop"}


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    vectorised = numpy.frompyfunc(function, function.__code__.co_argcount, 1)
    return lambda *args: vectorised(*args)


def _many_digits(array: Any) -> numpy.ndarray:
    return numpy.frompyfunc(lambda v: v if isinstance(v, (mpmath.mpf, mpmath.mpc)) else mpmath.mpmathify(v), 1, 1)(
        numpy.asarray(array, object)
    )


class ManyDigitLinalg:
    """Dense linear algebra, by mpmath."""

    def norm(self, x: Any) -> Any:
        return mpmath.sqrt(numpy.sum(x * x))

    def solve(self, a: Any, b: Any) -> Any:
        columns = numpy.reshape(b, (len(b), -1))
        solved = [list(mpmath.lu_solve(mpmath.matrix(a.tolist()), mpmath.matrix(c.tolist()))) for c in columns.T]
        return numpy.array(solved, object).T.reshape(numpy.shape(b))

    def inv(self, a: Any) -> Any:
        return self.solve(a, _many_digits(numpy.eye(len(a))))

    def det(self, a: Any) -> Any:
        return mpmath.det(mpmath.matrix(a.tolist()))

    def cholesky(self, a: Any) -> Any:
        return numpy.array(mpmath.cholesky(mpmath.matrix(a.tolist())).tolist(), object).reshape(a.shape)


class ManyDigitFourier:
    """Transforms as sums."""

    fftfreq = staticmethod(numpy.fft.fftfreq)

    def _transform(self, x: Any, axis: int, sign: int) -> Any:
        n = numpy.shape(x)[axis]
        matrix = numpy.array([[mpmath.expjpi(mpmath.mpf(sign * 2 * j * k) / n) for k in range(n)] for j in range(n)], object)
        return numpy.moveaxis(numpy.tensordot(matrix, x, (1, axis)), 0, axis)

    def fft(self, x: Any, axis: int = -1) -> Any:
        return self._transform(x, axis, -1)

    def ifft(self, x: Any, axis: int = -1) -> Any:
        return self._transform(x, axis, 1) / numpy.shape(x)[axis]

    def fft2(self, x: Any) -> Any:
        return self.fft(self.fft(x, 0), 1)

    def rfft(self, x: Any) -> Any:
        return self.fft(x)[: len(x) // 2 + 1]

    def irfft(self, x: Any, n: int) -> Any:
        mirrored = [x[k] if k < len(x) else mpmath.conj(x[n - k]) for k in range(n)]
        return MANY_DIGITS.real(self.ifft(numpy.array(mirrored, object)))


class ManyDigitNumpy:
    """NumPy on object arrays; operations without a loop there are done element by element."""

    linalg = ManyDigitLinalg()
    fft = ManyDigitFourier()
    abs = staticmethod(_elementwise(lambda v: mpmath.fabs(v)))
    arctan2 = staticmethod(_elementwise(lambda y, x: mpmath.atan2(y, x)))
    real = staticmethod(_elementwise(lambda v: mpmath.re(v)))
    imag = staticmethod(_elementwise(lambda v: mpmath.im(v)))
    conj = staticmethod(_elementwise(lambda v: mpmath.conj(v)))
    angle = staticmethod(_elementwise(lambda v: mpmath.arg(v)))
    floor = staticmethod(_elementwise(lambda v: mpmath.floor(v)))
    ceil = staticmethod(_elementwise(lambda v: mpmath.ceil(v)))
    round = staticmethod(_elementwise(lambda v: mpmath.nint(v)))
    log1p = staticmethod(_elementwise(lambda v: mpmath.log1p(v)))
    expm1 = staticmethod(_elementwise(lambda v: mpmath.expm1(v)))

    def __getattr__(self, name: str) -> Any:
        short = name.replace("arc", "a")
        if short in {"sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "sinh", "cosh", "asin", "atan", "atanh", "sign"}:
            function = getattr(mpmath, short)
            return _elementwise(lambda v: function(v))
        return getattr(numpy, name)

    def _dtype(self, dtype: Any) -> Any:
        return object if dtype is None or numpy.dtype(dtype).kind in "fc" else dtype

    def zeros(self, shape: Any, dtype: Any = None) -> Any:
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = None) -> Any:
        return self.full(shape, 1, dtype)

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Any:
        dtype = self._dtype(dtype)
        return numpy.full(shape, mpmath.mpf(value) if dtype is object else value, dtype)

    def array(self, entries: Any, dtype: Any = None) -> Any:
        numbers = numpy.array(entries, dtype)
        return _many_digits(numbers) if numbers.dtype.kind == "f" else numbers

    def zeros_like(self, x: Any) -> Any:
        return self.zeros(numpy.shape(x))

    def eye(self, n: int) -> Any:
        return _many_digits(numpy.eye(n))


MANY_DIGITS = ManyDigitNumpy()


def differences(of_vector: oracles.Function, point: numpy.ndarray) -> numpy.ndarray:
    columns = []
    for direction in numpy.eye(point.size, dtype=int):
        columns.append((of_vector(point + STEP * direction) - of_vector(point - STEP * direction)) / (2 * STEP))
    return numpy.stack(columns, axis=1)


def jacobian(case: cases.Case) -> numpy.ndarray:
    """The Jacobian of a case, or its Hessian, rounded to double precision."""
    of_vector, point = oracles.on_vector(case.bind(MANY_DIGITS, reference), case.args, case.wrt)
    point = _many_digits(point)
    second = case.kind in ("hessian", "hvp")
    return differences((lambda x: differences(of_vector, x)[0]) if second else of_vector, point).astype(float)


def write() -> None:
    lines = [f"{json.dumps(str(case))}: {json.dumps(jacobian(case).tolist())}" for case in CASES if case.expected is cases.STORED]
    cases.STORED_NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} cases stored in {cases.STORED_NUMBERS}")


def check() -> int:
    """Report disagreements. Programs that take derivatives themselves, kinks and empty arguments are left out."""
    disagreeing = compared = 0
    for case in CASES:
        if case.kind == "raises" or case.plain or not case.differences or str(case) in LEFT_OUT or not flatten(case.args).size:
            continue
        expected, derivative = case.expected_derivative(), case.from_jacobian(jacobian(case))
        error = numpy.max(numpy.abs(expected - derivative), initial=0.0) / case.scale(expected)
        compared += 1
        if not error < max(AGREEMENT, case.tolerance if case.tolerance > 1e-9 else 0.0):
            disagreeing += 1
            print(f"{case}: {error:.1e}")
    print(f"{compared} cases compared, {disagreeing} disagree by more than {AGREEMENT:g}")
    return disagreeing


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check() > 0)
    write()
