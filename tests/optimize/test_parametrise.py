"""Every parametrisation: derivatives, round trips, bounds, masks, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import diffsim as ds
from diffsim.errors import DiffsimError, DivergenceError, ParameterError, ShapeError
from diffsim.losses import L2Misfit, Tikhonov
from diffsim.optimize import Parametrisation, Regions, Stacked, Unknown

SHAPE = (6, 9)
ROUND_OFF = 1e-12
CENTRAL = 1e-8  # central differences at h = 1e-5
SLOPE = 0.1


def draw(*key: int) -> np.random.Generator:
    return np.random.default_rng([21, *key])


MASK = draw(0).random(SHAPE) < 0.6
SPEED = 1500 + 500 * draw(1).random(SHAPE)
SCALE = 50 + 100 * draw(2).random(SHAPE)
LABELS = np.repeat(np.arange(3), 18).reshape(SHAPE)
LABELS_WITH_GAPS = np.where(MASK, LABELS, -1)


class Case(NamedTuple):
    make: Callable[[], Unknown]
    smooth: bool = False


UNKNOWNS = {
    "identity": Case(lambda: Parametrisation(SHAPE)),
    "masked": Case(lambda: Parametrisation(SHAPE, mask=MASK, reference=SPEED, scale=100.0)),
    "scale a cell": Case(lambda: Parametrisation(SHAPE, mask=MASK, reference=SPEED, scale=SCALE)),
    "bounded": Case(lambda: Parametrisation(SHAPE, lower=1400.0, upper=SPEED + 1, reference=SPEED, scale=100.0)),
    "log": Case(lambda: Parametrisation(SHAPE, transform="log", scale=0.3, lower=0.1)),
    "log masked": Case(lambda: Parametrisation(SHAPE, mask=MASK, transform="log", reference=np.where(MASK, SPEED, -7.0), scale=0.1)),
    "logit": Case(lambda: Parametrisation(SHAPE, lower=SPEED - 600, upper=2500.0, transform="logit")),
    "smooth": Case(lambda: Parametrisation(SHAPE, reference=SPEED, scale=100.0, smooth=1.5), smooth=True),
    "smooth along one axis": Case(lambda: Parametrisation(SHAPE, reference=SPEED, smooth=(0.0, 2.0)), smooth=True),
    "smooth, wider than the grid": Case(lambda: Parametrisation(SHAPE, reference=SPEED, smooth=5.0), smooth=True),
    "smooth masked log": Case(
        lambda: Parametrisation(SHAPE, mask=MASK, reference=SPEED, scale=SCALE / 500, smooth=(1.0, 2.0), transform="log"), smooth=True
    ),
    "smooth logit": Case(
        lambda: Parametrisation(SHAPE, lower=1000.0, upper=3000.0, transform="logit", reference=SPEED, smooth=2), smooth=True
    ),
    "regions": Case(lambda: Regions(LABELS, reference=[1.0, 2.0, 3.0], scale=0.5)),
    "regions with a background": Case(
        lambda: Regions(LABELS_WITH_GAPS, background=SPEED, transform="log", lower=0.2, upper=[5.0, 6.0, 7.0])
    ),
}


@pytest.fixture(params=UNKNOWNS.values(), ids=UNKNOWNS.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def pullback(unknown: Unknown | Stacked, theta: np.ndarray, bar: Any) -> np.ndarray:
    """The gradient by theta from that by the field, or by the field of each name."""
    field = unknown.split if isinstance(unknown, Stacked) else unknown.to_field
    return ds.vjp(field, theta)[1](bar)[0]


def by_hand(unknown: Unknown, theta: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """The gradient by theta from that by the field, worked out in NumPy."""
    if isinstance(unknown, Regions):
        labels = np.asarray(unknown.labels)
        values = Parametrisation(
            (unknown.size,), np.float64, None, unknown.lower, unknown.upper, unknown.transform, unknown.scale, unknown.reference
        )
        return by_hand(values, theta, np.array([bar[labels == k].sum() for k in range(unknown.size)]))
    assert isinstance(unknown, Parametrisation)
    shape = unknown.shape
    free = np.ones(shape, bool) if unknown.mask is None else unknown.mask
    low, high, scale = (
        np.broadcast_to(np.nan if bound is None else bound, shape) for bound in (unknown.lower, unknown.upper, unknown.scale)
    )
    neutral = {"identity": np.zeros(shape), "log": np.ones(shape), "logit": (low + high) / 2}[unknown.transform]
    reference = neutral if unknown.reference is None else np.broadcast_to(unknown.reference, shape)

    def smoothed(values: np.ndarray) -> np.ndarray:
        field = np.zeros(shape)
        field[free] = values
        return gaussian_filter(field, unknown.smooth, mode="reflect")[free]

    z = np.zeros(shape)
    z[free] = scale[free] * smoothed(theta)
    if unknown.transform == "identity":
        slope = np.ones(shape)
    elif unknown.transform == "log":
        slope = reference * np.exp(z)
    else:
        odds = (reference - low) / (high - reference) * np.exp(z)
        slope = (high - low) * odds / (1 + odds) ** 2
    return smoothed((scale * slope * bar)[free])


def directions(size: int) -> list[np.ndarray]:
    """Three random ones, and the last entry alone: a corner of the grid."""
    return [draw(3, k).normal(size=size) for k in range(3)] + [np.eye(1, size, k=size - 1)[0]]


def test_pullback_agrees_with_central_differences(case: Case) -> None:
    unknown, h = case.make(), 1e-5
    theta = 0.5 * draw(4).normal(size=unknown.size)
    field_bar = draw(5).normal(size=SHAPE)
    theta_bar = pullback(unknown, theta, field_bar)
    assert theta_bar.shape == (unknown.size,)
    assert theta_bar.dtype == np.float64
    for v in directions(unknown.size):
        change = (unknown.to_field(theta + h * v) - unknown.to_field(theta - h * v)) / (2 * h)
        round_off = np.finfo(np.float64).eps * np.linalg.norm(unknown.to_field(theta)) / h
        tolerance = (CENTRAL * np.linalg.norm(change) + round_off) * np.linalg.norm(field_bar)
        assert abs(np.sum(change * field_bar) - np.sum(v * theta_bar)) <= tolerance


def test_pullback_is_the_one_worked_out_by_hand(case: Case) -> None:
    unknown = case.make()
    for k in range(3):
        theta, bar = 0.5 * draw(4, k).normal(size=unknown.size), draw(5, k).normal(size=SHAPE)
        expected = by_hand(unknown, theta, bar)
        np.testing.assert_allclose(pullback(unknown, theta, bar), expected, rtol=0, atol=ROUND_OFF * np.abs(expected).max())


def test_forward_and_reverse_mode_agree(case: Case) -> None:
    unknown = case.make()
    theta, bar = 0.5 * draw(4).normal(size=unknown.size), draw(5).normal(size=SHAPE)
    theta_bar = pullback(unknown, theta, bar)
    for v in directions(unknown.size):
        field, moved = ds.jvp(unknown.to_field, (theta,), (v,))
        np.testing.assert_array_equal(field, unknown.to_field(theta))
        assert abs(np.sum(moved * bar) - v @ theta_bar) <= ROUND_OFF * np.linalg.norm(moved) * np.linalg.norm(bar)


def test_hessian_vector_products(case: Case) -> None:
    """Hessian of ½ |field|², against differences of gradients by hand."""
    unknown, h = case.make(), 1e-5
    theta = 0.5 * draw(4).normal(size=unknown.size)
    for v in directions(unknown.size):
        after, before = (by_hand(unknown, t, unknown.to_field(t)) for t in (theta + h * v, theta - h * v))
        product = ds.hvp(lambda t: 0.5 * (unknown.to_field(t) ** 2).sum(), theta, v)
        round_off = np.finfo(np.float64).eps * np.abs(after).max() / h
        np.testing.assert_allclose(product, (after - before) / (2 * h), rtol=0, atol=CENTRAL * np.abs(product).max() + round_off)


def test_one_that_is_made_inside_of_a_derivative_is_no_other(case: Case) -> None:
    """The arrays that it keeps must not belong to the derivative during which it was made or first used."""
    built: list[Unknown] = []
    expected = case.make()
    theta = 0.5 * draw(4).normal(size=expected.size)

    def energy(theta: Any) -> Any:
        built.append(case.make())
        return (built[-1].to_field(theta) ** 2).sum()

    gradient = ds.grad(energy)(theta)
    np.testing.assert_array_equal(gradient, pullback(expected, theta, 2 * expected.to_field(theta)))
    np.testing.assert_array_equal(built[0].to_field(theta), expected.to_field(theta))
    np.testing.assert_array_equal(built[0].bounds().ub, expected.bounds().ub)


@pytest.mark.parametrize("transform", ["identity", "log"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bound_does_not_stop_the_gradient(transform: str, dtype: type) -> None:
    """The optimiser must learn that it should leave a bound, also where rounding put the value beyond it."""
    unknown = Parametrisation(SHAPE, dtype, lower=SPEED - 333.3, upper=SPEED + 0.7, transform=transform, reference=SPEED, scale=0.3)
    bar = draw(5).normal(size=SHAPE).astype(dtype)
    for end in (unknown.bounds().lb, unknown.bounds().ub):
        np.testing.assert_allclose(pullback(unknown, end, bar), by_hand(unknown, end, bar.astype(float)), rtol=ROUND_OFF)


def test_the_slope_of_logit_keeps_its_digits_far_out() -> None:
    """σ'(z) → e^-|z|: as a difference of 1 and a number near it, no digit of it would be left."""
    unknown = Parametrisation((4,), lower=0.0, upper=3.0, transform="logit")
    slope = pullback(unknown, np.array([-40.0, -700.0, 40.0, 700.0]), np.ones(4))
    np.testing.assert_allclose(slope, 3 * np.exp([-40.0, -700.0, -40.0, -700.0]), rtol=ROUND_OFF)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hessian_vector_product_through_a_misfit_a_penalty_and_a_parametrisation(dtype: type) -> None:
    """½ Σ w (m - d)² and a quadratic penalty of a linear parametrisation: the Hessian is Jᵀ (W + K) J, column by column."""
    unknown = Parametrisation(SHAPE, dtype, mask=MASK, reference=0.0, scale=SCALE, smooth=(1.0, 2.0))
    weight = draw(9).random(SHAPE)
    misfit = L2Misfit(np.where(MASK, SPEED, np.nan), weight, MASK)
    penalty = Tikhonov(0.3, 2.0, order=1, mask=MASK)
    columns = np.array([unknown.to_field(e)[MASK] for e in np.eye(unknown.size)]).T  # J
    curvature = np.array([ds.grad(penalty)(e)[MASK] for e in np.eye(SHAPE[0] * SHAPE[1]).reshape(-1, *SHAPE)[MASK.ravel()]])  # K
    hessian = columns.T @ (np.diag(weight[MASK]) + curvature) @ columns

    def loss(theta: Any) -> Any:
        field = unknown.to_field(theta)
        return misfit(field) + penalty(field)

    theta = draw(4).normal(size=unknown.size)
    for v in directions(unknown.size):
        product = ds.hvp(loss, theta, v)
        assert product.dtype == np.float64
        bound = 1e-11 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(product, hessian @ v, rtol=0, atol=bound * np.abs(hessian @ v).max())


