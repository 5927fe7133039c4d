"""Kernels for systems on small periodic boxes: their transforms, and solutions in any place of memory."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim import engine
from diffsim.boundary import Rules, bound
from diffsim.checkpoint import Policy
from diffsim.errors import SingularError
from diffsim.expr import laplacian
from diffsim.linear.codelets import Code, Codelet, Value, complex_modes, hartley, real_modes
from diffsim.linear.periodic import PeriodicKernel, factors, line, periodic_kernel
from diffsim.linear.stencil import Stencil
from diffsim.linear.system import System

LENGTHS = [n for n in range(1, 33) if n // (n & -n) <= 15]
NEXT = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
CLOSE = {"f32": 2e-6, "f64": 1e-14}


def value(codelet: Codelet, x: Any) -> np.ndarray:
    """Values of a program for some numbers."""
    values: list[Any] = []
    for operation in codelet.operations:
        parts = [values[a] for a in operation.arguments] if operation.kind != "input" else [x[operation.arguments[0]]]
        step = {
            "input": lambda a: a,
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a - b,
            "multiply": lambda a, factor=operation.factor: factor * a,
        }
        values.append(step[operation.kind](*parts))
    return np.array([values[k] for k in codelet.outputs])


@pytest.mark.parametrize("n", LENGTHS)
def test_codelets_are_transforms_of_fourier_and_hartley(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n)
    hat = np.fft.fft(x)

    def whole(code: Code, values: list[Value]) -> list[Value]:
        of = hartley(code, real_modes(code, values), n)
        return [of[k] for k in range(n)]

    codelet = Codelet.of(n, whole)
    np.testing.assert_allclose(value(codelet, x), hat.real - hat.imag, atol=1e-13 * n)
    np.testing.assert_allclose(value(codelet, value(codelet, x)), n * x, atol=1e-13 * n * n)
    z = rng.standard_normal(2 * n)

    def both(code: Code, values: list[Value]) -> list[Value]:
        modes = dict(complex_modes(code, list(zip(values[::2], values[1::2], strict=True))))
        return [part for k in range(n) for part in modes[k]]

    coefficients = value(Codelet.of(2 * n, both), z)
    np.testing.assert_allclose(coefficients[::2] + 1j * coefficients[1::2], np.fft.fft(z[::2] + 1j * z[1::2]), atol=1e-13 * n)


def test_even_lengths_take_fewer_operations_than_their_sums() -> None:
    """A codelet of 16 numbers by its sums would take 240 additions."""
    operations = line(16, 1).whole.operations
    assert sum(each.kind in ("add", "subtract") for each in operations) < 80


def drawn(number: int) -> tuple[tuple[int, ...], str, tuple[float, ...]]:
    """A box, a precision, and the numbers of its stencil: the cell itself, and its neighbours along each axis."""
    rng = np.random.default_rng(number)
    ndim = int(rng.integers(2, 4))
    sizes = [n for n in range(2, 129 if ndim == 2 else 29) if factors(n)]
    shape = tuple(int(n) for n in rng.choice(sizes, ndim))
    axes = rng.uniform(0.2, 2.0, ndim) * (rng.random(ndim) > 0.2)  # along some axes nothing may be joined
    axes[-1] = max(axes[-1], 0.3)
    centre = float(rng.choice([0.0, 0.5]))
    return shape, str(rng.choice(["f32", "f64"])), (-2.0 * float(axes.sum()) - centre, *map(float, axes))


@pytest.mark.parametrize("number", range(12))
def test_solutions_of_drawn_boxes(number: int) -> None:
    shape, precision, (centre, *axes) = drawn(number)
    engine.init(threads=1)
    steps = [tuple(int(a == axis) * sign for a in range(len(shape))) for axis in range(len(shape)) for sign in (1, -1)]
    offsets, weights = [(0,) * len(shape), *steps], (centre, *(w for w in axes for _ in range(2)))
    rules = rules_of(shape)
    b = np.random.default_rng(number).standard_normal(shape).astype(engine.PRECISIONS[precision])
    if abs(centre + 2 * sum(axes)) < 1e-12:  # a mean along all joined axes is out of range
        joined = tuple(axis for axis, w in enumerate(axes) if w)
        b = (b - b.mean(axis=joined, keepdims=True, dtype=np.float64)).astype(b.dtype)
    system = System(offsets, rules, "direct", None)
    x = system.solve(weights, b)
    prepared = system._prepared
    assert isinstance(prepared._kernels[b.dtype], PeriodicKernel)  # type: ignore[union-attr]
    back = Stencil(shape, offsets, rules).apply(weights, x.astype(np.float64))
    assert np.abs(back - b).max() <= CLOSE[precision] * (abs(centre) + 2 * sum(axes)) * max(np.abs(x).max(), 1.0)
    np.testing.assert_array_equal(x, system.solve(weights, b, transposed=True))


@pytest.mark.parametrize("shape", [(8, 16), (6, 5, 32), (64, 8), (128, 256)])
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_storage_is_read_and_written_in_place(shape: tuple[int, ...], precision: str) -> None:
    engine.init(threads=1)
    dtype = np.dtype(engine.PRECISIONS[precision])
    kernel = poisson(shape, dtype)
    lanes, rng = kernel.lanes, np.random.default_rng(0)

    def stored(far: int) -> tuple[np.ndarray, np.ndarray]:
        padded = engine.aligned([n + 2 * far for n in shape[:-1]] + [shape[-1] + 2 * far * lanes], dtype)
        padded[...] = np.nan
        inner = (*[slice(far, far + n) for n in shape[:-1]], slice(far * lanes, far * lanes + shape[-1]))
        return padded, padded[inner]

    _, right_side = stored(2)
    whole, solution = stored(1)
    right_side[...] = rng.standard_normal(shape)
    places = kernel.places(right_side, solution)
    assert places is not None
    solve = kernel.between(*places)
    for _ in range(2):  # the second time of other values
        right_side *= 1.5
        part, size = solve()
        expected, *norms = kernel.solve(right_side)
        np.testing.assert_array_equal(solution, expected)
        assert [part, size] == norms
        assert size == pytest.approx(np.linalg.norm(right_side.astype(float)), rel=1e-5)
        assert part == pytest.approx(abs(right_side.sum(dtype=float)) / math.sqrt(right_side.size), rel=1e-3)
    assert np.isnan(whole).sum() == whole.size - solution.size
    kernel.between(places[0], places[0])()
    np.testing.assert_array_equal(right_side, expected)


def test_storage_whose_rows_are_no_whole_tiles_is_copied() -> None:
    engine.init(threads=1)
    kernel = poisson((8, 16), np.dtype(float))
    shifted = engine.aligned((8, 32), np.float64)[:, 1:17]
    assert kernel.places(shifted, engine.aligned((8, 16), np.float64)) is None
    assert poisson((8, 15), np.dtype(float)).places(np.zeros((8, 15)), np.zeros((8, 15))) is None
    expected, *_ = kernel.solve(np.arange(128.0).reshape(8, 16))
    shifted[...] = np.arange(128.0).reshape(8, 16)
    np.testing.assert_array_equal(kernel.solve(shifted)[0], expected)


def test_a_kernel_lives_through_a_new_start_of_the_engine() -> None:
    engine.init(threads=1)
    kernel, b = poisson((8, 16), np.dtype(float)), np.random.default_rng(0).standard_normal((8, 16))
    before = kernel.solve(b)[0]
    engine.init(threads=1, anew=True)
    np.testing.assert_array_equal(kernel.solve(b)[0], before)


def test_a_right_side_with_a_mean_is_refused() -> None:
    engine.init(threads=1)
    system = System(NEXT, rules_of((16, 8)), "direct", None)
    b = np.random.default_rng(0).standard_normal((16, 8))
    system.solve((-4.0, 1.0, 1.0, 1.0, 1.0), b - b.mean())
    with pytest.raises(SingularError, match="subtract its mean"):
        system.solve((-4.0, 1.0, 1.0, 1.0, 1.0), b)


@pytest.mark.parametrize(
    ("shape", "centre", "upwind", "kept"),
    [((16, 34), -4.0, 0.0, True), ((512, 256), -4.0, 0.0, True), ((16, 16), -4.0, 0.3, True), ((16, 16), -4.0, 0.0, False)],
    ids=["a large odd factor", "many cells", "no symmetry", "weights of a run"],
)
def test_other_systems_have_no_kernel(shape: tuple[int, ...], centre: float, upwind: float, kept: bool) -> None:
    engine.init(threads=1)
    system = System(NEXT, rules_of(shape), "direct", None)
    weights = (centre - 0.5, 1.0 + upwind, 1.0 - upwind, 1.0, 1.0)
    b = np.random.default_rng(0).standard_normal(shape)
    x = system.solve(weights if kept else list(weights), b)
    assert not any(system._prepared._kernels.values())  # type: ignore[union-attr]
    assert np.abs(Stencil(shape, NEXT, rules_of(shape)).apply(weights, x) - b).max() < 1e-11


def test_a_flow_by_kernels_is_that_by_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    def product(kernels: bool) -> tuple[Any, list[Any]]:
        kernels_used: list[Any] = []

        def recorded(*arguments: Any) -> PeriodicKernel | None:
            kernels_used.append(periodic_kernel(*arguments) if kernels else None)
            return kernels_used[-1]

        with monkeypatch.context() as changed:
            changed.setattr("diffsim.linear.transforms.periodic_kernel", recorded)
            equation = ds.solvers.NavierStokes(ds.Grid((16, 24), spacing=1.0), dt=0.5, method="rk3")
            simulation = ds.Simulation(equation, wrt=["nu", "u", "v"], precision="f64")
            rng = np.random.default_rng(3)
            start = {"nu": 0.05, **{name: 0.2 * rng.standard_normal((16, 24)) for name in "uv"}}
            final, pullback = simulation.vjp(start, steps=5)
            seed = {name: rng.standard_normal((16, 24)) for name in "uv"}
            return (final.final, pullback(ds.Solution(traces={}, final=seed))), kernels_used

    (state, gradient), kernels_used = product(True)
    (expected, wanted), none = product(False)
    assert all(isinstance(each, PeriodicKernel) for each in kernels_used) and kernels_used and not any(none)
    for name in "uvp":
        np.testing.assert_allclose(state[name], expected[name], atol=1e-13)
    for name in ("nu", "u", "v"):
        np.testing.assert_allclose(gradient[name], wanted[name], rtol=1e-11, atol=1e-13)


class Coupled(ds.Equation):
    """Two implicit solves a step, of fields without halos."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.grid, self.dt = ds.Grid(shape, spacing=1.0), 0.3
        self.states = {"T": ds.Variable("periodic"), "S": ds.Variable("periodic")}

    def step(self, T: Any, S: Any) -> dict[str, Any]:
        A = ds.solve(lambda x: x - self.dt * laplacian(x), T + 0.1 * S, boundary="periodic")
        B = ds.solve(lambda x: x - self.dt * laplacian(x), A * S, boundary="periodic")
        return {"T": 0.9 * A + 0.02 * B * S, "S": 0.9 * S + 0.1 * B * A}


