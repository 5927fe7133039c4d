"""Verdicts on gradients of functions whose slopes are known: right ones pass, wrong ones fail, kinks are named, at every scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from diffsim.certificate.beside import gradients_beside
from diffsim.certificate.line import Line, judged
from diffsim.certificate.one_sided import side
from diffsim.certificate.path import Path, finest_step
from diffsim.certificate.verdict import judge
from diffsim.errors import DivergenceError
from tests.sampled import together

SCALES = (1e-12, 1e-6, 1.0, 1e6, 1e12)
FAULTS = (1e-3, -1e-3, 1.0, -2.0)
"""Relative errors that no leniency may hide."""


def verdict(f: Callable[[float], float], slope: float, size: float | None = None, **more: object) -> Line:
    """The last line of the Taylor test of f at 0, whose derivative a gradient gives as `slope`."""
    path = Path(f, f(0.0), slope, abs(slope) if size is None else size, **more)  # type: ignore[arg-type]
    lines = judge("here", path)
    assert len({line.passed for line in lines}) == 1
    return lines[-1]


SMOOTH: dict[str, tuple[Callable[[float], float], float]] = {
    "linear": (lambda h: 2.0 + 3.0 * h, 3.0),
    "quadratic": (lambda h: (1.0 + h) ** 2, 2.0),
    "quadratic, far from its minimum": (lambda h: (1.0 + 1e-3 * h) ** 2, 2e-3),
    "quadratic, nearly flat": (lambda h: 1.0 + (1e-3 + h) ** 2, 2e-3),
    "all but flat": (lambda h: 1.0 + (1e-5 + h) ** 2, 2e-5),
    "perfect fit nearby": (lambda h: (1e-9 + h) ** 2, 2e-9),
    "quartic": (lambda h: (0.5 + h) ** 4, 0.5),
    "cubic without curvature": (lambda h: h + h**3, 1.0),
    "quartic without curvature": (lambda h: h + h**4, 1.0),
    "hidden curvature": (lambda h: h + 1e-4 * h**2 + 50.0 * h**3, 1.0),
    "weights as of WENO, which change within a short step": (lambda h: 1.0 + h + 2e-3 * h**2 + 2e-3 * h**3 / (1e-3 + h**2), 1.0),
    "exponential": (lambda h: float(np.exp(3.0 * h)), 3.0),
    "stiff": (lambda h: float(np.sin(1e3 * h + 0.3)), 1e3 * float(np.cos(0.3))),
    "beside a constant": (lambda h: 1e6 + float(np.sin(h + 0.3)), float(np.cos(0.3))),
}


@together(SMOOTH)
@pytest.mark.parametrize("scale", SCALES)
def test_right_gradients_pass_at_every_scale_of_the_loss(name: str, scale: float) -> None:
    f, slope = SMOOTH[name]
    line = verdict(lambda h: scale * f(h), scale * slope)
    assert line.passed is True, line


@together(SMOOTH)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scale", SCALES)
def test_wrong_gradients_fail_at_every_scale_of_the_loss(name: str, fault: float, scale: float) -> None:
    f, slope = SMOOTH[name]
    line = verdict(lambda h: scale * f(h), scale * slope * (1 + fault))
    assert line.passed is False, line


@pytest.mark.parametrize("unit", SCALES)
@pytest.mark.parametrize(("fault", "passed"), [(0.0, True), *((fault, False) for fault in FAULTS)])
def test_inputs_of_every_unit(unit: float, fault: float, passed: bool) -> None:
    """A field of 1e9 Pa or 1e-3 m: the step is a share of the largest one, and that is a share of the field."""
    x = 3.0 * unit
    line = verdict(lambda h: float(np.sin((x + h) / unit)), (1 + fault) * float(np.cos(3.0)) / unit, largest=0.1 * x)
    assert line.passed is passed, line


def kinked(below: float, above: float, curvature: float, at: float = 0.0) -> Callable[[float], float]:
    return lambda h: 1.0 + (above if h > at else below) * (h - at) + curvature * h * h


KINKS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "abs": (abs, -1.0, 1.0),
    "abs beside a slope": (lambda h: 2.0 * h + abs(h) + h * h, 1.0, 3.0),
    "max": (lambda h: max(1.0 + 0.7 * h, 1.0 + 1.3 * h), 0.7, 1.3),
    "min": (lambda h: min(np.sin(0.7 * h), np.sin(1.3 * h)), 1.3, 0.7),
    "upwind switch": (lambda h: h * (1.0 + h if h > 0 else 0.5 + h), 0.5, 1.0),
    "where": (lambda h: float(np.where(h > 0, np.exp(h), 1.0 + 0.99 * h)), 0.99, 1.0),
    "ramp": (lambda h: 3.0 + max(h, 0.0), 0.0, 1.0),
    "small kink": (kinked(1.0, 1.01, 0.5), 1.0, 1.01),
    "kink within round-off": (kinked(1.0, 2.0, 0.5, 1e-13), 1.0, 2.0),
}


@together(KINKS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("scale", SCALES)
def test_a_gradient_between_the_slopes_of_a_kink_is_not_judged_and_the_kink_is_named(name: str, share: float, scale: float) -> None:
    f, below, above = KINKS[name]
    line = verdict(lambda h: scale * f(h), scale * (below + share * (above - below)), scale)
    assert line.passed is None, line
    assert "a kink at this point along this direction: one-sided slopes" in str(line)
    for slope in (below, above):
        assert any(np.isclose(float(word), scale * slope, rtol=1e-5, atol=1e-9 * scale) for word in numbers(line.note)), (line, slope)


def numbers(text: str) -> list[float]:
    values = []
    for word in text.replace(",", " ").split():
        try:
            values.append(float(word))
        except ValueError:
            continue
    return values


@together(KINKS)
@pytest.mark.parametrize("beyond", [-10.0, -1e-1, -1e-3, 1e-3, 1e-1, 10.0])
def test_a_gradient_outside_of_the_slopes_of_a_kink_fails(name: str, beyond: float) -> None:
    f, below, above = KINKS[name]
    nearest = min(below, above) if beyond < 0 else max(below, above)
    line = verdict(f, nearest + beyond, 1.0)
    assert line.passed is False, line
    assert "outside of the slopes on both sides of a kink" in line.note


def test_kinks_that_cancel_leave_a_slope_which_the_gradient_must_have() -> None:
    """ramp(x) - ramp(-x) is x; each ramp's derivative is one of many at 0, their difference is not."""
    line = verdict(lambda h: max(h, 0.0) - max(-h, 0.0), 0.0, 1.0)
    assert line.passed is False, line


