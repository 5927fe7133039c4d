"""Adjoints against closed forms: Taichi's transform, adjoints by hand, and what they must never do."""

import numpy as np
import pytest

import diffsim as ds
from diffsim import engine
from diffsim.ad.userkernel import launched
from diffsim.errors import DivergenceError, KernelError, ShapeError
from tests.language import ti

pytestmark = pytest.mark.engines

A1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
ANY = ti.types.ndarray(ndim=1)
ROUND_OFF = 1e-13  # of sums of some ten terms
rng = np.random.default_rng(3)


@ds.kernel(reads=("x", "k", "n"), writes={"y": "x", "total": (1,)})
def powers(x: ANY, k: float, n: ti.i32, y: ANY, total: ANY):
    for i in x:
        y[i] = k * x[i] ** 3 + n
    for i in x:
        total[0] += y[i] ** 2


@ds.kernel(reads=("v", "dt"), writes=("x",))
def drift(x: A1, v: A1, dt: ti.f64):
    for i in x:
        x[i] = x[i] * (1 + dt * v[i])


@ti.kernel
def plain(x: A1, y: A1):
    for i in x:
        y[i] = x[i] ** 2 + 1.0


def exact(x, k, n, y_bar, total_bar):
    y = k * x**3 + n
    inner = y_bar + 2 * y * total_bar
    return inner * 3 * k * x**2, (inner * x**3).sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("arch", ["cpu", "as on a gpu"])
def test_closed_form_and_called_twice(dtype, arch, monkeypatch) -> None:
    """On a GPU, values pass through Taichi's own arrays; that path runs on a CPU as well."""
    if arch != "cpu":
        monkeypatch.setattr(launched, "shares_memory", lambda: False)
    x, bars = rng.normal(size=9).astype(dtype), [rng.normal(size=9).astype(dtype), rng.normal(size=1).astype(dtype)]
    kept = [a.copy() for a in (x, *bars)]
    outputs = powers(x, 0.7, 2)
    first = powers.pullback([x, 0.7, 2], outputs, bars)
    second = powers.pullback([x, 0.7, 2], outputs, bars)
    x_bar, k_bar = exact(x.astype(float), 0.7, 2, *(b.astype(float) for b in bars))
    bound = ROUND_OFF if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(first[0], x_bar, rtol=bound)
    np.testing.assert_allclose(first[1], k_bar, rtol=bound)
    assert first[0].dtype == dtype and first[2] is None
    np.testing.assert_array_equal(first[0], second[0])
    assert all(np.array_equal(a, b) for a, b in zip((x, *bars), kept, strict=True))


def test_an_existing_taichi_kernel() -> None:
    kernel = ds.kernel(reads=("x",), writes={"y": "x"})(plain)
    x = np.arange(3.0)
    assert np.array_equal(kernel(x), x**2 + 1)
    assert np.array_equal(kernel.pullback([x], [kernel(x)], [np.ones(3)])[0], 2 * x)


def test_in_place_parameter() -> None:
    x, v, bar = rng.normal(size=(3, 8))
    ended = drift(x, v, 0.1)
    x_bar, v_bar, dt_bar = drift.pullback([x, v, 0.1], [ended], [bar])
    np.testing.assert_allclose(x_bar, bar * (1 + 0.1 * v), rtol=ROUND_OFF)
    np.testing.assert_allclose(v_bar, bar * x * 0.1, rtol=ROUND_OFF)
    np.testing.assert_allclose(dt_bar, (bar * x * v).sum(), rtol=ROUND_OFF)


def test_cells_that_are_not_written_keep_their_cotangent() -> None:
    @ds.kernel(reads=(), writes=("x",))
    def square_inside(x: A1):
        for i in range(1, 3):
            x[i] = x[i] ** 2

    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert np.array_equal(square_inside.pullback([x], [square_inside(x)], [np.ones(4)])[0], [1.0, 4.0, 6.0, 1.0])


def test_outputs_given_back_are_not_changed() -> None:
    """Taichi runs stores outside of its blocks a second time in reverse; they must not reach the caller's array."""

    @ds.kernel(reads=("x",), writes={"y": "x"})
    def sums(x: A1, y: A1):
        for i in x:
            y[i] = 0.25
        for i in x:
            for j in range(4):
                y[i] += x[j] * x[i]

    x = rng.normal(size=5)
    y = sums(x)
    kept = y.copy()
    sums.pullback([x], [y], [np.ones(5)])
    assert np.array_equal(y, kept)


def test_only_what_is_wanted() -> None:
    x, v = rng.normal(size=(2, 4))
    bars = drift.pullback([x, v, 0.1], [drift(x, v, 0.1)], [np.ones(4)], wanted=[False, True, False])
    assert bars[0] is None and bars[2] is None and bars[1] is not None
    assert drift.pullback([x, v, 0.1], [x], [np.ones(4)], wanted=[False] * 3) == [None] * 3


def test_missing_and_strided_cotangents() -> None:
    x = rng.normal(size=6)
    outputs = powers(x, 0.7, 1)
    wide = rng.normal(size=(6, 2))
    np.testing.assert_allclose(powers.pullback([x, 0.7, 1], outputs, [wide[:, 0], None])[0], wide[:, 0] * 2.1 * x**2, rtol=ROUND_OFF)
    with pytest.raises(ShapeError, match=r"cotangent of y has shape \(5,\), expected \(6,\)"):
        powers.pullback([x, 0.7, 1], outputs, [np.ones(5), None])


def test_an_infinite_slope_is_told() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def root(x: A1, y: A1):
        for i in x:
            y[i] = ti.sqrt(x[i])

    with pytest.raises(DivergenceError, match=r"cotangent of x\[1\] through kernel root is inf"):
        root.pullback([np.array([1.0, 0.0])], [np.array([1.0, 0.0])], [np.ones(2)])


