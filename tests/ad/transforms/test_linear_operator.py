"""Derivatives as linear operators of SciPy's, through array programs and simulations."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, eigsh, lsqr, svds

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import DerivativeError, ShapeError

STEPS = 30
ROUNDOFF = 1e-11
"""Relative; two sweeps of the same operations in another order."""
ITERATIVE = 1e-6
"""Relative; the tolerance that SciPy's solvers get."""

rng = numpy.random.default_rng(0)


@pytest.fixture(scope="module")
def rod() -> ds.Simulation:
    heat = ds.solvers.Heat(ds.Grid((12, 10), spacing=0.05), dt=0.1)
    return ds.Simulation(heat, receivers={"T": [[0.2, 0.1], [0.35, 0.3], [0.5, 0.2]]})


@pytest.fixture(scope="module")
def start() -> dict[str, numpy.ndarray]:
    return {"kappa": 5e-3 + 1e-3 * rng.random((12, 10)), "T": rng.standard_normal((12, 10))}


@pytest.fixture(scope="module")
def jacobian(rod: ds.Simulation, start: dict[str, numpy.ndarray]) -> Any:
    return ds.linear_operator(lambda x: rod.run(x, STEPS, checkpoint=4).traces["T"], start)


@pytest.fixture(scope="module")
def dense(rod: ds.Simulation, start: dict[str, numpy.ndarray]) -> numpy.ndarray:
    """The same matrix row by row, by the simulation's own pullback."""
    _, pullback = rod.vjp(start, STEPS)
    shape = STEPS + 1, 3
    rows = []
    for unit in numpy.eye(numpy.prod(shape)):
        bars = pullback(ds.Solution(traces={"T": unit.reshape(shape)}))
        rows.append(numpy.concatenate([bars["kappa"].ravel(), bars["T"].ravel()]))
    return numpy.array(rows)


def close(found: Any, wanted: Any, tolerance: float = ROUNDOFF) -> bool:
    return bool(numpy.abs(found - wanted).max() <= tolerance * numpy.abs(wanted).max())


def test_products_are_those_of_the_matrix(jacobian: Any, dense: numpy.ndarray) -> None:
    assert isinstance(jacobian, LinearOperator)
    assert jacobian.shape == dense.shape and jacobian.dtype == numpy.float64
    v, w = rng.standard_normal(dense.shape[1]), rng.standard_normal(dense.shape[0])
    assert close(jacobian @ v, dense @ v)
    assert close(jacobian.H @ w, dense.T @ w)
    assert close(jacobian.T @ w, dense.T @ w)
    assert close((jacobian.H @ jacobian) @ v, dense.T @ (dense @ v))
    weights = aslinearoperator(numpy.diag(numpy.arange(1.0, len(w) + 1)))
    assert close((jacobian.H @ weights @ jacobian) @ v, dense.T @ (numpy.arange(1.0, len(w) + 1) * (dense @ v)))
    several = rng.standard_normal((dense.shape[1], 2))
    assert close(jacobian @ several, dense @ several)
    assert close((2.0 * jacobian.T) @ w, 2.0 * dense.T @ w)


def test_the_dot_product_test_holds(jacobian: Any) -> None:
    for _ in range(3):
        v, w = rng.standard_normal(jacobian.shape[1]), rng.standard_normal(jacobian.shape[0])
        assert abs((jacobian @ v) @ w - v @ (jacobian.H @ w)) < 1e-12 * abs(jacobian @ v) @ abs(w)


