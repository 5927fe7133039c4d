"""Gauss-Newton and Adam: where they end, what they cost, and that a resumed run ends with the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rosenbrock_run import BOUNDS, X0, rosenbrock
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from diffsim.errors import DiffsimError, ParameterError, ShapeError
from diffsim.optimize import Adam, Batches, GaussNewton, Journal, JournalError, NonFiniteError, minimise
from diffsim.typing import Array


def rosenbrock_hessian(x: Array) -> Array:
    """Jᵀ J of the residuals, by NumPy: f = ½ Σ r²."""
    n = x.size
    jacobian = np.zeros((2 * (n - 1), n))
    for i in range(n - 1):
        jacobian[i, i], jacobian[i, i + 1] = -20 * x[i] * np.sqrt(2), 10 * np.sqrt(2)
        jacobian[n - 1 + i, i] = -np.sqrt(2)
    return jacobian.T @ jacobian


class Linear:
    """½ ‖A x - b‖² with columns of A whose sizes range over four decades."""

    def __init__(self, size: int = 20) -> None:
        rng = np.random.default_rng(3)
        self.matrix = rng.standard_normal((30, size)) * 10.0 ** -np.linspace(0, 4, size)
        self.data = self.matrix @ rng.standard_normal(size)
        self.products = 0

    def __call__(self, x: Array) -> tuple[float, Array]:
        residual = self.matrix @ x - self.data
        return 0.5 * float(residual @ residual), self.matrix.T @ residual

    def hessian(self, x: Array) -> Linear:
        return self

    def __matmul__(self, v: Array) -> Array:
        self.products += 1
        return self.matrix.T @ (self.matrix @ v)


NEWTON = GaussNewton(rosenbrock_hessian)


def test_rosenbrock_reaches_its_minimum() -> None:
    result = minimise(rosenbrock, X0[:2], NEWTON, bounds=[(-2, 2), (-2, 2)], tolerance=0.0)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-8)
    assert result.converged
    assert result.history[-1].products < 2 * result.history[-1].iteration


def test_rosenbrock_with_active_bounds_reaches_the_constrained_minimum() -> None:
    result = minimise(rosenbrock, X0, NEWTON, BOUNDS, iterations=300, tolerance=0.0)
    lower, upper = np.array(BOUNDS).T
    assert result.x[5] == 0.5 and result.gradient[5] < -0.1
    assert np.max(np.abs(result.gradient[:5])) < 1e-5
    assert np.all((result.x >= lower) & (result.x <= upper))


def test_bounds_that_many_entries_end_at() -> None:
    """Against SciPy's solver of bounded least squares."""
    from scipy.optimize import lsq_linear

    problem = Linear(8)
    problem.matrix = np.random.default_rng(5).standard_normal((30, 8)) @ (np.eye(8) + 0.9)  # columns that lean on each other
    bounds = (np.full(8, -0.03), np.full(8, 0.02))
    expected = lsq_linear(problem.matrix, problem.data, bounds, tol=1e-15)
    result = minimise(problem, np.zeros(8), GaussNewton(problem.hessian), list(zip(*bounds, strict=True)), iterations=200, tolerance=0.0)
    np.testing.assert_allclose(result.x, expected.x, atol=1e-6)
    assert result.history[-1].iteration <= 20  # the conjugate gradients leave entries alone that a bound holds
    assert np.count_nonzero((result.x == -0.03) | (result.x == 0.02)) >= 3


def test_it_is_lower_after_as_many_evaluations_where_influences_differ_by_decades() -> None:
    problem = Linear()
    slow, fast = (minimise(problem, np.zeros(20), method, iterations=15).history for method in ("L-BFGS-B", GaussNewton(problem.hessian)))
    assert fast[-1].evaluations <= slow[-1].evaluations
    assert fast[-1].value < 0.05 * slow[-1].value


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e15])
def test_the_unit_of_the_objective_does_not_matter(unit: float) -> None:
    problem = Linear()

    def scaled(x: Array) -> tuple[float, Array]:
        value, gradient = problem(x)
        return unit * value, unit * gradient

    expected = minimise(problem, np.zeros(20), GaussNewton(lambda x: problem.matrix.T @ problem.matrix), iterations=3)
    newton = minimise(scaled, np.zeros(20), GaussNewton(lambda x: unit * (problem.matrix.T @ problem.matrix)), iterations=3)
    np.testing.assert_allclose(newton.x, expected.x, rtol=1e-6)
    adam = [minimise(f, np.zeros(20), "adam", iterations=20).x for f in (problem, scaled)]
    np.testing.assert_allclose(*adam, rtol=1e-6)


def test_directions_without_curvature_are_followed_downhill() -> None:
    """f = Σ x, where the Hessian is zero, down to the bounds."""
    result = minimise(lambda x: (float(x.sum()), np.ones(3)), np.ones(3), GaussNewton(lambda x: np.zeros((3, 3))), [(-1, 5)] * 3)
    np.testing.assert_array_equal(result.x, -1.0)
    assert (result.reason, result.converged) == ("gradient", True)


