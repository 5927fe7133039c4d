"""Every misfit and regulariser: gradients, closed-form values, masks, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, ShapeError
from diffsim.losses import (
    CorrelationMisfit,
    EnvelopeMisfit,
    HuberMisfit,
    L2Misfit,
    LogAmplitudeMisfit,
    Misfit,
    Regulariser,
    SmoothedTotalVariation,
    Tikhonov,
    WassersteinMisfit,
)
from tests.losses.by_hand import ByHand, bent, correlation, envelope, huber, least_squares, tikhonov, total_variation, wasserstein

SHAPE = (7, 6)
ROUND_OFF = 1e-12
CENTRAL = 1e-8  # central differences at h = 1e-5: h² truncation and eps/h round-off are both near 1e-10 of the value
SLOPE = 0.1


def draw(*key: int) -> np.random.Generator:
    return np.random.default_rng([20, *key])


MASK = draw(0).random(SHAPE) < 0.7
CORNER = np.zeros(SHAPE)
CORNER[-1, -1] = 1.0  # the last cell: no forward difference of its own
MASK_EDGE = np.zeros(SHAPE)
MASK_EDGE[tuple(np.argwhere(MASK[:, :-1] & ~MASK[:, 1:])[0])] = 1.0


class Case(NamedTuple):
    make: Callable[[], Misfit | Regulariser]
    by_hand: ByHand
    shape: tuple[int, ...] = SHAPE
    mask: np.ndarray | None = None


DATA = draw(1).normal(size=SHAPE)
GAPPY = np.where(MASK, DATA, np.nan)
WEIGHT = draw(2).random(SHAPE)
SHORT = np.ones(SHAPE, bool)  # a trace that ends early, one that begins late
SHORT[5:, 1] = SHORT[:2, 4] = False
ENDS = np.where(SHORT, DATA, np.nan)
EVEN = draw(6).normal(size=(8, 3))
H, CUBE = (0.5, 2.0), (0.5, 2.0, 1.0)
LOSSES = {
    "l2": Case(lambda: L2Misfit(DATA), lambda x: least_squares(x, DATA)),
    "l2 one weight": Case(lambda: L2Misfit(DATA, 0.3), lambda x: least_squares(x, DATA, 0.3)),
    "l2 weighted": Case(lambda: L2Misfit(DATA, WEIGHT), lambda x: least_squares(x, DATA, WEIGHT)),
    "l2 weight a receiver": Case(lambda: L2Misfit(DATA, WEIGHT[0]), lambda x: least_squares(x, DATA, WEIGHT[0])),
    "l2 masked": Case(lambda: L2Misfit(GAPPY, WEIGHT, MASK), lambda x: least_squares(x, DATA, WEIGHT, MASK), mask=MASK),
    "l2 normalised": Case(
        lambda: L2Misfit(GAPPY, WEIGHT, MASK, normalise=True), lambda x: least_squares(x, DATA, WEIGHT, MASK, True), mask=MASK
    ),
    "huber": Case(lambda: HuberMisfit(DATA, 1.8), lambda x: huber(x, DATA, 1.8)),
    "huber masked": Case(lambda: HuberMisfit(GAPPY, 1.8, WEIGHT, MASK), lambda x: huber(x, DATA, 1.8, WEIGHT, MASK), mask=MASK),
    "envelope": Case(lambda: EnvelopeMisfit(DATA, 0.1), lambda x: envelope(x, DATA, 0.1, False)),
    "envelope of an even number": Case(lambda: EnvelopeMisfit(EVEN, 0.3), lambda x: envelope(x, EVEN, 0.3, False), (8, 3)),
    "envelope masked": Case(
        lambda: EnvelopeMisfit(ENDS, 0.1, WEIGHT, SHORT), lambda x: envelope(x, DATA, 0.1, False, WEIGHT, SHORT), mask=SHORT
    ),
    "log amplitude": Case(lambda: LogAmplitudeMisfit(DATA, 0.5), lambda x: envelope(x, DATA, 0.5, True)),
    "log amplitude masked": Case(
        lambda: LogAmplitudeMisfit(ENDS, 0.5, WEIGHT, SHORT), lambda x: envelope(x, DATA, 0.5, True, WEIGHT, SHORT), mask=SHORT
    ),
    "correlation": Case(lambda: CorrelationMisfit(DATA), lambda x: correlation(x, DATA)),
    "correlation masked": Case(lambda: CorrelationMisfit(GAPPY, WEIGHT, MASK), lambda x: correlation(x, DATA, WEIGHT, MASK), mask=MASK),
    "wasserstein": Case(lambda: WassersteinMisfit(DATA, 2.0, 0.3), lambda x: wasserstein(x, DATA, 2.0, 0.3)),
    "wasserstein masked": Case(
        lambda: WassersteinMisfit(ENDS, 2.0, 0.3, WEIGHT, SHORT), lambda x: wasserstein(x, DATA, 2.0, 0.3, WEIGHT, SHORT), mask=SHORT
    ),
    "tikhonov 0": Case(lambda: Tikhonov(1.3, H, 0, 0.2), lambda x: tikhonov(x, 1.3, H, 0, 0.2, None)),
    "tikhonov 0 masked": Case(lambda: Tikhonov(1.3, 0.5, 0, GAPPY, MASK), lambda x: tikhonov(x, 1.3, (0.5, 0.5), 0, DATA, MASK), mask=MASK),
    "tikhonov 2": Case(lambda: Tikhonov(1.3, H, 2, WEIGHT), lambda x: bent(x, 1.3, H, WEIGHT, None)),
    "tikhonov 2 masked": Case(lambda: Tikhonov(1.3, 0.5, 2, mask=MASK), lambda x: bent(x, 1.3, (0.5, 0.5), 0.0, MASK), mask=MASK),
    "tikhonov 2 in 3-D": Case(lambda: Tikhonov(1.3, CUBE, 2), lambda x: bent(x, 1.3, CUBE, 0.0, None), (4, 3, 5)),
    "tikhonov 1": Case(lambda: Tikhonov(1.3, H, 1, WEIGHT), lambda x: tikhonov(x, 1.3, H, 1, WEIGHT, None)),
    "tikhonov 1 masked": Case(lambda: Tikhonov(1.3, 0.5, 1, mask=MASK), lambda x: tikhonov(x, 1.3, (0.5, 0.5), 1, 0.0, MASK), mask=MASK),
    "tikhonov 1 in 1-D": Case(lambda: Tikhonov(1.3, 0.5, 1), lambda x: tikhonov(x, 1.3, (0.5,), 1, 0.0, None), (9,)),
    "total variation": Case(lambda: SmoothedTotalVariation(0.7, H, 0.3), lambda x: total_variation(x, 0.7, H, 0.3, None)),
    "total variation masked": Case(
        lambda: SmoothedTotalVariation(0.7, 0.5, 0.3, MASK), lambda x: total_variation(x, 0.7, (0.5, 0.5), 0.3, MASK), mask=MASK
    ),
    "total variation in 3-D": Case(
        lambda: SmoothedTotalVariation(0.7, CUBE, 0.3), lambda x: total_variation(x, 0.7, CUBE, 0.3, None), (4, 3, 5)
    ),
}


@pytest.fixture(params=LOSSES.values(), ids=LOSSES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def directions(case: Case) -> list[np.ndarray]:
    """Three random ones, the last cell, and a cell at the mask's edge."""
    local = [CORNER, MASK_EDGE] if case.shape == SHAPE else [np.eye(1, int(np.prod(case.shape)), k=3).reshape(case.shape)]
    return [draw(3, k).normal(size=case.shape) for k in range(3)] + local


