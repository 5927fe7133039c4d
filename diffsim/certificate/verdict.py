"""Judge the gradient by the loss along a direction: it is right, it is wrong, or it cannot be judged there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffsim.certificate.beside import ALLOWED, Beside, gradients_beside
from diffsim.certificate.line import Line, cannot_judge
from diffsim.certificate.one_sided import Side, side
from diffsim.certificate.path import Path, round_off, walkable
from diffsim.certificate.taylor import SLOPE_MARGIN, Taylor, taylor

SURE = 10.0
"""Two slopes differ if they do by more than this many of their errors."""
AGREES = 1e-8
"""Relative difference of two slopes that are called equal, however exact both are."""
BLUNT = 1e-4
"""Slopes by differences that are not known to this share of the gradient's own judge nothing but gross errors."""


NEARLY = 0.3
"""The gradients beside the point are not off as the one at the point seems to be if they leave at most this share of the error."""
KINK = 0.1
"""Where the slopes on both sides of a kink differ by less than this share of the gradient, a gradient between them is of use."""
FLAT = (
    "; the gradients close to this point give the slope of the loss, so the point lies on a kink that hides from both sides, as a limiter "
    "has it at a flat state, a lake at rest; take the limiter van_albada(eps), or move the point"
)


def judge(label: str, path: Path) -> list[Line]:
    """The lines of a Taylor test along a direction.

    If the remainders fall as h and h², the gradient is right. If not, the slopes of the loss on both sides of the point are measured:
    where they agree, the gradient must be this slope. Where they differ there is a kink: a gradient between them is one that a
    generalised derivative may have, and nothing more can be said of it; outside of them it is wrong.

    Args:
        label: of the direction.
        path: the loss along it.
    """
    name = f"Taylor with gradient, {label}"
    walked = walkable(path)
    if walked is None:
        return [cannot_judge(name, f"the loss cannot be computed however short the step ({path.refused}); give `bounds` or `directions`")]
    if walked.noise is None:
        walked.noise = path.noise = round_off(walked)
    path, expansion = walked, taylor(walked)
    if not expansion.effect:
        return [cannot_judge(name, "neither the loss nor its gradient changes along this direction; take one that the loss depends on")]
    if expansion.right:
        return [
            _slope_line(f"Taylor without gradient, {label}", 1, expansion.without, expansion.note),
            _slope_line(name, 2, expansion.with_gradient, expansion.note),
        ]
    return [_by_sides(label, path, expansion)]


def _slope_line(name: str, order: int, slope: float, note: str) -> Line:
    return Line(name, slope, f"{order - SLOPE_MARGIN:g} to {order + SLOPE_MARGIN:g}", True, note)


def _by_sides(label: str, path: Path, expansion: Taylor) -> Line:
    """The verdict by the slopes on both sides, and where these leave it open, by the gradients beside the point."""
    name = f"Taylor with gradient, {label}"
    limit = f"{2 - SLOPE_MARGIN:g} to {2 + SLOPE_MARGIN:g}"
    above, below = side(path), _below(path)
    jump = max(above.jump, below.jump, key=abs)
    if jump:
        return cannot_judge(
            name,
            f"a jump at this point along this direction: the loss changes by {jump:.3g} however short the step, so it has no derivative; "
            "move the point, or leave out the parts that jump",
        )
    slopes = [one for one in (above, below) if np.isfinite(one.slope)]
    if not slopes:
        return _by_gradients(label, path, "the difference quotients of the loss do not settle on either side", "give a smaller `scale`")
    if len(slopes) == 1:
        return _one_side(name, limit, path, expansion, slopes[0])
    error = sum(one.error for one in slopes)
    low, high = min(one.slope for one in slopes), max(one.slope for one in slopes)
    outside = max(low - path.slope, path.slope - high, 0.0)
    tolerance = max(SURE * error, AGREES * path.size)
    kink = high - low > tolerance
    seen = f"one-sided slopes {above.slope:.6g} and {below.slope:.6g}, the gradient gives {path.slope:.6g}"
    if outside > tolerance:
        nearest = abs(low if path.slope < low else high)
        share = outside / (nearest if nearest > tolerance else outside)
        where = "outside of the slopes on both sides of a kink" if kink else "not the slope of the loss"
        failed = Line(name, expansion.with_gradient, limit, False, f"{where}: {seen}, off by {100 * share:.3g} %")
        return _outside(label, path, failed, outside, f"kinks close by mislead differences at the point: {seen}")
    if kink:
        inside = (
            "between them, as a generalised derivative may be"
            if not outside
            else f"outside of them, by less than their error {tolerance:.3g}"
        )
        why = f"a kink at this point along this direction: {seen}, which is {inside}"
        return _by_gradients(label, path, why, "move the point, or give other `directions`", (high - low) / path.size)
    return _agreed(label, path, expansion, 0.5 * (low + high), tolerance)