def test_a_slope_on_the_side_that_select_leaves_is_told() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def masked_root(x: A1, y: A1):
        for i in x:
            y[i] = ti.select(x[i] > 0, ti.sqrt(x[i]), 0.0)

    x = np.array([1.0, -1.0, 4.0])
    assert np.array_equal(masked_root(x), [1.0, 0.0, 2.0])
    with pytest.raises(
        DivergenceError, match=r"cotangent of x\[1\] through kernel masked_root is nan.*ti.select differentiates both sides"
    ):
        masked_root.pullback([x], [masked_root(x)], [np.ones(3)])


def test_settings_of_other_kernels_are_put_back() -> None:
    impl = engine.present().impl
    names = ("real_matrix_scalarize", "force_scalarize_matrix", "make_cpu_multithreading_loop", "default_fp")
    before = [getattr(impl.current_cfg(), n) for n in names], impl.get_runtime().default_fp, ti.math.vec2.dtype
    for dtype, wanted in ((np.float32, ti.f32), (np.float64, ti.f64), (np.float32, ti.f32)):
        with engine.hand_written(dtype):
            assert impl.current_cfg().real_matrix_scalarize and ti.math.vec2.dtype == wanted
        now = [getattr(impl.current_cfg(), n) for n in names], impl.get_runtime().default_fp, ti.math.vec2.dtype
        assert now == before
    assert not impl.current_cfg().real_matrix_scalarize


def bouncing():
    """A kernel that Taichi cannot differentiate, made anew for each test."""

    @ds.kernel(reads=("x", "n"), writes={"y": "x"})
    def bounce(x: A1, n: int, y: A1):
        for i in x:
            s = x[i]
            while s < n:
                s = s * 2.0
            y[i] = s

    return bounce


def test_runs_forward_but_has_no_derivative() -> None:
    bounce = bouncing()
    x = np.array([0.5, 1.5])
    assert np.array_equal(bounce(x, 2), [2.0, 3.0])
    with pytest.raises(KernelError, match="while s < n"):
        bounce.pullback([x, 2], [bounce(x, 2)], [np.ones(2)])
    with pytest.raises(KernelError, match="no tangent"):
        bounce.pushforward([x, 2], [bounce(x, 2)], [np.ones(2), None])


def test_adjoint_and_tangent_by_hand() -> None:
    bounce = bouncing()

    @bounce.adjoint
    def bounce_bar(inputs, outputs, cotangents):
        return cotangents[0] * outputs[0] / inputs[0], None

    @bounce.tangent
    def bounce_dot(inputs, outputs, tangents):
        return tangents[0] * outputs[0] / inputs[0]

    x = np.array([0.5, 1.5, 0.3])
    y = bounce(x, 2)
    assert callable(bounce_bar) and callable(bounce_dot)
    assert np.array_equal(bounce.pullback([x, 2], [y], [np.ones(3)])[0], y / x)
    assert np.array_equal(bounce.pushforward([x, 2], [y], [np.ones(3), None])[0], y / x)


def test_adjoint_by_another_kernel() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def cube(x: A1, y: A1):
        for i in x:
            y[i] = x[i] ** 3

    @cube.adjoint
    @ds.kernel(reads=("x", "y", "y_bar"), writes={"x_bar": "x"})
    def cube_bar(x: A1, y: A1, y_bar: A1, x_bar: A1):
        for i in x:
            x_bar[i] = 3 * y[i] / x[i] * y_bar[i]

    x, bar = rng.uniform(1, 2, (2, 5))
    np.testing.assert_allclose(cube.pullback([x], [cube(x)], [bar])[0], 3 * x**2 * bar, rtol=ROUND_OFF)
    np.testing.assert_allclose(cube_bar.pullback([x, cube(x), bar], [cube_bar(x, cube(x), bar)], [np.ones(5)])[2], 3 * x**2, rtol=ROUND_OFF)
    with pytest.raises(KernelError, match="has q_bar"):

        @cube.adjoint
        @ds.kernel(reads=("q_bar",), writes={"x_bar": "q_bar"})
        def strange(q_bar: A1, x_bar: A1):
            for i in x_bar:
                x_bar[i] = q_bar[i]


def test_adjoint_of_an_in_place_kernel_sees_before_and_after() -> None:
    @ds.kernel(reads=(), writes=("x",))
    def square(x: A1):
        for i in x:
            x[i] = x[i] ** 2

    @square.adjoint
    @ds.kernel(reads=("x", "x_out"), writes=("x_bar",))
    def square_bar(x: A1, x_out: A1, x_bar: A1):
        for i in x:
            x_bar[i] = x_bar[i] * 2 * x_out[i] / x[i]

    x = rng.uniform(1, 2, 5)
    np.testing.assert_allclose(square.pullback([x], [square(x)], [np.ones(5)])[0], 2 * x, rtol=ROUND_OFF)


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (lambda x: x, KernelError, "returned 1 cotangents, expected 2"),
        (lambda x: (None, None), KernelError, "gives no cotangent of x"),
        (lambda x: (x[1:], None), ShapeError, "adjoint's cotangent of x has shape"),
        (lambda x: (x * np.nan, None), DivergenceError, "is nan"),
    ],
)
def test_an_adjoint_that_does_not_fit(answer, error, told) -> None:
    bounce = bouncing()
    bounce.adjoint(lambda inputs, outputs, cotangents: answer(inputs[0]))
    with pytest.raises(error, match=told):
        bounce.pullback([np.ones(2), 2], [np.ones(2)], [np.ones(2)])
