"""A kernel as a function of arrays: what it takes, what it returns, what it leaves alone. Annotations here are strings."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import diffsim as ds
from diffsim.ad.userkernel.kernel import UserKernel
from diffsim.errors import KernelError, ParameterError, ShapeError
from tests.language import ti

ROOT = Path(__file__).parents[3]
A1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
ANY = ti.types.ndarray()
FACTOR = 2.0


@ds.kernel(reads=("x", "k"), writes={"y": "x"})
def flux(x: ti.types.ndarray(dtype=ti.f64, ndim=1), y: ti.types.ndarray(dtype=ti.f64, ndim=1), k: ti.f64):
    for i in x:
        y[i] = k * x[i] ** 2


@ds.kernel(reads=("x",), writes={"low": lambda x: (x.shape[0] - 1, 2), "count": (3,)})
def shapes(x: A1, low: ANY, count: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    for i, j in low:
        low[i, j] = x[i] + x[i + 1]
        ti.atomic_add(count[0], 1)


@ds.kernel(reads=("v",), writes=("x",))
def push(x: A1, v: A1):
    for i in x:
        x[i] += v[i]


@ds.kernel(reads=("x", "n", "a"), writes={"y": "x"})
def typed(x: ANY, n: int, a: float, y: ANY):
    for i in x:
        s = 0.0
        for _ in range(3):
            s += x[i] * 0.1
        y[i] = s + a * n + 1 / 3


@ds.kernel(reads=("x",), writes={"y": "x"})
def scaled(x: A1, y: A1):
    for i in x:
        y[i] = FACTOR * x[i]


def test_functional_and_inputs_stay() -> None:
    x = np.linspace(1, 2, 7)
    kept = x.copy()
    assert np.array_equal(flux(x, k=2.0), 2 * x**2)
    assert np.array_equal(flux(k=3, x=x), 3 * x**2)
    assert np.array_equal(x, kept)


def test_in_place_parameters_are_copied() -> None:
    x, v = np.arange(3.0), np.ones(3)
    assert np.array_equal(push(x, v), x + 1)
    assert np.array_equal(x, np.arange(3.0))


def test_several_outputs_shapes_and_types() -> None:
    low, count = shapes(np.arange(4.0))
    assert low.shape == (3, 2) and low.dtype == np.float64 and np.array_equal(low[:, 1], [1.0, 3.0, 5.0])
    assert count.dtype == np.int32 and np.array_equal(count, [6, 0, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_untyped_numbers_have_the_arrays_type(dtype: type) -> None:
    """With f32 literals and locals an f64 result would be off in the eighth digit; the session's precision is f64."""
    x = np.linspace(1, 2, 5).astype(dtype)
    y = typed(x, 2, 0.7)
    s = x * dtype(0.1) + x * dtype(0.1) + x * dtype(0.1)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, s + dtype(0.7) * 2 + dtype(1) / dtype(3), rtol=2 * np.finfo(dtype).eps)


def test_strided_arrays_lists_and_narrow_types() -> None:
    x = np.arange(10.0)
    assert np.array_equal(flux(x[::2], 1.0), x[::2] ** 2)
    assert np.array_equal(flux([1, 2, 3], 1.0), [1.0, 4.0, 9.0])
    assert np.array_equal(flux(np.float32([0.5]), 1.0), [0.25])
    grid = np.arange(6.0).reshape(2, 3).T
    assert np.array_equal(typed_2d(grid), grid + 1)


@ds.kernel(reads=("x",), writes={"y": "x"})
def typed_2d(x: ti.types.ndarray(dtype=ti.f64, ndim=2), y: ti.types.ndarray(dtype=ti.f64, ndim=2)):
    for i, j in x:
        y[i, j] = x[i, j] + 1


def test_a_captured_number_that_changed_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scaled(np.ones(1)) == 2.0
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert scaled(np.ones(1)) == 5.0
    assert scaled.pullback([np.ones(1)], [np.ones(1)], [np.ones(1)])[0] == 5.0