def of_mask(case: Case, v: np.ndarray) -> np.ndarray:
    return v if case.mask is None else v * case.mask


def test_value_and_gradient_are_those_worked_out_by_hand(case: Case) -> None:
    loss, x = case.make(), draw(4).normal(size=case.shape)
    value, gradient = ds.value_and_grad(loss)(x)
    expected, wanted = case.by_hand(x)
    assert value == pytest.approx(expected, rel=ROUND_OFF)
    assert loss(x) == value  # the same number, differentiated or not
    np.testing.assert_allclose(gradient, wanted, rtol=ROUND_OFF, atol=ROUND_OFF * np.abs(wanted).max())


def test_gradient_agrees_with_central_differences(case: Case) -> None:
    loss, x, h = case.make(), draw(4).normal(size=case.shape), 1e-5
    gradient = ds.grad(loss)(x)
    for v in directions(case):
        v = of_mask(case, v)
        difference = (loss(x + h * v) - loss(x - h * v)) / (2 * h)
        assert abs(difference - np.sum(gradient * v)) <= CENTRAL * max(abs(difference), 1e-2)


def test_taylor_remainders_have_slopes_1_and_2(case: Case) -> None:
    loss, x = case.make(), draw(4).normal(size=case.shape)
    value, gradient = ds.value_and_grad(loss)(x)
    steps = 1e-3 * 0.5 ** np.arange(4)
    for k, v in enumerate(directions(case)):
        if not np.any(of_mask(case, v)):
            continue
        change = np.array([loss(x + h * v) - value for h in steps])
        remainder = change - steps * np.sum(gradient * v)
        if k < 3:  # a single cell's slope may happen to be small
            assert np.diff(np.log2(np.abs(change))) == pytest.approx(-np.ones(3), abs=SLOPE)
        assert np.diff(np.log2(np.abs(remainder))) == pytest.approx(-2 * np.ones(3), abs=SLOPE)


