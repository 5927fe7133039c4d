"""Units that are no whole text are refused where a variable is declared."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError

NAMES = ("kg", "m", "s", "K", "Pa", "W", "m³", "s^2", "mol")


def drawn(rng: np.random.Generator) -> str:
    """A product or a quotient of names, also with parentheses."""
    text = str(rng.choice(NAMES))
    for _ in range(rng.integers(3)):
        text += str(rng.choice(["/", " ", "*", " / "])) + str(rng.choice(NAMES))
    return f"{text}/({rng.choice(NAMES)} {rng.choice(NAMES)})" if rng.random() < 0.4 else text


def test_units_that_break_off_are_refused() -> None:
    rng = np.random.default_rng(0)
    breaks = ("{}/", "{}//{}", "{}*", "({}", "{})", "{}/ ", "{}^", "{}/()", "*{}", "{}·")
    for _ in range(40):
        whole = drawn(rng)
        assert ds.Variable("mirror", unit=whole).unit == whole
        for form in breaks:
            with pytest.raises(ParameterError, match="expected a whole unit"):
                ds.Variable("mirror", unit=form.format(whole, whole))
    with pytest.raises(ParameterError, match=r"unit = 'kg/m3/', expected a whole unit"):
        ds.Vector("zx", unit="kg/m3/")


@pytest.mark.parametrize("unit", ["", "1", "1/s", "/s", "lengths / c", "K (above the mean)", "°C", "%"])
def test_labels_that_are_whole(unit: str) -> None:
    assert ds.Variable("mirror", unit=unit).unit == unit