def _outside(label: str, path: Path, failed: Line, outside: float, misled: str) -> Line:
    """The verdict if the gradient is not between the slopes on both sides, unless kinks close by made these slopes.

    Args:
        label: of the direction.
        path: the loss along it.
        failed: the line if the slopes are right.
        outside: how far outside the gradient is.
        misled: message if they are not.
    """
    beside = gradients_beside(path)
    if beside is None or beside.wrong:
        return failed
    explained = beside.right and bool((beside.mismatch + beside.uncertainty) * path.size <= NEARLY * outside)
    if beside.smooth is None and explained:
        return cannot_judge(failed.name, f"{misled}, or one at it that no step is short enough to see; give a larger `scale`")
    if not beside.smooth:
        return replace(failed, note=failed.note + FLAT * explained)
    if explained:
        return _beside_line(label, beside, misled)
    if beside.mismatch * path.size < 0.5 * outside:
        return cannot_judge(failed.name, f"{misled}; move the point, or give other `directions`")
    return failed


def _by_gradients(label: str, path: Path, why: str, remedy: str, kink: float | None = None) -> Line:
    """The verdict by the gradients beside the point, where differences at the point leave it open.

    Args:
        label: of the direction.
        path: the loss along it.
        why: the reason that leaves it open.
        remedy: remedy if the gradients beside the point leave it open too.
        kink: difference of the slopes on both sides, relative to the gradient, which lies between them; None: it was not measured.
    """
    name = f"Taylor with gradient, {label}"
    beside = gradients_beside(path)
    if beside is None:
        return cannot_judge(name, f"{why}; {remedy}")
    if beside.wrong:
        return Line(f"slope by gradients beside the point, {label}", beside.mismatch, f"at most {ALLOWED:g}", False, why)
    if beside.right and (beside.smooth or (beside.between and kink is not None and kink <= KINK)):
        return _beside_line(label, beside, why)
    return cannot_judge(name, f"{why}{'. The gradients beside it are right' * beside.right}; {remedy}")


def _beside_line(label: str, beside: Beside, why: str) -> Line:
    return Line(f"slope by gradients beside the point, {label}", beside.mismatch, f"at most {ALLOWED:g}", True, why)


def _below(path: Path) -> Side:
    """The slope for steps below 0, in the direction of the path."""
    turned = side(path.turned()) if path.back else Side(np.nan, np.inf, 0.0)
    return Side(-turned.slope, turned.error, turned.jump)


def _one_side(name: str, limit: str, path: Path, expansion: Taylor, only: Side) -> Line:
    """The verdict if the loss can be computed on one side only."""
    tolerance = max(SURE * only.error, AGREES * path.size)
    if abs(only.slope - path.slope) <= tolerance:
        return _agreed(name.partition(", ")[2], path, expansion, only.slope, tolerance)
    return cannot_judge(
        name,
        f"the loss can be computed on one side alone, where its slope is {only.slope:.6g}; the gradient gives {path.slope:.6g}. There is a "
        "kink at this point, or the gradient is wrong; move the point inside of the admissible range",
        expansion.with_gradient,
        limit,
    )


def _agreed(label: str, path: Path, expansion: Taylor, slope: float, tolerance: float) -> Line:
    """The verdict if the gradient equals the slope by differences within their error."""
    if tolerance > BLUNT * path.size:
        why = f"the gradient's term, {path.slope:.3g} times the step, hides behind curvature and round-off of the loss, {path.value:.3g}"
        remedy = "move the point away from a minimum, give a larger `scale`, or subtract the constant part of the loss"
        return _by_gradients(label, path, why, remedy)
    apart = abs(slope - path.slope) / path.size
    note = f"the remainders have the slope {expansion.with_gradient:.3g}, so differences of both sides judge; {expansion.note}"
    return Line(f"slope by differences, {label}", apart, f"at most {tolerance / path.size:.1e}", True, note)