def test_forward_and_reverse_mode_agree(case: Case) -> None:
    loss, x = case.make(), draw(4).normal(size=case.shape)
    gradient = ds.grad(loss)(x)
    for v in directions(case):
        slope = ds.jvp(loss, (x,), (v,))[1]
        assert abs(slope - np.sum(gradient * v)) <= ROUND_OFF * np.linalg.norm(gradient) * np.linalg.norm(v)


def test_hessian_vector_products(case: Case) -> None:
    """Against differences of the gradients by hand; the Hessian is symmetric."""
    loss, x = case.make(), draw(4).normal(size=case.shape)
    h = 1e-6  # the slope of the total variation is more curved than its value
    chosen = directions(case)
    products = [ds.hvp(loss, x, v) for v in chosen]
    for v, product in zip(chosen, products, strict=True):
        difference = (case.by_hand(x + h * v)[1] - case.by_hand(x - h * v)[1]) / (2 * h)
        np.testing.assert_allclose(product, difference, rtol=0, atol=CENTRAL * max(np.abs(difference).max(), 1e-2))
    forward, backward = np.sum(products[0] * chosen[1]), np.sum(products[1] * chosen[0])
    assert abs(forward - backward) <= ROUND_OFF * np.linalg.norm(products[0]) * np.linalg.norm(chosen[1])


def test_gradient_keeps_dtype_and_value_is_summed_in_f64(case: Case) -> None:
    loss, x = case.make(), draw(4).normal(size=case.shape).astype(np.float32)
    value, gradient = ds.value_and_grad(loss)(x)
    exact_value, exact_gradient = ds.value_and_grad(loss)(x.astype(np.float64))
    assert gradient.dtype == np.float32
    assert gradient.shape == x.shape
    assert value == exact_value
    assert np.asarray(value).dtype == np.float64
    np.testing.assert_array_equal(gradient, exact_gradient.astype(np.float32))


def test_one_that_is_made_inside_of_a_derivative_is_no_other(case: Case) -> None:
    """The arrays that it keeps must not belong to the derivative during which it was made or first used."""
    x = draw(4).normal(size=case.shape)
    built: list[Misfit | Regulariser] = []
    gradient = ds.grad(lambda x: (built.append(case.make()), built[-1](x))[1])(x)
    expected = case.make()
    np.testing.assert_array_equal(gradient, ds.grad(expected)(x))
    assert built[0](x) == expected(x)
    np.testing.assert_array_equal(ds.grad(built[0])(x), gradient)


@pytest.mark.parametrize("name", [name for name, case in LOSSES.items() if case.mask is not None])
def test_samples_that_the_mask_excludes_have_no_influence(name: str) -> None:
    case = LOSSES[name]
    assert case.mask is not None
    loss, x = case.make(), draw(4).normal(size=case.shape)
    value, gradient = ds.value_and_grad(loss)(x)
    for nothing in (np.nan, np.inf, 1e300):
        other_value, other_gradient = ds.value_and_grad(loss)(np.where(case.mask, x, nothing))
        assert other_value == value
        np.testing.assert_array_equal(other_gradient, gradient)
    v = np.where(case.mask, draw(3, 0).normal(size=case.shape), 0.0)
    np.testing.assert_array_equal(ds.hvp(loss, np.where(case.mask, x, np.nan), v), ds.hvp(loss, x, v))
    assert np.all(gradient[~case.mask] == 0)
    assert np.any(gradient[case.mask] != 0)