def test_taylor_remainder_has_slope_2_with_the_pullback(case: Case) -> None:
    """Hessian of ½ |field|², which is curved even where the parametrisation is linear."""
    unknown = case.make()
    theta = 0.5 * draw(4).normal(size=unknown.size)
    field = unknown.to_field(theta)
    theta_bar = pullback(unknown, theta, field)
    steps = 1e-2 * 0.5 ** np.arange(4)
    for v in directions(unknown.size)[:3]:
        change = np.array([0.5 * np.sum(unknown.to_field(theta + h * v) ** 2 - field**2) for h in steps])
        assert np.diff(np.log2(np.abs(change))) == pytest.approx(-np.ones(3), abs=SLOPE)
        assert np.diff(np.log2(np.abs(change - steps * np.sum(v * theta_bar)))) == pytest.approx(-2 * np.ones(3), abs=SLOPE)


LINEAR = ["identity", "masked", "scale a cell", "smooth", "smooth along one axis", "smooth, wider than the grid", "regions"]


@pytest.mark.parametrize("name", LINEAR)
def test_dot_product_of_linear_parametrisations(name: str) -> None:
    """<J v, w> = <v, Jᵀ w>, where J v is the difference of two fields over a reference of round numbers."""
    unknown = UNKNOWNS[name].make()
    origin = unknown.to_field(np.zeros(unknown.size))
    for k, v in enumerate(directions(unknown.size)):
        w = draw(6, k).normal(size=SHAPE)
        forward = np.sum((unknown.to_field(1e3 * v) - origin) / 1e3 * w)
        backward = np.sum(v * pullback(unknown, np.zeros(unknown.size), w))
        assert abs(forward - backward) <= ROUND_OFF * np.linalg.norm(w) * np.linalg.norm(unknown.to_field(v))