@pytest.mark.parametrize(
    ("shape", "precision"), [((16, 24), "f64"), ((16, 16), "f64"), ((9, 12), "f64"), ((16, 24), "f32"), ((6, 8, 12), "f64")]
)
def test_fields_without_halos_are_those_by_scipy(shape: tuple[int, ...], precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field is a part of a larger array, at another level in each step: a kernel must not run on the level of another step."""
    rng = np.random.default_rng(5)
    start, seed = ({name: rng.standard_normal(shape) for name in "TS"} for _ in range(2))

    def products(by_kernels: bool) -> list[Any]:
        with monkeypatch.context() as changed:
            if not by_kernels:
                changed.setattr("diffsim.linear.transforms.periodic_kernel", lambda *arguments: None)
            simulation = ds.Simulation(Coupled(shape), wrt=["T", "S"], precision=precision)  # type: ignore[arg-type]
            out = [dict(simulation.run(start, steps).final) for steps in (1, 2, 7)]
            for steps in (2, 7, 3):
                solution, pullback = simulation.vjp(start, steps, checkpoint=Policy(schedule="store_all"))
                out += [dict(solution.final), pullback(ds.Solution(traces={}, final=seed))]
        return out

    for values, wanted in zip(products(True), products(False), strict=True):
        for name in "TS":
            scale = np.abs(wanted[name]).max()
            assert np.abs(values[name] - wanted[name]).max() < 50 * CLOSE[precision] * scale


def test_kernels_do_not_keep_storage_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels: list[PeriodicKernel] = []

    def recorded(*arguments: Any) -> PeriodicKernel | None:
        kernel = periodic_kernel(*arguments)
        assert kernel is not None
        kernels.append(kernel)
        return kernel

    monkeypatch.setattr("diffsim.linear.transforms.periodic_kernel", recorded)
    simulation = ds.Simulation(Coupled((16, 24)), wrt=["T"], precision="f64")
    counts = []
    for steps in (4, 8, 16, 32, 64):
        simulation.vjp({"T": np.ones((16, 24))}, steps, checkpoint=Policy(schedule="store_all"))[1](
            ds.Solution(final={"T": np.ones((16, 24))})
        )
        gc.collect()
        counts.append(sum(len(kernel._present()._bound) for kernel in kernels))
    assert kernels and max(counts[1:]) == min(counts[1:])


@pytest.mark.parametrize("centre", [1e-10, 1e-6, 1.0])
def test_mixed_terms_are_not_dropped(centre: float) -> None:
    """With a small centre the number of the constant field is large, and differences between those of other waves are not small."""
    offsets = (*NEXT, (1, 1), (-1, -1), (1, -1), (-1, 1))
    right_side = np.random.default_rng(0).standard_normal((16, 16))
    right_side -= right_side.mean()
    for mixed in (1e-3, 0.1):
        system = System(offsets, rules_of((16, 16)), "direct", None)
        weights = (4 + centre, -1.0, -1.0, -1.0, -1.0, -mixed, -mixed, mixed, mixed)
        x = system.solve(weights, right_side)
        residual = Stencil((16, 16), offsets, rules_of((16, 16))).apply(weights, x - x.mean()) - right_side
        assert np.abs(residual).max() < 1e-9


def poisson(shape: tuple[int, ...], dtype: np.dtype) -> PeriodicKernel:
    """The kernel of Poisson's equation with next neighbours."""
    waves = np.meshgrid(*(2 * np.cos(2 * np.pi * np.fft.fftfreq(n)) - 2 for n in shape), indexing="ij")
    numbers = sum(waves)
    inverse = np.where(numbers == 0, 0.0, 1 / np.where(numbers == 0, 1.0, numbers))
    kernel = periodic_kernel(shape, dtype, inverse[..., : shape[-1] // 2 + 1], True)
    assert kernel is not None
    return kernel


def rules_of(shape: tuple[int, ...]) -> Rules:
    return bound(("periodic",) * len(shape), (0,) * len(shape), (1.0,) * len(shape))