@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-4, 1e-5])
def test_a_kink_beside_the_point_is_stepped_short_of(distance: float) -> None:
    f = kinked(1.0, 2.0, 0.5, distance)
    assert verdict(f, 1.0).passed is True
    for fault in FAULTS:
        assert verdict(f, 1.0 + fault).passed is not True


def many_kinks(seed: int, weight: float = 0.2) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """A loss with 300 kinks at all distances from the point, as a front that wets one cell after the other has them, and its derivative."""
    rng = np.random.default_rng(seed)
    at = rng.choice([-1.0, 1.0], 300) * 10.0 ** rng.uniform(-11, 0, 300)
    jumps = weight / 300 * rng.standard_normal(300)

    def loss(h: float) -> float:
        return float(1.0 + np.sin(h + 0.3) + np.sum(jumps * (np.abs(h - at) - np.abs(at))))

    return loss, lambda h: float(np.cos(h + 0.3) + np.sum(jumps * np.sign(h - at)))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("weight", [0.05, 0.2])
@together(range(30))
def test_gradients_beside_the_point_judge_where_kinks_are_many(seed: int, weight: float, scale: float) -> None:
    loss, slope = many_kinks(seed, weight)
    for fault in (0.0, *FAULTS):

        def gradient(h: float, share: float = 1 + fault) -> float:
            return share * scale * slope(h)

        line = verdict(lambda h: scale * loss(h), gradient(0.0), elsewhere=gradient)
        if fault == 0:
            assert line.passed is True or (weight > 0.1 and line.passed is None), line
        else:
            assert line.passed is False or (abs(fault) < 0.1 and line.passed is None), line


def test_without_gradients_beside_the_point_many_kinks_cannot_be_judged_or_are_misjudged() -> None:
    """The reason why gradients beside the point are asked at all."""
    verdicts = {verdict(loss, slope(0.0)).passed for loss, slope in map(many_kinks, range(30))}
    assert verdicts - {True}


