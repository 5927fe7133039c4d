"""Every misfit and regulariser: gradients, closed-form values, masks, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from diffsim.errors import ParameterError, ShapeError
from diffsim.losses import L2Misfit, Misfit, Regulariser, SmoothedTotalVariation, Tikhonov

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
    shape: tuple[int, ...] = SHAPE
    mask: np.ndarray | None = None


def gappy_data() -> np.ndarray:
    return np.where(MASK, draw(1).normal(size=SHAPE), np.nan)


WEIGHT = draw(2).random(SHAPE)
LOSSES = {
    "l2": Case(lambda: L2Misfit(draw(1).normal(size=SHAPE))),
    "l2 weighted": Case(lambda: L2Misfit(draw(1).normal(size=SHAPE), WEIGHT)),
    "l2 weight a receiver": Case(lambda: L2Misfit(draw(1).normal(size=SHAPE), WEIGHT[0])),
    "l2 masked": Case(lambda: L2Misfit(gappy_data(), WEIGHT, MASK), mask=MASK),
    "l2 normalised": Case(lambda: L2Misfit(gappy_data(), WEIGHT, MASK, normalise=True), mask=MASK),
    "tikhonov 0": Case(lambda: Tikhonov(1.3, (0.5, 2.0), 0, 0.2)),
    "tikhonov 0 masked": Case(lambda: Tikhonov(1.3, 0.5, 0, gappy_data(), MASK), mask=MASK),
    "tikhonov 1": Case(lambda: Tikhonov(1.3, (0.5, 2.0), 1, WEIGHT)),
    "tikhonov 1 masked": Case(lambda: Tikhonov(1.3, 0.5, 1, mask=MASK), mask=MASK),
    "tikhonov 1 in 1-D": Case(lambda: Tikhonov(1.3, 0.5, 1), (9,)),
    "total variation": Case(lambda: SmoothedTotalVariation(0.7, (0.5, 2.0), 0.3)),
    "total variation masked": Case(lambda: SmoothedTotalVariation(0.7, 0.5, 0.3, MASK), mask=MASK),
    "total variation in 3-D": Case(lambda: SmoothedTotalVariation(0.7, (0.5, 2.0, 1.0), 0.3), (4, 3, 5)),
}


@pytest.fixture(params=LOSSES.values(), ids=LOSSES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def directions(case: Case) -> list[np.ndarray]:
    """Three random ones, the last cell, and a cell at the mask's edge."""
    local = [CORNER, MASK_EDGE] if case.shape == SHAPE else [np.eye(1, int(np.prod(case.shape)), k=3).reshape(case.shape)]
    return [draw(3, k).normal(size=case.shape) for k in range(3)] + local


def test_gradient_agrees_with_central_differences(case: Case) -> None:
    loss, x, h = case.make(), draw(4).normal(size=case.shape), 1e-5
    gradient = loss.value_and_grad(x)[1]
    for v in directions(case):
        if case.mask is not None:
            v = v * case.mask
        difference = (loss.value_and_grad(x + h * v)[0] - loss.value_and_grad(x - h * v)[0]) / (2 * h)
        assert abs(difference - np.sum(gradient * v)) <= CENTRAL * max(abs(difference), 1e-2)


def test_taylor_remainders_have_slopes_1_and_2(case: Case) -> None:
    loss, x = case.make(), draw(4).normal(size=case.shape)
    value, gradient = loss.value_and_grad(x)
    steps = 1e-3 * 0.5 ** np.arange(4)
    for k, v in enumerate(directions(case)):
        if case.mask is not None and not np.any(v * case.mask):
            continue
        change = np.array([loss.value_and_grad(x + h * v)[0] - value for h in steps])
        remainder = change - steps * np.sum(gradient * v)
        if k < 3:  # a single cell's slope may happen to be small
            assert np.diff(np.log2(np.abs(change))) == pytest.approx(-np.ones(3), abs=SLOPE)
        assert np.diff(np.log2(np.abs(remainder))) == pytest.approx(-2 * np.ones(3), abs=SLOPE)


def test_gradient_keeps_dtype_and_value_is_summed_in_f64(case: Case) -> None:
    loss, x = case.make(), draw(4).normal(size=case.shape).astype(np.float32)
    value, gradient = loss.value_and_grad(x)
    exact_value, exact_gradient = loss.value_and_grad(x.astype(np.float64))
    assert gradient.dtype == np.float32
    assert gradient.shape == x.shape
    assert value == exact_value
    np.testing.assert_array_equal(gradient, exact_gradient.astype(np.float32))