def test_a_layer_may_take_the_place_of_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UserKernel, "_apply", lambda self, inputs: [(self.__name__, inputs)])
    assert flux("traced", k=1.0) == ("flux", ["traced", 1.0])


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: flux(np.ones(3)), KernelError, r"takes \(x, k\)"),
        (lambda: flux(np.ones((3, 2)), 1.0), ShapeError, r"x has shape \(3, 2\), expected 1 axes"),
        (lambda: flux(np.ones(0), 1.0), ShapeError, "expected at least one value"),
        (lambda: flux(np.ones(3, complex), 1.0), KernelError, "complex128, expected float64"),
        (lambda: typed(np.ones(3, bool), 1, 1.0), KernelError, "type bool, expected one of"),
        (lambda: typed(np.ones(3), 1.5, 1.0), KernelError, "n has values of type float64, expected int32"),
        (
            lambda: flux(np.ma.masked_array(np.ones(3), [0, 1, 0]), 2.0),
            ParameterError,
            "x: expected numbers everywhere, got an array with a mask",
        ),
        (lambda: typed(np.ones(3), 2**40, 1.0), KernelError, "n has values of type int64, expected int32"),
        (lambda: declare(("x",), {"y": "x"}, ti.types.ndarray(dtype=ti.f32))(np.ones(3)), KernelError, "x has values of type float64"),
        (lambda: flux.evaluate([np.ones(3)]), KernelError, "takes 2 inputs"),
    ],
)
def test_what_does_not_fit(call, error, told) -> None:
    with pytest.raises(error, match=told):
        call()


def declare(reads, writes, note=A1):
    def f(x, y):
        y[0] = x[0]

    f.__annotations__ = {"x": note, "y": A1}
    return ds.kernel(reads=reads, writes=writes)(f)


@pytest.mark.parametrize(
    ("reads", "writes", "note", "told"),
    [
        (("x", "z"), {"y": "x"}, A1, "z is in reads or writes, but no parameter"),
        ((), {"y": "x"}, A1, "x is a parameter, but neither"),
        (("x", "y"), {"y": "x"}, A1, "y is read, and written as a new array"),
        (("x",), {"y": "q"}, A1, "q is the model of an output's shape"),
        (("y",), ("x",), ti.f64, "x is a number, and written"),
        ("xy", {"y": "x"}, A1, "bare string"),
        (("x", "y"), (), A1, "writes nothing"),
        (("x",), {"y": "x"}, ti.types.ndarray(dtype=ti.math.vec3, ndim=1), "array of vectors"),
        (("x",), {"y": "x"}, ti.types.ndarray(dtype=ti.f64, needs_grad=True), "declares needs_grad"),
        (("x",), {"y": "x"}, ti.template(), "expected ti.types.ndarray"),
        (("x",), {"y": "x"}, ti.types.ndarray(dtype=ti.f16), "expected ti.types.ndarray"),
    ],
)
def test_declarations_that_cannot_be(reads, writes, note, told) -> None:
    with pytest.raises(KernelError, match=told):
        declare(reads, writes, note)


def test_a_kernel_with_a_return_value_is_refused() -> None:
    def f(x: A1, y: A1) -> ti.f64:
        y[0] = x[0]
        return x[0]

    with pytest.raises(KernelError, match="has a return value, expected none; write it to an array"):
        ds.kernel(reads=("x",), writes={"y": "x"})(f)


def test_there_must_be_source() -> None:
    namespace: dict = {"ti": ti}
    exec("def f(x: ti.types.ndarray(), y: ti.types.ndarray()):\n    y[0] = x[0]\n", namespace)
    with pytest.raises(KernelError, match="put the function into a file"):
        ds.kernel(reads=("x",), writes={"y": "x"})(namespace["f"])
    with pytest.raises(KernelError, match="written with def"):
        ds.kernel(reads=("x",), writes={"y": "x"})(3)


def test_init_again_compiles_anew(tmp_path: Path) -> None:
    """In a process of its own: other tests hold what a new init frees."""
    script = """
        import numpy as np
        from tests.language import ti
        import diffsim as ds
        @ds.kernel(reads=("x", "k"), writes={"y": "x"})
        def cube(x: ti.types.ndarray(), k: float, y: ti.types.ndarray()):
            for i in x:
                y[i] = k * x[i] ** 3
        for precision, dtype in (("f32", np.float32), ("f64", np.float64), ("f32", np.float32)):
            ds.init(arch="cpu", precision=precision)
            x = np.array([1.0, 2.0], dtype)
            y = cube(x, 0.5)
            assert y.dtype == dtype and y.tolist() == [0.5, 4.0]
            x_bar, k_bar = cube.pullback([x, 0.5], [y], [np.ones(2, dtype)])
            assert x_bar.dtype == dtype and x_bar.tolist() == [1.5, 6.0] and k_bar == 9.0
        assert cube([1, 2], 0.5).dtype == np.float32
        print("done")
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stdout.splitlines()[-1:] == ["done"], done.stderr