def test_input_is_left_as_it_was(case: Case) -> None:
    x = draw(4).normal(size=case.shape)
    before = x.copy()
    ds.grad(case.make())(x)
    np.testing.assert_array_equal(x, before)


def test_integers_are_refused(case: Case) -> None:
    with pytest.raises(ParameterError, match="floating"):
        case.make()(np.ones(case.shape, dtype=np.int64))


def test_l2_values() -> None:
    data = np.array([[1.0, 2.0], [3.0, -1.0]])
    predicted = data + np.array([[1.0, 0.0], [2.0, 3.0]])
    assert L2Misfit(data)(predicted) == 0.5 * (1 + 4 + 9)
    assert L2Misfit(data, weight=[1.0, 2.0])(predicted) == 0.5 * (1 + 4 + 18)
    assert L2Misfit(data, mask=[[True, True], [True, False]])(predicted) == 0.5 * (1 + 4)


def test_l2_normalised_is_one_for_zero_and_nought_for_the_data() -> None:
    data = draw(1).normal(size=SHAPE)
    misfit = L2Misfit(data, WEIGHT, MASK, normalise=True)
    assert misfit(np.zeros(SHAPE)) == pytest.approx(1.0, rel=ROUND_OFF)
    assert misfit(data) == 0.0


def test_l2_is_not_changed_by_later_changes_of_its_data() -> None:
    data = np.ones(4)
    misfit = L2Misfit(data)
    data[:] = 5.0
    assert misfit(np.ones(4)) == 0.0


def test_small_residuals_of_large_f32_values_are_not_lost() -> None:
    data = np.full(10_000, 1e4) + 1e-5  # not a f32 number
    predicted = np.full(10_000, 1e4, dtype=np.float32)
    assert L2Misfit(data)(predicted) == pytest.approx(0.5 * 1e-10 * 10_000, rel=1e-5)


@pytest.mark.parametrize("refine", [1, 2, 8])
def test_tikhonov_values_are_integrals(refine: int) -> None:
    """½ ∫ m² and ½ ∫ m'² of m = 3x over [0, 2], and of a constant, at several spacings."""
    h = 0.125 / refine
    x = (np.arange(round(2 / h)) + 0.5) * h
    slope_value = Tikhonov(2.0, h, order=1)(3 * x)
    assert slope_value == pytest.approx(0.5 * 2.0 * 9.0 * (2 - h), rel=ROUND_OFF)  # one pair of neighbours fewer than cells
    assert Tikhonov(2.0, h, order=0)(np.full_like(x, 3.0)) == pytest.approx(0.5 * 2.0 * 9.0 * 2, rel=ROUND_OFF)
    assert Tikhonov(2.0, h, order=0, reference=3.0)(np.full_like(x, 3.0)) == 0.0


def test_tikhonov_order_1_in_2d() -> None:
    i, j = np.indices((4, 5))
    field = 2.0 * i * 0.5 - 3.0 * j * 0.25  # slopes 2 and -3
    value = Tikhonov(1.0, (0.5, 0.25), order=1)(field)
    assert value == pytest.approx(0.5 * 0.125 * (4 * 15 + 9 * 16), rel=ROUND_OFF)


def test_tikhonov_order_2_in_2d() -> None:
    """½ ∫ Σ (∂_a ∂_b m)² of a square and of a product; a plane costs nothing, and neither do two cells."""
    y, x = np.indices((6, 7)) * np.array([0.5, 0.25])[:, None, None]
    penalty = Tikhonov(1.0, (0.5, 0.25), order=2)
    assert penalty(3.0 * y**2) == pytest.approx(0.5 * 0.125 * 36 * 4 * 7, rel=1e-10)
    assert penalty(2.0 * x * y) == pytest.approx(0.5 * 0.125 * 2 * 4 * 5 * 6, rel=1e-10)  # ∂_x ∂_y and ∂_y ∂_x
    assert penalty(1.0 + 2.0 * y - 3.0 * x) < 1e-24
    assert Tikhonov(1.0, 1.0, order=2)(np.array([1.0, 5.0])) == 0.0


