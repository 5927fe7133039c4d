"""The objective as an optimiser sees it: checked, counted, timed and journaled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import real_array
from diffsim.base.messages import shown
from diffsim.errors import DivergenceError, ParameterError, ShapeError
from diffsim.optimize.journal import Evaluation, Journal
from diffsim.typing import Array, IntArray

Objective: TypeAlias = Callable[..., tuple[float, Array]]
"""x -> (value, gradient); with batches (x, parts) -> those of the parts."""


class NonFiniteError(DivergenceError):
    """The objective gave a value or a gradient that is not finite.

    Attributes:
        iteration: The iteration that was under way, from 1; 0 at the start.
        last_good: x of the last accepted iteration; None if the start itself failed.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.optimize import NonFiniteError, minimise

        def objective(x):
            return float("nan"), np.zeros(2)  # for example after a run with an unstable time step

        try:
            minimise(objective, np.ones(2))
        except NonFiniteError as error:
            failed = error
        assert failed.iteration == 0 and failed.last_good is None
    """

    def __init__(self, message: str, iteration: int, last_good: Array | None) -> None:
        super().__init__(message)
        self.iteration = iteration
        self.last_good = last_good


@dataclass(frozen=True, eq=False)
class Point:
    """A finite evaluation and its place."""

    x: npt.NDArray[np.float64]
    value: float
    gradient: npt.NDArray[np.float64]


def journaled(journal: Journal | None, x: npt.NDArray[np.float64], context: bytes, compute: Callable[[], Evaluation]) -> Evaluation:
    """The evaluation at x: from the journal if it has entries left, else computed and recorded."""
    evaluation = None if journal is None else journal.recall(x, context)
    if evaluation is None:
        evaluation = compute()
        if journal is not None:
            journal.record(x, evaluation, context)
    return evaluation


class BatchOrder(Protocol):
    """Which parts of an objective an evaluation takes."""

    def of(self, number: int) -> IntArray:
        """The parts of an evaluation; the first evaluation is 0."""
        ...


LEAST = 1e-290
"""Numbers below it lack digits, or their differences do."""
USUAL = 240
"""Exponents of 2 up to which squares and products of values and gradients stay in the range of f64, and their inverses."""


class Evaluator:
    """Calls the objective, or the journal in its stead while that has entries.

    Args:
        objective: x -> (value, gradient). It gets a copy of x, which it may keep or overwrite.
        journal: Rewound here; None keeps no journal.
        batches: Parts of the objective that each evaluation takes; None: all of it.
    """

    def __init__(self, objective: Objective, journal: Journal | None, batches: BatchOrder | None = None) -> None:
        self._objective = objective
        self._batches = batches
        self._hessian: tuple[npt.NDArray[np.float64], Any] | None = None
        self._journal = journal
        self._latest: Point | None = None
        self.accepted: Point | None = None
        self.iteration = 0
        self.evaluations = 0
        self.products = 0
        self.seconds = 0.0
        if journal is not None:
            journal.rewind()

    def __call__(self, x: Array) -> Point:
        """The evaluation at x; asked for twice running, it is done once.

        Raises:
            NonFiniteError: Value or gradient is not finite. Such an evaluation is not journaled, so a resumed run tries it again.
            ShapeError: The gradient has not x's shape.
        """
        if self._latest is not None and np.array_equal(x, self._latest.x):
            return self._latest
        place = np.array(x, dtype=np.float64)  # a copy: SciPy overwrites x
        parts = None if self._batches is None else self._batches.of(self.evaluations)
        context = b"" if parts is None else np.ascontiguousarray(parts, "<i8").tobytes()
        evaluation = self._journaled(place, context, lambda: self._evaluate(place, parts))
        self.evaluations += 1
        self._latest = Point(place, evaluation.value, evaluation.gradient)
        return self._latest

    def product(self, x: Array, v: Array, hessian: Callable[[Array], Any]) -> npt.NDArray[np.float64]:
        """The product of the Hessian at x with v. Products are journaled too.

        Args:
            x: The place.
            v: The direction.
            hessian: x -> an object with products. It is called once at each place, and only if a product is not in the journal.

        Raises:
            ParameterError: The result of `hessian` has no products.
            ShapeError: The Hessian has another size than x, or the product has not v's shape.
            NonFiniteError: It is not finite.
        """
        place, direction = np.array(x, dtype=np.float64), np.array(v, dtype=np.float64)
        evaluation = self._journaled(direction, place.tobytes(), lambda: self._multiply(place, direction, hessian))
        self.products += 1
        return evaluation.gradient

    def _journaled(self, x: npt.NDArray[np.float64], context: bytes, compute: Callable[[], Evaluation]) -> Evaluation:
        """As the function of this name, with its seconds counted."""
        evaluation = journaled(self._journal, x, context, compute)
        self.seconds += evaluation.seconds
        return evaluation

    def _multiply(self, x: npt.NDArray[np.float64], v: npt.NDArray[np.float64], hessian: Callable[[Array], Any]) -> Evaluation:
        start = perf_counter()
        if self._hessian is None or not np.array_equal(self._hessian[0], x):
            matrix = hessian(x.copy())
            if not hasattr(matrix, "__matmul__") or getattr(matrix, "ndim", 2) != 2:
                raise ParameterError(
                    f"hessian: expected a function of x whose result has products, H @ v, got the result {shown(matrix)}; return an array "
                    "of two axes, or wrap a function of v: scipy.sparse.linalg.LinearOperator((n, n), matvec=...)"
                )
            shape = tuple(getattr(matrix, "shape", (x.size, x.size)))
            if shape != (x.size, x.size):
                raise ShapeError(
                    f"hessian: expected the shape {(x.size, x.size)}, a row and a column for each unknown, got {shape}; return the Hessian "
                    "with respect to x"
                )
            self._hessian = x, matrix
        product = np.array(real_array("product with the Hessian", self._hessian[1] @ v.copy(), np.float64))
        if product.shape != v.shape:
            raise ShapeError(
                f"product with the Hessian: expected the shape of x, {v.shape}, got {product.shape}; return one entry an unknown"
            )
        if not np.all(np.isfinite(product)):
            raise self._not_finite("a finite product with the Hessian", "one that is not")
        return Evaluation(0.0, product, perf_counter() - start)

    def accept(self, x: Array) -> Point:
        """Take x as the outcome of an iteration; the first call takes the start, as iteration 0."""
        point = self(x)
        if self.accepted is not None:
            self.iteration += 1
        self.accepted = point
        return point

    def _evaluate(self, x: npt.NDArray[np.float64], parts: IntArray | None) -> Evaluation:
        start = perf_counter()
        try:
            answer = self._objective(x.copy()) if parts is None else self._objective(x.copy(), parts)
        except DivergenceError as error:
            raise self._not_finite("a finite value and gradient", f"an error of the objective ({error})") from error
        seconds = perf_counter() - start
        if not isinstance(answer, (tuple, list)) or len(answer) != 2 or np.ndim(answer[0]) != 0:
            raise ParameterError(f"objective gave {shown(answer)}, expected (value, gradient); return a number and a vector")
        value = float(real_array("value of the objective", answer[0], np.float64))
        gradient = np.array(real_array("gradient", answer[1], np.float64))
        if gradient.shape != x.shape:
            raise ShapeError(f"gradient: expected the shape of x, {x.shape}, got {gradient.shape}; return one entry for each unknown")
        bad = int(np.count_nonzero(~np.isfinite(gradient)))
        if not np.isfinite(value) or bad:
            reason = f"value {value:g} and {bad} of {gradient.size} gradient entries not finite"
            raise self._not_finite("a finite value and gradient", reason)
        return Evaluation(value, gradient, seconds)

    def _not_finite(self, expected: str, values: str) -> NonFiniteError:
        under_way = 0 if self.accepted is None else self.iteration + 1
        return NonFiniteError(
            f"iteration {under_way}, evaluation {self.evaluations + 1}: expected {expected}, got {values}; set bounds, choose a "
            "smaller scale of the unknowns for shorter steps, or go on from the error's last_good",
            under_way,
            None if self.accepted is None else self.accepted.x.copy(),
        )


class Scaled(Evaluator):
    """The same objective times a power of two, which alters no digit, for methods that square values and gradients.

    Args:
        evaluate: the objective as it is.
        exponent: of the power of two by which it is divided.
    """

    def __init__(self, evaluate: Evaluator, exponent: int) -> None:
        self._evaluate_there, self._exponent = evaluate, exponent

    def __call__(self, x: Array) -> Point:
        """The scaled evaluation at x. Numbers that would overflow are the largest that there are."""
        point = self._evaluate_there(x)
        return Point(point.x, float(self._divided(np.float64(point.value))), self._divided(point.gradient))

    def product(self, x: Array, v: Array, hessian: Callable[[Array], Any]) -> npt.NDArray[np.float64]:
        """The scaled product of the Hessian at x with v."""
        return self._divided(self._evaluate_there.product(x, v, hessian))

    def _divided(self, values: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            return np.nan_to_num(np.ldexp(values, -self._exponent))


def scaled(evaluate: Evaluator, start: Point) -> Evaluator:
    """The objective itself, or scaled where its gradient at the start is so large or small that its square leaves the range of f64.

    Raises:
        ParameterError: value or gradient at the start are so small that they lack digits.
    """
    steepest = float(np.max(np.abs(start.gradient)))
    for name, size in (("value", abs(start.value)), ("gradient", steepest)):
        if 0.0 < size < LEAST:
            raise ParameterError(
                f"objective: expected a {name} of at least {LEAST:g} at the start, or 0, got {size:.3g}, for which f64 lacks digits; "
                "multiply the objective by a constant, such as 1e300"
            )
    exponent = math.frexp(steepest)[1]
    return evaluate if abs(exponent) <= USUAL else Scaled(evaluate, exponent)