def test_a_wrong_gradient_ends_in_the_line_search() -> None:
    problem = Linear()
    result = minimise(lambda x: (problem(x)[0], -problem(x)[1]), np.zeros(20), GaussNewton(problem.hessian))
    assert (result.reason, result.converged) == ("line search", False)
    np.testing.assert_array_equal(result.x, 0.0)


def test_a_callback_stops_both() -> None:
    def callback(record: object) -> None:
        raise StopIteration

    for method in (NEWTON, "adam"):
        result = minimise(rosenbrock, X0, method, callback=callback)
        assert (result.reason, len(result.history)) == ("callback", 2)


@pytest.mark.parametrize("stop", [1, 2, 5, 9, 14])
def test_gauss_newton_resumes_after_any_evaluation_or_product(stop: int, tmp_path: Path) -> None:
    whole = minimise(rosenbrock, X0, NEWTON, BOUNDS, iterations=8)
    done = [0]

    def counted() -> None:
        done[0] += 1
        if done[0] == stop:
            raise KeyboardInterrupt

    def objective(x: Array) -> tuple[float, Array]:
        counted()
        return rosenbrock(x)

    class Product:
        def __init__(self, matrix: Array) -> None:
            self.matrix = matrix

        def __matmul__(self, v: Array) -> Array:
            counted()
            return self.matrix @ v

    method = GaussNewton(lambda x: Product(rosenbrock_hessian(x)))
    with Journal(tmp_path / "journal", "gn") as journal, pytest.raises(KeyboardInterrupt):
        minimise(objective, X0, method, BOUNDS, iterations=8, journal=journal)
    with Journal(tmp_path / "journal", "gn") as journal:
        again = minimise(objective, X0, method, BOUNDS, iterations=8, journal=journal)
    np.testing.assert_array_equal(again.x, whole.x)
    last = whole.history[-1]
    assert done[0] == last.evaluations + last.products + 1  # the interrupted one alone is done twice
    assert [row.products for row in again.history] == [row.products for row in whole.history]


def test_a_product_that_does_not_fit_is_refused() -> None:
    class Rows:
        def __matmul__(self, v: Array) -> Array:
            return v[:3]

    with pytest.raises(ShapeError, match="product with the Hessian"):
        minimise(rosenbrock, X0, GaussNewton(lambda x: Rows()))
    with pytest.raises(NonFiniteError, match="expected a finite product"):
        minimise(rosenbrock, X0, GaussNewton(lambda x: np.full((6, 6), np.nan)))


# Adam


def test_adam_finds_the_minimum_within_bounds() -> None:
    result = minimise(rosenbrock, np.array([-1.2, 0.5]), Adam(rate=0.02), [(-2, 2), (-2, 0.8)], iterations=3000)
    assert result.x[1] == pytest.approx(0.8, abs=1e-3) and result.x[1] <= 0.8
    assert result.x[0] == pytest.approx(0.895, abs=0.01)
    assert (result.reason, result.converged) == ("iterations", False)


def test_its_first_step_has_the_length_of_the_rate_in_every_entry() -> None:
    result = minimise(rosenbrock, X0, Adam(rate=0.01), iterations=1)
    np.testing.assert_allclose(np.abs(result.x - X0), 0.01, rtol=1e-6)


def test_it_is_adam_as_published() -> None:
    """A plain loop over numbers."""
    problem, x = Linear(5), np.zeros(5)
    m, v = np.zeros(5), np.zeros(5)
    for k in range(1, 13):
        g = problem(x)[1]
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - 0.1 * (m / (1 - 0.9**k)) / np.sqrt(v / (1 - 0.999**k))
    np.testing.assert_allclose(minimise(problem, np.zeros(5), "adam", iterations=12).x, x, rtol=1e-6)