@together(KINKS)
@pytest.mark.parametrize("scale", SCALES)
def test_a_small_kink_at_the_point_passes_if_the_gradients_beside_it_are_right(name: str, scale: float) -> None:
    f, below, above = KINKS[name]
    kink = abs(above - below) / max(abs(above), abs(below))

    def slope(h: float) -> float:
        if abs(h) < 1e-9:  # too close for differences
            return 0.5 * (below + above) if h == 0 else above if h > 0 else below
        e = 1e-6 * abs(h)
        return (f(h + e) - f(h - e)) / (2 * e)

    for fault in (0.0, *FAULTS[2:]):
        line = verdict(
            lambda h: scale * f(h),
            scale * 0.5 * (below + above),
            scale * max(abs(below), abs(above)),
            elsewhere=lambda h, share=1 + fault: share * scale * slope(h),
        )
        assert line.passed is (False if fault else True if kink < 0.1 else None), line
        assert "a kink at this point" in line.note and ("The gradients beside it are right" in line.note) == (line.passed is None)


def test_a_kink_that_both_sides_share_fails_as_a_flat_state() -> None:
    """A limiter at a flat state gives the mean of slopes that no side has: the gradient beside the point is right, the one at it not."""
    line = verdict(lambda h: 1.0 - 60.0 * h, -28.7, elsewhere=lambda h: -28.7 if h == 0 else -60.0)
    assert line.passed is False and "lake at rest" in line.note, line


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("share", "said"), [(1e-3, "0.1 %"), (-0.25, "25 %"), (-2.0, "200 %"), (1e-5, "0.001 %")])
@pytest.mark.parametrize("known", [False, True])
def test_a_wrong_gradient_is_off_by_a_share_of_the_slope(scale: float, share: float, said: str, known: bool) -> None:
    f, slope = SMOOTH["exponential"]
    elsewhere = (lambda h: scale * slope * f(h) * (1 + share)) if known else None
    line = verdict(lambda h: scale * f(h), scale * slope * (1 + share), elsewhere=elsewhere)
    assert line.passed is False and line.note.endswith(f", off by {said}"), line


def test_beside_a_kink_a_gradient_is_off_by_a_share_of_the_nearer_slope() -> None:
    f, below, above = KINKS["abs beside a slope"]
    assert verdict(f, 1.01 * above).note.endswith(", off by 1 %")
    assert verdict(f, 0.5 * below).note.endswith(", off by 50 %")


def test_a_gradient_of_a_loss_that_does_not_change_is_off_by_all_of_it() -> None:
    assert verdict(lambda h: 4.0, 1.0).note.endswith(", off by 100 %")


def test_a_jump_is_named() -> None:
    line = verdict(lambda h: 1.0 + h + 0.1 * (h > 0), 1.0)
    assert line.passed is None and "a jump at this point" in line.note, line