@pytest.mark.parametrize("name", [name for name, case in LOSSES.items() if case.mask is not None])
def test_what_the_mask_excludes_has_no_influence(name: str) -> None:
    case = LOSSES[name]
    assert case.mask is not None
    loss, x = case.make(), draw(4).normal(size=case.shape)
    value, gradient = loss.value_and_grad(x)
    other_value, other_gradient = loss.value_and_grad(np.where(case.mask, x, np.nan))
    assert other_value == value
    np.testing.assert_array_equal(other_gradient, gradient)
    assert np.all(gradient[~case.mask] == 0)
    assert np.any(gradient[case.mask] != 0)


def test_input_is_left_as_it_was(case: Case) -> None:
    x = draw(4).normal(size=case.shape)
    before = x.copy()
    case.make().value_and_grad(x)
    np.testing.assert_array_equal(x, before)


def test_integers_are_refused(case: Case) -> None:
    with pytest.raises(ParameterError, match="floating"):
        case.make().value_and_grad(np.ones(case.shape, dtype=np.int64))


def test_l2_values() -> None:
    data = np.array([[1.0, 2.0], [3.0, -1.0]])
    predicted = data + np.array([[1.0, 0.0], [2.0, 3.0]])
    assert L2Misfit(data).value_and_grad(predicted)[0] == 0.5 * (1 + 4 + 9)
    assert L2Misfit(data, weight=[1.0, 2.0]).value_and_grad(predicted)[0] == 0.5 * (1 + 4 + 18)
    assert L2Misfit(data, mask=[[True, True], [True, False]]).value_and_grad(predicted)[0] == 0.5 * (1 + 4)


def test_l2_normalised_is_one_for_zero_and_nought_for_the_data() -> None:
    data = draw(1).normal(size=SHAPE)
    misfit = L2Misfit(data, WEIGHT, MASK, normalise=True)
    assert misfit.value_and_grad(np.zeros(SHAPE))[0] == pytest.approx(1.0, rel=ROUND_OFF)
    assert misfit.value_and_grad(data)[0] == 0.0


def test_l2_is_not_changed_by_later_changes_of_its_data() -> None:
    data = np.ones(4)
    misfit = L2Misfit(data)
    data[:] = 5.0
    assert misfit.value_and_grad(np.ones(4))[0] == 0.0


def test_small_residuals_of_large_f32_values_are_not_lost() -> None:
    data = np.full(10_000, 1e4) + 1e-5  # not a f32 number
    predicted = np.full(10_000, 1e4, dtype=np.float32)
    assert L2Misfit(data).value_and_grad(predicted)[0] == pytest.approx(0.5 * 1e-10 * 10_000, rel=1e-5)


@pytest.mark.parametrize("refine", [1, 2, 8])
def test_tikhonov_values_are_integrals(refine: int) -> None:
    """½ ∫ m² and ½ ∫ m'² of m = 3x over [0, 2], and of a constant, at several spacings."""
    h = 0.125 / refine
    x = (np.arange(round(2 / h)) + 0.5) * h
    slope_value = Tikhonov(2.0, h, order=1).value_and_grad(3 * x)[0]
    assert slope_value == pytest.approx(0.5 * 2.0 * 9.0 * (2 - h), rel=ROUND_OFF)  # one pair of neighbours fewer than cells
    assert Tikhonov(2.0, h, order=0).value_and_grad(np.full_like(x, 3.0))[0] == pytest.approx(0.5 * 2.0 * 9.0 * 2, rel=ROUND_OFF)
    assert Tikhonov(2.0, h, order=0, reference=3.0).value_and_grad(np.full_like(x, 3.0))[0] == 0.0


def test_tikhonov_order_1_in_2d() -> None:
    i, j = np.indices((4, 5))
    field = 2.0 * i * 0.5 - 3.0 * j * 0.25  # slopes 2 and -3
    value = Tikhonov(1.0, (0.5, 0.25), order=1).value_and_grad(field)[0]
    assert value == pytest.approx(0.5 * 0.125 * (4 * 15 + 9 * 16), rel=ROUND_OFF)


@pytest.mark.parametrize("width", [1, 5])
def test_total_variation_of_a_step_is_its_height_however_sharp(width: int) -> None:
    field = np.interp(np.arange(40), [15, 15 + width], [1.0, 4.0])
    value = SmoothedTotalVariation(2.0, 0.1, epsilon=1e-9).value_and_grad(field)[0]
    assert value == pytest.approx(2.0 * 3.0, rel=1e-8)  # ε times the step's width is 1e-9