@pytest.mark.parametrize(("count", "size"), [(10, 3), (10, 10), (7, 1), (12, 5)])
def test_every_part_is_taken_once_in_an_epoch(count: int, size: int) -> None:
    batches, many = Batches(count, size, seed=4), -(-count // size)
    epochs = [[batches.of(e * many + k) for k in range(many)] for e in range(3)]
    for epoch in epochs:
        assert sorted(np.concatenate(epoch)) == list(range(count))
        assert all(len(batch) <= size and np.all(np.diff(batch) > 0) for batch in epoch)
    if 1 < size < count:
        assert any(not np.array_equal(a, b) for a, b in zip(epochs[0], epochs[1], strict=True))
    assert all(np.array_equal(batches.of(k), Batches(count, size, seed=4).of(k)) for k in range(5))


class Parts(Linear):
    """The same by batches of its rows."""

    def __init__(self, stop: int = 0) -> None:
        super().__init__(5)
        self.taken: list[list[int]] = []
        self.stop = stop

    def __call__(self, x: Array, parts: Array) -> tuple[float, Array]:  # type: ignore[override]
        if self.stop and len(self.taken) == self.stop:
            raise KeyboardInterrupt
        self.taken.append(parts.tolist())
        rows, share = self.matrix[parts], 30 / len(parts)
        residual = rows @ x - self.data[parts]
        return 0.5 * share * float(residual @ residual), share * rows.T @ residual


@pytest.mark.parametrize("stop", [1, 7, 19])
def test_a_resumed_run_takes_the_same_batches(stop: int, tmp_path: Path) -> None:
    method = Adam(batches=Batches(30, 4, seed=2))
    first, cut = Parts(), Parts(stop)
    whole = minimise(first, np.zeros(5), method, iterations=20)
    with Journal(tmp_path / "journal", "adam") as journal, pytest.raises(KeyboardInterrupt):
        minimise(cut, np.zeros(5), method, iterations=20, journal=journal)
    rest = Parts()
    with Journal(tmp_path / "journal", "adam") as journal:
        again = minimise(rest, np.zeros(5), method, iterations=20, journal=journal)
    np.testing.assert_array_equal(again.x, whole.x)
    assert cut.taken + rest.taken == first.taken
    with Journal(tmp_path / "journal", "adam") as journal, pytest.raises(JournalError):
        minimise(rest, np.zeros(5), Adam(batches=Batches(30, 4, seed=3)), iterations=20, journal=journal)


def test_batches_lead_to_the_minimum() -> None:
    problem = Parts()
    result = minimise(problem, np.zeros(5), Adam(rate=0.02, batches=Batches(30, 10)), iterations=1500)
    everything = np.arange(30)
    assert problem(result.x, everything)[0] < 1e-3 * problem(np.zeros(5), everything)[0]


WRONG = {
    "no Hessian": (lambda: GaussNewton(None), "hessian"),
    "no products": (lambda: GaussNewton(rosenbrock_hessian, 0), "products"),
    "rate": (lambda: Adam(rate=0.0), "rate"),
    "batch": (lambda: Batches(3, 4), "size"),
    "class": (lambda: minimise(rosenbrock, X0, Adam), "method"),
}


@pytest.mark.parametrize(("call", "match"), WRONG.values(), ids=WRONG)
def test_refused(call: object, match: str) -> None:
    with pytest.raises((ParameterError, DiffsimError), match=match):
        call()  # type: ignore[operator]


WITHOUT_PRODUCTS: dict[str, object] = {
    "None": None,
    "number": 2.0,
    "function": rosenbrock,
    "list": [[1.0, 0.0], [0.0, 1.0]],
    **{f"array of {ndim} axes": np.ones((2,) * ndim) for ndim in (0, 1, 3)},
}


@pytest.mark.parametrize("result", WITHOUT_PRODUCTS.values(), ids=WITHOUT_PRODUCTS)
def test_a_hessian_without_products_is_refused(result: object) -> None:
    with pytest.raises(ParameterError, match="whose result has products, H @ v, got the result"):
        minimise(rosenbrock, X0, GaussNewton(lambda x: result))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, aslinearoperator], ids=["array", "sparse", "operator"])
@pytest.mark.parametrize("shape", [(3, 3), (1, 2), (2, 1), (2, 3), (1, 1), (0, 0)])
def test_a_hessian_of_another_size_is_refused(shape: tuple[int, int], form: Callable[[Array], object]) -> None:
    if 0 in shape and form is not np.asarray:
        pytest.skip("SciPy has no such matrix")
    with pytest.raises(
        ShapeError, match=re.escape(f"hessian: expected the shape {(X0.size, X0.size)}, a row and a column for each unknown, got {shape}")
    ):
        minimise(rosenbrock, X0, GaussNewton(lambda x: form(np.ones(shape))))


def test_gauss_newton_solves_each_system_to_a_given_residual() -> None:
    """Curvatures from 1 to 1e6: with a residual one iteration is enough, without one the conjugate gradients stop early."""
    curvatures, wanted = np.logspace(0, 6, 30), np.linspace(-1.0, 1.0, 30)

    def bowl(x: Array) -> tuple[float, Array]:
        return 0.5 * float(curvatures @ (x - wanted) ** 2), curvatures * (x - wanted)

    errors = []
    for residual in (1e-12, None):
        method = GaussNewton(lambda x: np.diag(curvatures), products=1000, residual=residual)
        errors.append(np.abs(minimise(bowl, np.zeros(30), method, iterations=1, tolerance=0.0).x - wanted).max())
    assert errors[0] < 1e-6 < 1e-2 < errors[1]
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(ParameterError, match="residual"):
            GaussNewton(lambda x: x, residual=wrong)
