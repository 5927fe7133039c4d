"""Minimise a loss from its value and gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds

from diffsim.ad.tree import LEAF, flatten
from diffsim.base.arguments import function, instance, number, one_of, plural, real_array, whole
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize.adam import Adam
from diffsim.optimize.evaluation import Evaluator, Objective, Point, scaled
from diffsim.optimize.journal import Journal
from diffsim.optimize.lbfgsb import minimise_lbfgsb
from diffsim.optimize.method import Box, Limits, Method, Reason, Stop, make_box
from diffsim.typing import Array

METHODS: dict[str, Method] = {"L-BFGS-B": minimise_lbfgsb, "adam": Adam()}
"""Every method that has a name. `GaussNewton` needs a Hessian and is given as an object."""


@dataclass(frozen=True)
class Iteration:
    """State of a minimisation after an iteration; iteration 0 is the start.

    Attributes:
        iteration: Its number.
        evaluations: Evaluations of the objective so far, recalled ones included.
        value: The objective.
        gradient_norm: Largest |entry| of the gradient, entries held by a bound left out.
        seconds: Spent in the objective and in products so far, by this run and those that it resumes.
        products: Products with the Hessian so far.
    """

    iteration: int
    evaluations: int
    value: float
    gradient_norm: float
    seconds: float
    products: int = 0


@dataclass(frozen=True, eq=False)
class Result:
    """Outcome of a minimisation.

    Attributes:
        x: The last accepted point.
        value: The objective there.
        gradient: Its gradient there.
        history: The start and every iteration.
        message: Why it stopped, as a sentence.
        converged: Whether it stopped because there was nothing left to gain.
        reason: Why it stopped, as a word.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.optimize import Iteration, Result, minimise

        seen = []  # iterations, as they are accepted
        misfit = ds.losses.L2Misfit([1.0, 2.0, 4.0])
        found = minimise(ds.value_and_grad(misfit), np.zeros(3), callback=seen.append)
        assert isinstance(found, Result) and found.converged and np.allclose(found.x, [1.0, 2.0, 4.0])
        assert all(isinstance(each, Iteration) for each in seen) and found.history[1:] == seen
        assert found.value <= found.history[0].value
    """

    x: npt.NDArray[np.float64]
    value: float
    gradient: npt.NDArray[np.float64]
    history: list[Iteration]
    message: str
    converged: bool
    reason: Reason


def minimise(
    objective: Objective,
    x0: Array,
    method: str | Method = "L-BFGS-B",
    bounds: Bounds | Sequence[tuple[float | None, float | None]] | None = None,
    iterations: int = 60,
    tolerance: float = 1e-9,
    journal: Journal | None = None,
    callback: Callable[[Iteration], object] | None = None,
) -> Result:
    """Find a local minimum of `objective`.

    Interrupted in any way (Ctrl-C and other exceptions pass through), a run with a journal resumes when called again with the same
    arguments: recorded evaluations are not computed anew, and the result has the same bits. `iterations` may be raised, to go on from
    a run that has used them up.

    Args:
        objective: x -> (value, gradient), on f64 vectors. It gets a copy of x.
        x0: Start, shape (n,), inside the bounds. Scale x such that 1 is a change to be expected: the first step has about that length.
        method: "L-BFGS-B", "adam", or an object with options: `GaussNewton(hessian)`, `Adam(rate, batches)`.
        bounds: SciPy's `Bounds`, or a pair (lower, upper) an entry, None for no bound.
        iterations: At most this many.
        tolerance: Stop when an iteration lowers the value by no more than this fraction of the starting value (of 1 if that is 0);
            0 goes on until nothing is gained.
        journal: Where evaluations are recorded, and from which they are recalled.
        callback: Called with each iteration after it was accepted; the start is not one. StopIteration from it ends the run.

    Returns:
        The last accepted point, also when the run stopped short of a minimum: see `converged` and `reason`.

    Raises:
        NonFiniteError: A value or gradient is not finite; has the last good x. A DivergenceError.
        JournalError: The journal's evaluations are not those of this run.
        ShapeError: x0, bounds or gradient do not fit.
        ParameterError: Several arrays in x0, which `Stacked` joins; any other argument outside its domain, or an objective whose value or
            gradient at the start is so small that f64 lacks digits for it.

    Example:
        import numpy as np

        import diffsim as ds

        # Where was the heat 4 s ago? The initial temperature from 20 measurements of the final one.
        grid = ds.Grid((40,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), wrt=["T"], precision="f64")
        kappa, truth = np.full(40, 5e-3), np.exp(-(((grid.coordinates(0) - 0.7) / 0.3) ** 2))
        misfit = ds.losses.L2Misfit(rod.run({"kappa": kappa, "T": truth}, steps=40).final["T"])

        def objective(T):
            value, gradient = rod.value_and_grad(lambda found: misfit(found.final["T"]), {"kappa": kappa, "T": T}, steps=40)
            return value, gradient["T"]

        found = ds.optimize.minimise(objective, np.zeros(40), bounds=[(0.0, None)] * 40, iterations=100)
        assert np.abs(found.x - truth).max() < 0.05, found.reason
    """
    function("objective", objective, "lambda x: (value, gradient)", optional=False)
    function("callback", callback, "lambda iteration: ...")
    if journal is not None:
        instance("journal", journal, Journal, "a Journal", "write it like Journal(path)")
    start_x, box, limits = _check(x0, method, bounds, iterations, tolerance)
    chosen = METHODS[method] if isinstance(method, str) else method
    evaluate = Evaluator(objective, journal, getattr(chosen, "batches", None))
    history: list[Iteration] = []

    def accept(x: Array) -> None:
        point = evaluate.accept(x)
        norm = float(np.max(np.abs(box.open_gradient(point))))
        history.append(Iteration(evaluate.iteration, evaluate.evaluations, point.value, norm, evaluate.seconds, evaluate.products))
        if callback is not None and evaluate.iteration > 0:
            callback(history[-1])

    accept(start_x)
    start = _accepted(evaluate)
    if history[0].gradient_norm == 0.0:
        stop = Stop("gradient", True, "the gradient is zero at the start, along every direction that the bounds leave open")
    else:
        view = scaled(evaluate, start)
        stop = chosen(view, view(start.x), box, limits, accept)
    end = _accepted(evaluate)
    return Result(end.x.copy(), end.value, end.gradient.copy(), history, stop.message, stop.converged, stop.reason)


def _accepted(evaluate: Evaluator) -> Point:
    assert evaluate.accepted is not None
    return evaluate.accepted


def _check(
    x0: Array,
    method: str | Method,
    bounds: Bounds | Sequence[tuple[float | None, float | None]] | None,
    iterations: int,
    tolerance: float,
) -> tuple[npt.NDArray[np.float64], Box, Limits]:
    if isinstance(method, type) or not callable(method):
        one_of("method", method, METHODS)
    _require_one_array(x0)
    start = real_array("x0", x0, np.float64)
    if start.ndim != 1 or start.size == 0:
        raise ShapeError(f"x0: expected a vector of at least one entry, got shape {start.shape}; use a parametrisation's from_field")
    if not np.all(np.isfinite(start)):
        raise ParameterError("x0: expected finite numbers, got NaN or infinity; check the starting field")
    iterations = whole("iterations", iterations, 1, 2**31 - 1, "call the objective itself for a value without a step")
    remedy = "1e-9 is a good start, 0 never stops early"
    tolerance = number("tolerance", tolerance, "a number of at least 0 and below 1", lambda x: 0 <= x < 1, remedy)
    box = make_box(bounds, start.size)
    box.check(start)
    return start, box, Limits(iterations, tolerance)


def _require_one_array(x0: object) -> None:
    """Refuse a pytree of several arrays, with the way to one vector of all their entries."""
    leaves, tree = flatten(x0)
    rows = isinstance(x0, (list, tuple)) and not any(np.ndim(leaf) for leaf in leaves)
    if tree == LEAF or not leaves or rows or hasattr(x0, "__array__"):
        return  # an array, or numbers in rows
    if len(leaves) == 1:
        raise ParameterError(f"x0 is a {type(x0).__name__} of an array, expected one vector of all unknowns; give the array itself")
    names = ", ".join(f"{name}: ..." for name in map(shown, x0)) if isinstance(x0, Mapping) else ""
    names = names if 0 < len(names) <= 60 else "'c': ..., 'rho': ..."
    raise ParameterError(
        f"x0 is a {type(x0).__name__} of {plural(len(leaves), 'array')}, expected one vector of all unknowns; make it by "
        f"parts = diffsim.optimize.Stacked({{{names}}}) with a Parametrisation(shape) for each, x0 = parts.join(...), "
        "and take parts.split(x) in the objective"
    )