@pytest.mark.parametrize("edge", [0.5, 1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("outside", ["nan", "inf", "raises"])
def test_steps_grow_shorter_where_the_loss_is_not_finite(edge: float, outside: str) -> None:
    def f(h: float) -> float:
        if h < edge:
            return float(np.exp(h))
        if outside == "raises":
            raise DivergenceError("blown up")
        return float(outside)

    assert verdict(f, 1.0).passed is True
    assert verdict(f, 1.001).passed is False


def test_one_side_alone() -> None:
    def f(h: float) -> float:
        return float(np.sqrt(h + 1e-30) ** 3 + h) if h >= 0 else float("nan")

    assert verdict(lambda h: float(np.exp(-h)) if h <= 0 else float("nan"), -1.0).passed is True
    line = verdict(lambda h: f(h) + 1.0, 2.0)
    assert line.passed is not True and "on one side alone" in line.note, line


def test_nowhere_finite() -> None:
    line = verdict(lambda h: 1.0 if h == 0 else float("nan"), 1.0)
    assert line.passed is None and "cannot be computed however short the step" in line.note
    assert "bounds" in line.note


def test_no_effect() -> None:
    line = verdict(lambda h: 4.0, 0.0)
    assert line.passed is None and "neither the loss nor its gradient changes" in line.note
    assert verdict(lambda h: 4.0, 1.0).passed is False
    assert verdict(lambda h: 4.0 + h, 0.0, 0.0).passed is False


@pytest.mark.parametrize("f", [lambda h: 1e-320 * h, lambda h: 1e-310 * (1 + h) ** 2], ids=["linear", "quadratic"])
def test_losses_that_have_not_all_digits(f: Callable[[float], float]) -> None:
    assert verdict(f, f(1.0)).passed is None


def test_a_slope_below_round_off_is_not_judged() -> None:
    """At a minimum there is no slope to compare with, and beside 1e12 none is seen."""
    assert verdict(lambda h: 1.0 + h * h, 1e-17).passed is None
    line = verdict(lambda h: 1e12 + 1e-6 * h, 1e-6)
    assert line.passed is None and "round-off" in line.note, line


@together(KINKS)
@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_one_sided_slopes_are_exact(name: str, noise: float) -> None:
    (f, below, above), rng = KINKS[name], np.random.default_rng(0)
    path = Path(lambda h: f(h) + noise * rng.uniform(-1, 1), f(0.0), 0.0, 1.0, noise=2 * noise)
    upper, lower, most = side(path), side(path.turned()), 1e-6 if noise else 1e-9  # by extrapolation; differences alone leave 1e-7
    assert abs(upper.slope - above) <= 10 * upper.error + 1e-12 and upper.error < most
    assert abs(-lower.slope - below) <= 10 * lower.error + 1e-12 and lower.error < most


def test_a_noisy_loss_is_not_taken_for_a_wrong_gradient() -> None:
    """Round-off far above the last digit, as of a loss that is a small difference of large numbers."""
    rng = np.random.default_rng(1)
    noisy = [verdict(lambda h: 1.0 + float(np.sin(h + 0.3)) + 1e-9 * rng.uniform(-1, 1), float(np.cos(0.3))) for _ in range(20)]
    assert not [line for line in noisy if line.passed is False]
    wrong = [verdict(lambda h: 1.0 + float(np.sin(h + 0.3)) + 1e-9 * rng.uniform(-1, 1), 1.01 * float(np.cos(0.3))) for _ in range(20)]
    assert not [line for line in wrong if line.passed is True]
    assert sum(line.passed is False for line in wrong) > 15


def test_the_worst_line_decides() -> None:
    lines = {verdict: Line("a", 0.0, "", verdict) for verdict in (True, False, None)}
    assert judged((lines[True], lines[None])) is None
    assert judged((lines[True], lines[None], lines[False])) is False
    assert judged((lines[True],)) is True
    assert judged(()) is None
    cell = Line("a cell", 0.0, "", None, needed=False)
    assert judged((lines[True], cell)) is True
    assert judged((cell,)) is None
    assert judged((lines[True], Line("a cell", 0.0, "", False, needed=False))) is False


@pytest.mark.parametrize("off", [5e-3, -2e-2])
def test_a_gradient_that_is_wrong_at_the_point_alone_does_not_pass_by_those_beside_it(off: float) -> None:
    rng = np.random.default_rng(4)
    at, jumps = rng.choice([-1.0, 1.0], 60) * 10.0 ** rng.uniform(-9, -2, 60), 1e-3 * rng.standard_normal(60)

    def slope(h: float) -> float:
        return float(np.cos(h + 0.3) + np.sum(jumps * np.sign(h - at)))

    line = verdict(
        lambda h: float(1.0 + np.sin(h + 0.3) + np.sum(jumps * (np.abs(h - at) - np.abs(at)))),
        slope(0.0) * (1 + off),
        elsewhere=lambda h: slope(h) if h else slope(0.0) * (1 + off),
    )
    assert line.passed is not True, line


@pytest.mark.parametrize("gradient", [lambda h: 0.0, lambda h: float(h > 0)])
def test_gradients_of_0_beside_the_point_are_not_taken_for_right(gradient: Callable[[float], float]) -> None:
    comparison = gradients_beside(Path(lambda h: h, 0.0, 1.0, 1.0, elsewhere=gradient))
    assert comparison is not None and not comparison.right, comparison


def test_a_step_that_does_not_move_the_point_says_nothing_of_kinks_there() -> None:
    moved = finest_step(np.full(4, 4000.0), np.full(4, 0.1))
    assert 4000.0 + moved * 0.1 != 4000.0
    path = Path(lambda h: h, 0.0, 1.0, 1.0, elsewhere=lambda h: 1.0 if abs(h) >= moved else 5.0, finest=moved)
    comparison = gradients_beside(path)
    assert comparison is not None and comparison.smooth
    path = Path(lambda h: h, 0.0, 1.0, 1.0, elsewhere=lambda h: 1.0, finest=1e-3)
    comparison = gradients_beside(path)
    assert comparison is not None and comparison.smooth is None
