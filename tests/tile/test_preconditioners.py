"""Preconditioners that a user gives to the linear systems within a step."""

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array, random_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator, spilu

import diffsim as ds
from diffsim.errors import ConvergenceError, DerivativeError, ParameterError, SingularError
from diffsim.expr import diff_centred, div, grad, laplacian
from diffsim.linear import Preconditioner, System
from diffsim.linear import sparse as sparse_systems
from tests.linear.test_system import centred

SHAPES = [((12,), (5,)), ((7, 9), (3, 4)), ((8, 8), (1, 8)), ((4, 5, 6), (2, 2, 3)), ((3, 3), (4, 4))]


def matrix_of(shape, seed=0):
    """A random matrix with a large diagonal."""
    size = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    return csr_array(random_array((size, size), density=0.3, rng=rng) + 10.0 * block_diag([[[1.0]]] * size))


def inverse_by_blocks(matrix, shape, block):
    """The dense matrix that BlockJacobi stands for, cell by cell."""
    cells = [tuple(i // b for i, b in zip(index, block, strict=True)) for index in np.ndindex(*shape)]
    whole, out = matrix.toarray(), np.zeros(matrix.shape)
    for each in set(cells):
        mine = np.array([k for k, c in enumerate(cells) if c == each])
        out[np.ix_(mine, mine)] = np.linalg.inv(whole[np.ix_(mine, mine)])
    return out


@pytest.mark.parametrize(("shape", "block"), SHAPES)
def test_the_inverses_of_blocks(shape, block) -> None:
    for scale in (1.0, 1e-30, 1e30):  # beyond the squares that f32 holds
        matrix = scale * matrix_of(shape)
        inverses = ds.BlockJacobi(block)(matrix, shape)
        expected = inverse_by_blocks(matrix, shape, block)
        x = np.random.default_rng(1).normal(size=matrix.shape[0])
        for by, product in ((expected @ x, inverses.matvec(x)), (expected.T @ x, inverses.rmatvec(x))):
            np.testing.assert_allclose(product, by, rtol=1e-5, atol=1e-6 * np.abs(by).max())
        np.testing.assert_array_equal(inverses.matvec(0 * x), 0)


def iterations(system, weights, given, monkeypatch, **keywords):
    """A solution, and how often its preconditioner was applied."""
    count = [0]
    inverses = sparse_systems.Iterated._inverses

    def counted(self, transposed):
        for product, most in inverses(self, transposed):

            def noted(values, product=product):
                count[0] += 1
                return product(values)

            yield noted, most

    monkeypatch.setattr(sparse_systems.Iterated, "_inverses", counted)
    solution = system.solve(weights, given, **keywords)
    monkeypatch.undo()
    return solution, count[0]


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize("transposed", [False, True])
def test_larger_blocks_take_fewer_iterations(method, transposed, monkeypatch) -> None:
    """Cells are coupled 100 times as much along axis 1; the larger the part of a line in a block, the fewer."""
    offsets = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
    skew = 0.2 if method == "bicgstab" else 0.0
    weights = [202.01, -1.0 - skew, -1.0 + skew, -100.0 - skew, -100.0 + skew]
    right = np.random.default_rng(2).normal(size=(20, 32))
    exact = System(offsets, centred(("zero", "zero")), "lu", None).solve(weights, right, transposed)
    counts = []
    for block in ((1, 1), (1, 4), (1, 16), (1, 32), (20, 8)):
        system = System(offsets, centred(("zero", "zero")), method, 1e-10, ds.BlockJacobi(block))
        solution, count = iterations(system, weights, right, monkeypatch, transposed=transposed)
        np.testing.assert_allclose(solution, exact, rtol=1e-6, atol=1e-8 * np.abs(exact).max())
        counts.append(count)
    assert counts[0] > 1.3 * counts[1] > 1.3**2 * counts[2] > 1.3**3 * counts[3], counts


class Wind(ds.Equation):
    """Heat in a wind, implicit in time: a matrix that is not symmetric, with weights that vary."""

    def __init__(self, method="auto", preconditioner=None):
        self.grid, self.dt, self.states = ds.Grid((6, 9), spacing=1.0), 0.5, {"T": ds.Variable("zero")}
        self.parameters = {"u": ds.Variable("mirror")}
        self.method, self.preconditioner = method, preconditioner

    def step(self, T, u):
        def operator(x):
            return x + self.dt * (u * diff_centred(x, 1) - laplacian(x))

        return {"T": ds.solve(operator, T, "zero", self.method, 1e-12, preconditioner=self.preconditioner)}


class Incomplete(Preconditioner):
    """Incomplete factors, as a class."""

    def __call__(self, matrix, shape):
        factors = spilu(matrix.tocsc())
        return LinearOperator(matrix.shape, factors.solve, lambda b: factors.solve(b, "T"))


def incomplete(matrix, shape):
    assert matrix.shape == (54, 54) and shape == (6, 9)
    return Incomplete()(matrix, shape)


@pytest.mark.parametrize("given", [ds.BlockJacobi((3, 4)), Incomplete(), incomplete, lambda matrix, shape: incomplete(matrix, shape)])
def test_steps_and_gradients_are_those_of_elimination(given) -> None:
    rng = np.random.default_rng(3)
    inputs = {"T": rng.normal(size=(6, 9)), "u": rng.normal(size=(6, 9))}
    loss = lambda solution: ((solution.final["T"] - 0.1) ** 2).sum()  # noqa: E731
    by = {}
    for name, equation in (("exact", Wind("lu")), ("found", Wind("bicgstab", given))):
        by[name] = ds.Simulation(equation, precision="f64").value_and_grad(loss, inputs, steps=3)
    assert by["found"][0] == pytest.approx(by["exact"][0], rel=1e-9)
    for name in inputs:
        np.testing.assert_allclose(by["found"][1][name], by["exact"][1][name], rtol=1e-7, atol=1e-9)


def test_newton_takes_one() -> None:
    class Porous(ds.Equation):
        def __init__(self, method, preconditioner):
            self.grid, self.dt, self.states = ds.Grid((8, 8), spacing=1.0), 0.2, {"h": ds.Variable("mirror")}
            self.method, self.preconditioner = method, preconditioner

        def step(self, h):
            def residual(x):
                return x + self.dt * (x**3 - div(grad(x))) - h

            return {"h": ds.newton(residual, h, method=self.method, preconditioner=self.preconditioner)}

    start = {"h": np.random.default_rng(4).uniform(0.5, 1.5, (8, 8))}
    solution, exact = (
        ds.Simulation(Porous(*settings), precision="f64").run(start, steps=2).final["h"]
        for settings in (("cg", ds.BlockJacobi((4, 2))), ("lu", None))
    )
    np.testing.assert_allclose(solution, exact, rtol=1e-9)


def test_auto_means_an_iteration() -> None:
    offsets = ((0,), (-1,), (1,))
    for weights, kind in (([4.0, -1.0, -1.0], "ConjugateGradients"), ([4.0, -1.0, -2.0], "BiConjugateGradients")):
        system = System(offsets, centred(("zero",)), "auto", None, ds.BlockJacobi(4))
        assert type(system._for(weights, np.ones(10))).__name__ == kind


def test_identities_differ() -> None:
    def of(given):
        return System(((0,),), centred(("zero",)), "cg", None, given).identity()

    texts = [of(preconditioner) for preconditioner in (None, ds.BlockJacobi(2), ds.BlockJacobi(3), incomplete)]
    assert len(set(texts)) == 4 and not any("0x" in text for text in texts)
    assert of(ds.BlockJacobi((2,))) == texts[1]
    assert System(((0,),), centred(("zero",)), "cg", None, ds.BlockJacobi(64)).room(1000) > 64 * 1000 * 8


def test_bad_ones_are_refused() -> None:
    for block in (0, (2, -1), (32, 32), (), "4"):
        with pytest.raises(ParameterError, match="block"):
            ds.BlockJacobi(block)
    with pytest.raises(ParameterError, match="has 1 axes, expected 2"):
        ds.BlockJacobi(4)(matrix_of((3, 4)), (3, 4))
    with pytest.raises(SingularError, match=r"BlockJacobi\(\(2,\)\) expected blocks"):
        ds.BlockJacobi(2)(csr_array(np.kron(np.eye(2), np.ones((2, 2)))), (4,))
    for preconditioner, method, message in (
        (4, "cg", "expected a function"),
        (ds.BlockJacobi, "cg", r"the class BlockJacobi, expected an object of it; call it, BlockJacobi\(\.\.\.\)"),
        (ds.BlockJacobi((2, 2)), "lu", "takes no preconditioner"),
        (lambda matrix, shape: np.eye(54), "bicgstab", "expected a scipy.sparse.linalg.LinearOperator of shape"),
        (lambda matrix, shape: LinearOperator((3, 3), lambda x: x), "bicgstab", r"of shape \(3, 3\)"),
    ):
        with pytest.raises(ParameterError, match=message):
            ds.Simulation(Wind(method, preconditioner), precision="f64").run({"T": np.ones((6, 9)), "u": np.ones((6, 9))}, steps=1)


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize("inverse", [np.zeros((54, 54)), np.full((54, 54), np.nan), np.random.default_rng(5).normal(size=(54, 54))])
def test_one_that_is_no_inverse_is_named(method, inverse) -> None:
    offsets = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
    system = System(offsets, centred(("zero", "zero")), method, 1e-12, lambda matrix, shape: aslinearoperator(inverse * (shape == (6, 9))))
    with pytest.raises(ConvergenceError, match=f"{method} expected a residual.*; give another preconditioner=, or none, raise tolerance="):
        system.solve([4.5, -1.0, -1.0, -1.0, -1.0], np.random.default_rng(6).normal(size=(6, 9)))


def test_a_block_that_only_rounding_inverts_gives_no_solution() -> None:
    """The mean is open, which the whole grid as a block does not notice: its f32 inverse is made of roundings."""
    right = np.random.default_rng(7).normal(size=7)
    weights, sides = [2.0, -1.0, -1.0], centred(("periodic",))
    fine = System(((0,), (-1,), (1,)), sides, "cg", 1e-10, ds.BlockJacobi(3)).solve(weights, right - right.mean())
    assert abs(fine.mean()) < 1e-12
    with pytest.raises((SingularError, ConvergenceError), match="preconditioner"):
        System(((0,), (-1,), (1,)), sides, "cg", 1e-10, ds.BlockJacobi(7)).solve(weights, right - right.mean())


def test_a_gradient_needs_the_transpose() -> None:
    def forward_only(matrix, shape):
        return LinearOperator(matrix.shape, lambda x: x)

    simulation = ds.Simulation(Wind("bicgstab", forward_only), precision="f64")
    inputs = {"T": np.ones((6, 9)), "u": np.ones((6, 9))}
    simulation.run(inputs, steps=1)
    with pytest.raises((ParameterError, DerivativeError), match="rmatvec"):
        simulation.value_and_grad(lambda solution: solution.final["T"].sum(), inputs, steps=1)