def test_total_variation_in_2d_is_isotropic_in_the_slope() -> None:
    field = np.array([[0.0, 4.0], [3.0, 0.0]])
    # Cell (0, 0) has slopes (3, 4), cell (0, 1) (-4, none), cell (1, 0) (none, -3), cell (1, 1) none.
    value = SmoothedTotalVariation(1.0, 1.0, epsilon=1e-9).value_and_grad(field)[0]
    assert value == pytest.approx(5 + 4 + 3, rel=1e-8)


def test_total_variation_of_small_slopes_is_quadratic() -> None:
    """|∇m|²/(2ε), to all digits: the naive √(s + ε²) - ε has none left here."""
    field = 1e-12 * np.arange(11.0)
    value = SmoothedTotalVariation(1.0, 1.0, epsilon=1.0).value_and_grad(field)[0]
    assert value == pytest.approx(10 * 1e-24 / 2, rel=ROUND_OFF, abs=0)


@pytest.mark.parametrize("name", ["tikhonov 1", "total variation", "tikhonov 1 masked", "total variation masked"])
def test_slope_penalties_ignore_a_constant(name: str) -> None:
    loss, x = LOSSES[name].make(), draw(4).normal(size=SHAPE)
    value, gradient = loss.value_and_grad(x)
    shifted_value, shifted_gradient = loss.value_and_grad(x + 3.0)
    assert shifted_value == pytest.approx(value, rel=ROUND_OFF)
    np.testing.assert_allclose(shifted_gradient, gradient, atol=1e-12)
    assert abs(np.sum(gradient)) < 1e-12


REFUSED = {
    "prediction's shape": (ShapeError, "n \\+ 1 samples", lambda: L2Misfit(np.ones((4, 3))).value_and_grad(np.ones((5, 3)))),
    "prediction that would broadcast": (ShapeError, "shape of the data", lambda: L2Misfit(np.ones((4, 3))).value_and_grad(np.ones((1, 3)))),
    "NaN data": (ParameterError, r"at \(1,\) and 0 more", lambda: L2Misfit([1.0, np.nan])),
    "weight's shape": (ShapeError, "weight", lambda: L2Misfit(np.ones(3), np.ones(4))),
    "weight larger than the data": (ShapeError, "weight", lambda: L2Misfit(np.ones(3), np.ones((2, 3)))),
    "negative weight": (ParameterError, "weight", lambda: L2Misfit(np.ones(3), -1.0)),
    "integer mask": (ParameterError, "mask != 0", lambda: L2Misfit(np.ones(3), mask=[1, 0, 1])),
    "mask's shape": (ShapeError, "mask", lambda: L2Misfit(np.ones(3), mask=[True, False])),
    "nothing to normalise by": (ParameterError, "normalise", lambda: L2Misfit(np.zeros(3), normalise=True)),
    "order": (ParameterError, "order", lambda: Tikhonov(1.0, 1.0, 2)),  # type: ignore[arg-type]
    "zero spacing": (ParameterError, "spacing", lambda: Tikhonov(1.0, (1.0, 0.0))),
    "negative penalty": (ParameterError, "weight", lambda: SmoothedTotalVariation(-1.0, 1.0, 1.0)),
    "zero epsilon": (ParameterError, "epsilon", lambda: SmoothedTotalVariation(1.0, 1.0, 0.0)),
    "NaN reference": (ParameterError, "reference", lambda: Tikhonov(1.0, 1.0, 0, np.nan)),
    "reference's shape": (ShapeError, "reference", lambda: Tikhonov(1.0, 1.0, 0, np.ones(3)).value_and_grad(np.ones(4))),
    "reference against mask": (ShapeError, "mask", lambda: Tikhonov(1.0, 1.0, 0, np.ones(3), np.ones(4, bool))),
    "field's axes": (ShapeError, "axis", lambda: Tikhonov(1.0, (1.0, 1.0)).value_and_grad(np.ones(4))),
    "field's mask": (ShapeError, "mask", lambda: SmoothedTotalVariation(1.0, 1.0, 1.0, np.ones(3, bool)).value_and_grad(np.ones(4))),
}


@pytest.mark.parametrize(("error", "match", "call"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(error: type[Exception], match: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=match):
        call()