@pytest.mark.parametrize("deviation", [0.7, 2.0, 5.0, (0.0, 3.0)])
@pytest.mark.parametrize("mask", [None, MASK], ids=["all free", "masked"])
def test_smoothing_is_its_own_transpose(deviation: float | tuple[float, float], mask: np.ndarray | None) -> None:
    unknown = Parametrisation(SHAPE, mask=mask, reference=0.0, smooth=deviation)
    matrix = np.array([unknown.to_field(row)[unknown._free] for row in np.eye(unknown.size)]).T
    transpose = np.array(
        [pullback(unknown, np.zeros(unknown.size), np.eye(1, 54, k=k).reshape(SHAPE)) for k in np.flatnonzero(unknown._free)]
    ).T
    np.testing.assert_allclose(transpose, matrix.T, rtol=0, atol=1e-15)
    assert np.linalg.norm(matrix - np.eye(unknown.size)) > 1
    if mask is None:
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=ROUND_OFF)  # a constant stays the same


def test_field_and_theta_go_there_and_back(case: Case) -> None:
    unknown = case.make()
    theta = (
        np.zeros(unknown.size)
        if case.smooth
        else np.clip(0.3 * draw(4).normal(size=unknown.size), unknown.bounds().lb, unknown.bounds().ub)
    )
    field = unknown.to_field(theta)
    np.testing.assert_allclose(unknown.from_field(field), theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(unknown.to_field(unknown.from_field(field)), field, rtol=ROUND_OFF)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transform", ["identity", "log", "logit"])
def test_the_field_stays_within_its_bounds_at_the_ends_of_theta(dtype: type, transform: str) -> None:
    unknown = Parametrisation(SHAPE, dtype, lower=SPEED - 333.3, upper=SPEED + 0.7, transform=transform, reference=SPEED, scale=0.3)
    bounds = unknown.bounds()
    low, high = (SPEED - 333.3).astype(dtype), (SPEED + 0.7).astype(dtype)
    far = 1e3 if transform == "logit" else np.inf
    for end, limit in ((np.clip(bounds.lb, -far, None), low), (np.clip(bounds.ub, None, far), high)):
        field = unknown.to_field(end)
        assert np.all((field >= low) & (field <= high))
        np.testing.assert_allclose(field, limit, rtol=2 * np.finfo(dtype).eps)
        if transform != "logit":
            theta = unknown.from_field(field)
            assert np.all((theta >= bounds.lb) & (theta <= bounds.ub))
            np.testing.assert_allclose(unknown.from_field(limit), end, rtol=0, atol=1e4 * np.finfo(dtype).eps)


def test_a_theta_beyond_its_bounds_is_not_clipped() -> None:
    """Clipping it would make the pullback wrong without a word."""
    unknown = Parametrisation((2,), lower=0.0, upper=1.0)
    np.testing.assert_array_equal(unknown.to_field(np.array([-2.0, 3.0])), [-2.0, 3.0])


def test_bounds_of_log() -> None:
    bounds = Parametrisation((2,), lower=[0.0, 1.0], upper=4.0, transform="log", scale=0.5, reference=2.0).bounds()
    np.testing.assert_allclose(bounds.lb, [-np.inf, -np.log(2) / 0.5])
    np.testing.assert_allclose(bounds.ub, np.log(2) / 0.5)


def test_cells_that_are_not_free_keep_the_reference() -> None:
    for smooth in (0.0, 2.0):
        field = Parametrisation(SHAPE, np.float32, MASK, reference=SPEED, smooth=smooth).to_field(np.full(np.count_nonzero(MASK), 9.0))
        assert field.dtype == np.float32
        np.testing.assert_array_equal(field[~MASK], SPEED.astype(np.float32)[~MASK])
        assert np.all(field[MASK] > SPEED[MASK])


def test_pullback_ignores_cells_that_are_not_free() -> None:
    unknown = Parametrisation(SHAPE, mask=MASK, reference=SPEED)
    assert not np.any(pullback(unknown, np.zeros(unknown.size), np.where(MASK, 0.0, np.nan)))


def test_a_field_does_not_alias_another() -> None:
    for name in ("identity", "regions"):
        unknown = UNKNOWNS[name].make()
        first = unknown.to_field(np.zeros(unknown.size))
        before = first.copy()
        unknown.to_field(np.ones(unknown.size))[:] = 7.0
        np.testing.assert_array_equal(first, before)


def test_regions_are_constant_and_sum() -> None:
    unknown = Regions(LABELS_WITH_GAPS, np.float32, background=-1.0, reference=[10.0, 20.0, 30.0])
    field = unknown.to_field(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(field, np.select([k == LABELS_WITH_GAPS for k in range(3)], [11, 22, 33], -1).astype(np.float32))
    counts = [np.count_nonzero(k == LABELS_WITH_GAPS) for k in range(3)]
    np.testing.assert_array_equal(pullback(unknown, np.zeros(3), np.ones(SHAPE, np.float32)), counts)


@pytest.mark.parametrize("transform", ["identity", "log"])
@pytest.mark.parametrize("upper", [0.1, 0.7, 3.3e-7])  # rounded to f32, the first and the last lie above themselves
def test_regions_at_their_bounds_have_variables_at_theirs(transform: str, upper: float) -> None:
    lower = upper / 3
    unknown = Regions(np.array([0, 1, 1]), np.float32, lower=lower, upper=upper, transform=transform, reference=0.5 * upper)
    for bound, end in ((lower, unknown.bounds().lb), (upper, unknown.bounds().ub)):
        theta = unknown.from_field(np.full(3, bound, np.float32))
        assert (theta >= unknown.bounds().lb).all() and (theta <= unknown.bounds().ub).all()
        np.testing.assert_allclose(theta, end, rtol=1e-6)
        np.testing.assert_allclose(unknown.to_field(theta), bound, rtol=1e-6)
    with pytest.raises(ParameterError, match="expected values between"):
        unknown.from_field(np.full(3, 1.0001 * upper, np.float32))


@pytest.mark.parametrize("upper", [0.1, 0.7, 0.8, 3.3e-7])
def test_regions_that_a_logit_brings_to_a_bound_have_variables(upper: float) -> None:
    unknown = Regions(np.array([0, 1, 1]), np.float32, lower=upper / 3, upper=upper, transform="logit", reference=0.5 * upper)
    for theta in (-25.0, -15.0, 15.0, 25.0):
        field = unknown.to_field(np.full(2, theta))
        if (field.astype(float) != upper).all():
            np.testing.assert_array_equal(unknown.to_field(unknown.from_field(field)), field)


def make_stack() -> Stacked:
    return Stacked({name.replace(" ", "_"): UNKNOWNS[name].make() for name in ("log", "masked", "regions", "bounded")})


def test_stacked_splits_joins_and_pulls_back() -> None:
    stack = make_stack()
    parts = {name: UNKNOWNS[name].make() for name in ("log", "masked", "regions", "bounded")}
    assert stack.size == sum(part.size for part in parts.values())
    theta = np.clip(0.3 * draw(7).normal(size=stack.size), stack.bounds().lb, stack.bounds().ub)
    fields = stack.split(theta)
    bars = {name: draw(8, k).normal(size=SHAPE) for k, name in enumerate(parts)}
    theta_bar = pullback(stack, theta, bars)
    start = 0
    for name, part in parts.items():
        own = slice(start, start := start + part.size)
        assert stack.slices[name] == own
        np.testing.assert_array_equal(fields[name], part.to_field(theta[own]))
        np.testing.assert_array_equal(theta_bar[own], pullback(part, theta[own], bars[name]))
        np.testing.assert_array_equal(stack.bounds().ub[own], part.bounds().ub)
        np.testing.assert_array_equal(stack.bounds().lb[own], part.bounds().lb)
    np.testing.assert_allclose(stack.join(dict(reversed(fields.items()))), theta, rtol=1e-9, atol=1e-9)


def test_smoothing_spreads_the_gradient_of_a_single_cell() -> None:
    bar = np.zeros(SHAPE)
    bar[3, 4] = 1.0
    gradient = pullback(Parametrisation(SHAPE, smooth=1.0), np.zeros(54), bar).reshape(SHAPE)
    assert gradient[3, 4] == gradient.max() < 0.2
    assert gradient[3, 5] == pytest.approx(gradient[3, 4] * np.exp(-0.5), rel=1e-3)  # mirror images from the edges


def test_an_overflow_is_reported() -> None:
    with pytest.raises(DivergenceError, match="lower `scale`"):
        Parametrisation((2,), transform="log").to_field(np.array([0.0, 1e4]))
    with pytest.raises(DivergenceError, match="1 others"):
        Parametrisation((2,), np.float32).to_field(np.array([0.0, 1e40]))


def make(**arguments: object) -> Parametrisation:
    return Parametrisation((3,), **arguments)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[type[DiffsimError], str, Callable[[], object]]] = {
    "integer dtype": (ParameterError, "dtype", lambda: make(dtype=np.int64)),
    "integer mask": (ParameterError, "mask", lambda: make(mask=[1, 0, 1], reference=0.0)),
    "empty mask": (ParameterError, "at least one", lambda: make(mask=np.zeros(3, bool), reference=0.0)),
    "mask's shape": (ShapeError, "mask", lambda: make(mask=np.ones(4, bool))),
    "mask without reference": (ParameterError, "give `reference=`", lambda: make(mask=np.array([True, False, True]))),
    "zero scale": (ParameterError, "scale", lambda: make(scale=0.0)),
    "crossed bounds": (ParameterError, "bounds", lambda: make(lower=1.0, upper=0.0)),
    "NaN bound": (ParameterError, "bounds", lambda: make(lower=np.nan)),
    "bound's shape": (ShapeError, "lower", lambda: make(lower=np.zeros(4))),
    "NaN reference": (ParameterError, "reference", lambda: make(reference=np.nan)),
    "transform": (ParameterError, "transform", lambda: make(transform="sqrt")),
    "log of a negative reference": (ParameterError, "reference", lambda: make(transform="log", reference=-1.0)),
    "log below zero": (ParameterError, "upper", lambda: make(transform="log", upper=0.0)),
    "logit without bounds": (ParameterError, "logit", lambda: make(transform="logit", lower=0.0)),
    "logit from a bound": (ParameterError, "reference", lambda: make(transform="logit", lower=0.0, upper=1.0, reference=1.0)),
    "smooth with bounds": (ParameterError, 'use transform="logit"', lambda: make(smooth=1.0, lower=0.0)),
    "negative smooth": (ParameterError, "smooth", lambda: make(smooth=-1.0)),
    "smooth's axes": (ShapeError, "smooth", lambda: make(smooth=(1.0, 1.0))),
    "undoing smooth": (ParameterError, "reference=", lambda: make(smooth=1.0).from_field(np.ones(3))),
    "theta's shape": (ShapeError, r"\(3,\)", lambda: make().to_field(np.zeros(4))),
    "theta's shape in a derivative": (ShapeError, "theta", lambda: pullback(make(), np.zeros(1), np.zeros(3))),
    "theta's type in a derivative": (ParameterError, "theta", lambda: pullback(make(), np.zeros(3, complex), np.zeros(3))),
    "field's shape": (ShapeError, "field", lambda: make().from_field(np.zeros((3, 1)))),
    "field out of bounds": (ParameterError, r"at \(1,\) and 0 more", lambda: make(lower=0.0).from_field(np.array([0.0, -1.0, 1.0]))),
    "NaN field": (ParameterError, "field", lambda: make().from_field(np.array([0.0, np.nan, 1.0]))),
    "zero field of log": (ParameterError, "strictly", lambda: make(transform="log").from_field(np.zeros(3))),
    "float labels": (ParameterError, "labels", lambda: Regions(np.zeros(3))),  # type: ignore[arg-type]
    "missing label": (ParameterError, "renumber", lambda: Regions(np.array([0, 2]))),
    "no region": (ParameterError, "labels", lambda: Regions(np.array([-1, -1]), background=0.0)),
    "label below -1": (ParameterError, "labels", lambda: Regions(np.array([0, -2]), background=0.0)),
    "regions without background": (ParameterError, "background", lambda: Regions(np.array([0, -1]))),
    "regions' bounds": (ShapeError, "lower", lambda: Regions(np.array([0, 1]), lower=[0.0, 0.0, 0.0])),
    "field that varies in a region": (
        ParameterError,
        "region 1",
        lambda: Regions(np.array([0, 1, 1])).from_field(np.array([1.0, 2.0, 3.0])),
    ),
    "no parts": (ParameterError, "parts", lambda: Stacked({})),
    "missing field": (ParameterError, "fields", lambda: make_stack().join({"log": np.ones(SHAPE)})),
    "stacked theta's shape": (ShapeError, "theta", lambda: make_stack().split(np.zeros(3))),
}


@pytest.mark.parametrize(("error", "match", "call"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(error: type[DiffsimError], match: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=match):
        call()