@pytest.mark.parametrize("width", [1, 5])
def test_total_variation_of_a_step_is_its_height_however_sharp(width: int) -> None:
    field = np.interp(np.arange(40), [15, 15 + width], [1.0, 4.0])
    value = SmoothedTotalVariation(2.0, 0.1, epsilon=1e-9)(field)
    assert value == pytest.approx(2.0 * 3.0, rel=1e-8)  # ε times the step's width is 1e-9


def test_total_variation_in_2d_is_isotropic_in_the_slope() -> None:
    field = np.array([[0.0, 4.0], [3.0, 0.0]])
    # Cell (0, 0) has slopes (3, 4), cell (0, 1) (-4, none), cell (1, 0) (none, -3), cell (1, 1) none.
    value = SmoothedTotalVariation(1.0, 1.0, epsilon=1e-9)(field)
    assert value == pytest.approx(5 + 4 + 3, rel=1e-8)


def test_total_variation_of_small_slopes_is_quadratic() -> None:
    """|∇m|²/(2ε), to all digits: the naive √(s + ε²) - ε has none left here."""
    field = 1e-12 * np.arange(11.0)
    value = SmoothedTotalVariation(1.0, 1.0, epsilon=1.0)(field)
    assert value == pytest.approx(10 * 1e-24 / 2, rel=ROUND_OFF, abs=0)


@pytest.mark.parametrize("name", ["tikhonov 1", "total variation", "tikhonov 1 masked", "total variation masked"])
def test_slope_penalties_ignore_a_constant(name: str) -> None:
    loss, x = LOSSES[name].make(), draw(4).normal(size=SHAPE)
    value, gradient = ds.value_and_grad(loss)(x)
    shifted_value, shifted_gradient = ds.value_and_grad(loss)(x + 3.0)
    assert shifted_value == pytest.approx(value, rel=ROUND_OFF)
    np.testing.assert_allclose(shifted_gradient, gradient, atol=1e-12)
    assert abs(np.sum(gradient)) < 1e-12


REFUSED = {
    "prediction's shape": (ShapeError, "n \\+ 1 samples", lambda: L2Misfit(np.ones((4, 3)))(np.ones((5, 3)))),
    "prediction that would broadcast": (ShapeError, "shape of the data", lambda: L2Misfit(np.ones((4, 3)))(np.ones((1, 3)))),
    "NaN data": (ParameterError, r"at \(1,\) and 0 more", lambda: L2Misfit([1.0, np.nan])),
    "weight's shape": (ShapeError, "weight", lambda: L2Misfit(np.ones(3), np.ones(4))),
    "weight larger than the data": (ShapeError, "weight", lambda: L2Misfit(np.ones(3), np.ones((2, 3)))),
    "negative weight": (ParameterError, "weight", lambda: L2Misfit(np.ones(3), -1.0)),
    "integer mask": (ParameterError, "mask != 0", lambda: L2Misfit(np.ones(3), mask=[1, 0, 1])),
    "mask's shape": (ShapeError, "mask", lambda: L2Misfit(np.ones(3), mask=[True, False])),
    "nothing to normalise by": (ParameterError, "normalise", lambda: L2Misfit(np.zeros(3), normalise=True)),
    "order": (ParameterError, "order", lambda: Tikhonov(1.0, 1.0, 3)),  # type: ignore[arg-type]
    "zero spacing": (ParameterError, "spacing", lambda: Tikhonov(1.0, (1.0, 0.0))),
    "negative penalty": (ParameterError, "weight", lambda: SmoothedTotalVariation(-1.0, 1.0, 1.0)),
    "zero epsilon": (ParameterError, "epsilon", lambda: SmoothedTotalVariation(1.0, 1.0, 0.0)),
    "NaN reference": (ParameterError, "reference", lambda: Tikhonov(1.0, 1.0, 0, np.nan)),
    "reference's shape": (ShapeError, "reference", lambda: Tikhonov(1.0, 1.0, 0, np.ones(3))(np.ones(4))),
    "reference against mask": (ShapeError, "mask", lambda: Tikhonov(1.0, 1.0, 0, np.ones(3), np.ones(4, bool))),
    "field's axes": (ShapeError, "axis", lambda: Tikhonov(1.0, (1.0, 1.0))(np.ones(4))),
    "field's mask": (ShapeError, "mask", lambda: SmoothedTotalVariation(1.0, 1.0, 1.0, np.ones(3, bool))(np.ones(4))),
}


@pytest.mark.parametrize(("error", "match", "call"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(error: type[Exception], match: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=match):
        call()
