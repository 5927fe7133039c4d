"""Weights along one axis: what they reproduce, and where the cells beyond a side go."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.boundary import Dirichlet, bound
from diffsim.stepping.declare.interpolation import RADIUS, Along, folded, linear, sinc

OFFSETS = np.linspace(0.0, 1.0, 41)
WAVES = {20: 6e-4, 10: 6e-4, 8: 8e-4, 6: 8e-4, 5: 1.1e-3, 4: 1.5e-3}
"""Cells a wavelength -> bound of the error of the sinc; measured 4.6e-4, 4.7e-4, 7.2e-4, 4.0e-4, 1.0e-3 and 1.3e-3."""
SLOPES = {20: 2e-2, 10: 5e-3, 6: 5e-3, 4: 5e-3}
"""The same of its slope, relative to the largest slope of the wave; measured 1.4e-2, 3.7e-3, 3.9e-3 and 3.1e-3."""


def errors(way, cells: int) -> tuple[float, float]:
    """The largest error of the value, and that of the slope, of a wave of amplitude 1 and so many cells."""
    k, errors_of_waves = 2 * np.pi / cells, []
    for at in OFFSETS:
        along, exact = way(float(at)), np.exp(1j * k * at)
        wave = np.exp(1j * k * along.cells)
        errors_of_waves.append((abs(along.values @ wave - exact), abs(along.slopes @ wave - 1j * k * exact) / k))
    return tuple(np.max(errors_of_waves, axis=0))


@pytest.mark.parametrize("cells", WAVES)
def test_the_sinc_reproduces_waves(cells: int) -> None:
    value, slope = errors(sinc, cells)
    assert value < WAVES[cells]
    assert slope < SLOPES.get(cells, 5e-3)
    assert errors(linear, cells)[0] > 20 * value


def test_the_slope_is_the_derivative_of_the_value() -> None:
    for at in (0.3, 2.71, 5.0):
        high, low = sinc(at + 1e-5), sinc(at - 1e-5)
        weights = dict.fromkeys(range(-RADIUS, 12), 0.0)
        for along, sign in ((high, 1), (low, -1)):
            for cell, weight in zip(along.cells, along.values, strict=True):
                weights[int(cell)] += sign * weight / 2e-5
        along = sinc(at)
        edge = 2 * abs(at - round(at)) < 1e-9  # a cell at the end of the window has a slope from one side alone
        for cell, weight in zip(along.cells, along.slopes, strict=True):
            if not edge or abs(cell - at) < RADIUS:
                assert weights[int(cell)] == pytest.approx(weight, abs=1e-8)


@pytest.mark.parametrize("way", [linear, sinc])
def test_on_a_cell_it_alone_counts(way) -> None:
    along = way(6.0 + 1e-12)
    assert along.cells[along.values != 0].tolist() == [6] and along.values.max() == 1
    assert along.slopes == pytest.approx(-along.slopes[::-1], abs=1e-14)  # and the slope is the same from both sides


@pytest.mark.parametrize(("rule", "sign"), [("odd_image", -1), ("mirror", 1), ("antiperiodic", -1), ("periodic", 1)])
@pytest.mark.parametrize("place", [0, 1])
def test_a_cell_beyond_a_side_counts_for_its_image(rule: str, sign: int, place: int) -> None:
    """Against the field itself, continued beyond the side as the rule says."""
    n, rng = 12, np.random.default_rng(0)
    (sides,) = bound((rule,), (place,), (1.0,))
    field = rng.normal(size=n)
    for at in (-0.2, 0.7, 1.9, 8.4, 10.6):
        along = sinc(at)
        inside = folded(along, sides, n)
        assert inside is not None and (np.diff(inside.cells) > 0).all()
        total = 0.0
        for cell, weight in zip(along.cells, along.values, strict=True):
            if 0 <= cell < n:
                value = field[cell]
            elif "periodic" in rule:
                value = sign * field[cell % n]
            elif not place:
                value = sign * field[-1 - cell if cell < 0 else 2 * n - 1 - cell]
            elif cell >= n:  # the last value lies on the high side
                value = sign * field[2 * (n - 1) - cell]
            else:  # the low side has a value between those that are stored: 0, or that of a parabola without a slope there
                value = sign * field[-2 - cell] if cell < -1 else {-1: 0.0, 1: (4 * field[0] - field[1]) / 3}[sign]
            total += weight * value
        assert inside.values @ field[inside.cells] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("rule", ["zero", Dirichlet(2.0), Dirichlet("held")])
def test_a_side_that_does_not_continue_the_field_has_no_weights(rule) -> None:
    (sides,) = bound((rule,), (0,), (1.0,))
    assert folded(sinc(2.5), sides, 20) is None
    assert folded(sinc(2.5), None, 20) is None
    whole = sinc(3.5)
    assert folded(whole, sides, 20) is whole
    held = folded(sinc(2.5), bound((Dirichlet(0.0),), (0,), (1.0,))[0], 20)
    assert held is not None and isinstance(held, Along)