def test_solvers_of_scipy_take_it(jacobian: Any, dense: numpy.ndarray) -> None:
    target = rng.standard_normal(dense.shape[0])
    solution = lsqr(jacobian, target, damp=0.3, atol=1e-12, btol=1e-12)[0]
    damped = dense.T @ dense + 0.09 * numpy.eye(dense.shape[1])
    assert close(solution, numpy.linalg.solve(damped, dense.T @ target), ITERATIVE)
    hessian = jacobian.H @ jacobian + 0.09 * aslinearoperator(numpy.eye(dense.shape[1]))
    assert close(cg(hessian, dense.T @ target, rtol=1e-10)[0], numpy.linalg.solve(damped, dense.T @ target), ITERATIVE)
    values = numpy.linalg.svd(dense, compute_uv=False)[:3]
    assert close(numpy.sort(svds(jacobian, k=3, rng=0)[1])[::-1], values, ITERATIVE)
    assert close(numpy.sort(eigsh(jacobian.H @ jacobian, k=3, v0=numpy.ones(dense.shape[1]))[0])[::-1], values**2, ITERATIVE)


def test_vectors_take_the_form_of_argument_and_value(jacobian: Any, start: dict[str, numpy.ndarray]) -> None:
    v, w = rng.standard_normal(jacobian.shape[1]), rng.standard_normal(jacobian.shape[0])
    record = jacobian.argument(v)
    assert record.keys() == start.keys() and record["T"].shape == (12, 10)
    assert numpy.array_equal(numpy.concatenate([record["kappa"].ravel(), record["T"].ravel()]), v)
    assert numpy.array_equal(jacobian.result(w), w.reshape(jacobian.value.shape))
    with pytest.raises(ShapeError, match=r"expected \(240,\)"):
        jacobian.argument(v[1:])


def test_the_hessian_of_a_loss_is_the_operator_of_its_gradient(rod: ds.Simulation, start: dict[str, numpy.ndarray]) -> None:
    def loss(kappa: Any) -> Any:
        return np.sum(rod.run({**start, "kappa": kappa}, STEPS).final["T"] ** 3)

    hessian = ds.linear_operator(ds.grad(loss), start["kappa"])
    v = rng.standard_normal(120)
    wanted = ds.hvp(loss, start["kappa"], v.reshape(12, 10)).ravel()
    assert close(hessian @ v, wanted)
    assert close(hessian.H @ v, wanted)  # reverse over reverse


def test_a_later_edit_of_the_point_changes_nothing() -> None:
    x = numpy.array([1.0, 2.0, 3.0])
    operator = ds.linear_operator(lambda x: x**2, x)
    x[:] = 0
    assert numpy.array_equal(operator @ numpy.ones(3), [2.0, 4.0, 6.0])
    assert numpy.array_equal(operator.H @ numpy.ones(3), [2.0, 4.0, 6.0])


def test_results_share_no_memory_with_vectors() -> None:
    """The solvers of SciPy's edit vectors in place."""
    identity = ds.linear_operator(lambda x: x, numpy.ones(3))
    v = numpy.array([1.0, 2.0, 3.0])
    assert not numpy.shares_memory(identity @ v, v) and not numpy.shares_memory(identity.H @ v, v)


def test_types_are_those_of_arrays_and_numbers() -> None:
    single = ds.linear_operator(lambda x: (x[0] * x, np.sum(x)), numpy.ones(3, numpy.float32))
    assert single.shape == (4, 3) and single.dtype == numpy.float32
    assert (single @ numpy.ones(3)).dtype == numpy.float32
    number = ds.linear_operator(lambda x: x**3, 2.0)
    assert number.shape == (1, 1) and (number @ [1.0]).tolist() == [12.0] and (number.H @ [2.0]).tolist() == [24.0]


@pytest.mark.parametrize(
    ("f", "x", "text"),
    [
        (lambda x: x, numpy.arange(3), "the argument holds int64"),
        (lambda x: x, numpy.ones(3) * 1j, "the argument holds complex128"),
        (lambda x: {"a": x, "b": "text"}, numpy.ones(3), "the value holds"),
        (lambda x: np.fft.fft(x), numpy.ones(3), "the value holds complex128"),
    ],
)
def test_functions_without_a_real_derivative_are_refused(f: Any, x: Any, text: str) -> None:
    with pytest.raises(DerivativeError, match=text):
        ds.linear_operator(f, x)
