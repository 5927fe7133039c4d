"""Arrays of other packages come in, and those of a solution go out, without a copy."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.base.arguments import host_array, real_array
from diffsim.errors import DerivativeError, ParameterError

STEPS = 5
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


class Exported:
    """An array that offers its memory by DLPack alone, from a device."""

    def __init__(self, values: numpy.ndarray, device: int = 1) -> None:
        self.values, self.device = values, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


KINDS = {
    "torch": torch.from_numpy,
    "jax": lambda values: jax.numpy.asarray(values, numpy.float32),  # JAX has f32 unless it is asked for f64
    "dlpack": Exported,
}


@pytest.fixture(scope="module")
def rod() -> ds.Simulation:
    heat = ds.solvers.Heat(ds.Grid((9, 8), spacing=0.05), dt=0.1)
    return ds.Simulation(heat, receivers={"T": [[0.2, 0.1], [0.3, 0.3]]}, precision="f32")


@pytest.fixture
def inputs() -> dict[str, numpy.ndarray]:
    rng = numpy.random.default_rng(0)
    return {name: rng.uniform(4e-3, 6e-3, (9, 8)).astype(numpy.float32) for name in ("kappa", "T")}


@pytest.mark.parametrize("kind", KINDS)
def test_they_come_in_without_a_copy(kind: str) -> None:
    values = KINDS[kind](numpy.arange(100, dtype=numpy.float32))
    taken = real_array("x", values, numpy.float32)
    where = {"torch": lambda x: x.data_ptr(), "jax": lambda x: x.unsafe_buffer_pointer(), "dlpack": lambda x: x.values.ctypes.data}
    assert taken.ctypes.data == where[kind](values)
    assert numpy.array_equal(taken, numpy.arange(100))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_and_its_gradient_take_them(kind: str, rod: ds.Simulation, inputs: dict[str, numpy.ndarray]) -> None:
    foreign = {name: KINDS[kind](value) for name, value in inputs.items()}
    wanted = rod.run(inputs, STEPS)
    assert numpy.array_equal(rod.run(foreign, STEPS).traces["T"], wanted.traces["T"])

    def by_hand(solution: ds.Solution) -> Any:
        return 1.0, ds.Solution(final={"T": KINDS[kind](numpy.array(solution.final["T"]))}, traces={})

    _, gradient = rod.value_and_grad(lambda result: 0.5 * np.sum(result.final["T"] ** 2), inputs, STEPS)
    _, result = rod.value_and_grad(by_hand, foreign, STEPS)
    assert all(numpy.array_equal(result[name], gradient[name]) for name in gradient)

    def outer(kappa: Any) -> Any:
        return np.sum(rod.run({"kappa": kappa, "T": foreign["T"]}, STEPS).final["T"] ** 2)

    assert numpy.allclose(ds.grad(outer)(inputs["kappa"]), 2 * gradient["kappa"], rtol=1e-5)


TRANSFORMS = {
    "grad": lambda x, v: ds.grad(lambda x: np.sum(x**3))(x),
    "vjp": lambda x, v: ds.vjp(lambda x: x**3, x)[1](v)[0],
    "jvp": lambda x, v: ds.jvp(lambda x: x**3, (x,), (v,))[1],
    "linearize": lambda x, v: ds.linearize(lambda x: x**3, x)[1](v),
    "jacrev": lambda x, v: ds.jacrev(lambda x: x**3)(x),
    "jacfwd": lambda x, v: ds.jacfwd(lambda x: x**3)(x),
    "jacobian": lambda x, v: ds.jacobian(lambda x: x**3)(x),
    "hessian": lambda x, v: ds.hessian(lambda x: np.sum(x**3))(x),
    "hvp": lambda x, v: ds.hvp(lambda x: np.sum(x**3), x, v),
    "linear_operator": lambda x, v: ds.linear_operator(lambda x: x**3, x) @ numpy.arange(3.0),
    "check_grads": lambda x, v: ds.check_grads(lambda x: x**3, (x,)) or numpy.zeros(()),
    "in a dict": lambda x, v: ds.grad(lambda p: np.sum(p["x"] ** 3))({"x": x})["x"],
    "a factor": lambda x, v: ds.grad(lambda y: np.sum(y**2 * x))(numpy.ones(3, numpy.float32)),
    "a factor before": lambda x, v: ds.grad(lambda y: (x / y - x + (x >= y) * v).sum())(numpy.ones(3, numpy.float32)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("kind", ["torch", "jax"])
def test_transformations_take_them(kind: str, name: str) -> None:
    x, v = numpy.array([0.5, -1.0, 2.0], numpy.float32), numpy.array([1.0, 2.0, -1.0], numpy.float32)
    wanted = numpy.asarray(TRANSFORMS[name](x, v))
    result = TRANSFORMS[name](KINDS[kind](x), KINDS[kind](v))
    assert type(result) in (numpy.ndarray, numpy.float32)
    assert result.dtype == wanted.dtype
    assert numpy.array_equal(result, wanted)


def test_a_tape_holds_no_memory_of_theirs() -> None:
    """Edits of a tensor after the call do not reach a pullback."""
    x = torch.tensor([1.0, 2.0])
    _, pullback = ds.vjp(lambda x: x**2, x)
    x += 5.0
    assert numpy.array_equal(pullback(numpy.ones(2, numpy.float32))[0], [2.0, 4.0])


def test_a_factor_that_requires_a_gradient_is_refused() -> None:
    with pytest.raises(ParameterError, match="requires a gradient, which would be lost"):
        ds.grad(lambda x: np.sum(x * torch.ones(3, requires_grad=True)))(numpy.ones(3))


def test_values_of_another_package_are_no_derivative_of_zero() -> None:
    with pytest.raises(DerivativeError, match="returned Tensor"):
        ds.grad(lambda x: torch.ones(3).sum())(numpy.ones(3))


@pytest.mark.parametrize("kind", ["torch", "dlpack"])
def test_a_pullback_keeps_its_inputs(kind: str, rod: ds.Simulation, inputs: dict[str, numpy.ndarray]) -> None:
    """The user may edit the memory that came in, before the reverse sweep."""
    cotangents = ds.Solution(final={"T": numpy.ones((9, 8))})
    wanted = rod.vjp(inputs, STEPS)[1](cotangents)
    _, pullback = rod.vjp({name: KINDS[kind](value) for name, value in inputs.items()}, STEPS)
    for value in inputs.values():
        value[...] = 1e-3
    rod.run({name: numpy.full((9, 8), 2e-3) for name in inputs}, STEPS)  # takes the storage, so the forward run is repeated
    gradient = pullback(cotangents)
    assert all(numpy.array_equal(gradient[name], wanted[name]) for name in wanted)


def test_a_solution_goes_out_without_a_copy(rod: ds.Simulation, inputs: dict[str, numpy.ndarray]) -> None:
    solution = rod.run(inputs, STEPS)
    for values in (solution.final["T"], solution.traces["T"]):
        assert numpy.shares_memory(numpy.from_dlpack(values), values)
        assert torch.from_dlpack(values).data_ptr() == values.ctypes.data
    before = solution.final["T"].copy(), solution.traces["T"].copy()
    rod.run({name: 0.5 * value for name, value in inputs.items()}, STEPS)  # in the same storage
    assert numpy.array_equal(solution.final["T"], before[0]) and numpy.array_equal(solution.traces["T"], before[1])


def test_a_differentiated_array_does_not_go_out() -> None:
    def loses(x: Any) -> Any:
        return np.sum(numpy.from_dlpack(x))

    with pytest.raises(DerivativeError, match="would lose its derivative"):
        ds.grad(loses)(numpy.ones(3))
    assert numpy.array_equal(numpy.from_dlpack(np.array([1.0, 2.0]).__copy__()), [1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(3, requires_grad=True), r"requires a gradient.*diffsim\.torch\.Module"),
        (lambda: torch.ones(3, device="meta"), r"torch\.Tensor that NumPy cannot read.*\.cpu\(\)"),
        (lambda: torch.ones(3, dtype=torch.bfloat16), r"a type that NumPy has, got a torch\.Tensor of bfloat16; .*\.float\(\)"),
        (lambda: Exported(numpy.ones(3), device=2), "memory of another device"),
        (lambda: jax.numpy.ones(3, "bfloat16"), r"a type that NumPy has, got bfloat16; .*astype"),
    ],
)
def test_arrays_that_cannot_be_taken_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        real_array("x", make())


def test_a_value_that_jax_traces_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"jaxlib|jax.*diffsim\.jax\.run"):
        jax.jit(lambda x: host_array("x", x))(jax.numpy.ones(3))
