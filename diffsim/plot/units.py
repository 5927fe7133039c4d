"""Numbers as a reader wants them: times, bytes, and factors of ten that leave short tick labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from diffsim.typing import Array

PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G"}
PREFIXED = frozenset({"m", "m/s", "s", "Pa", "K", "W", "V", "Hz"})
"""Units that take a prefix; others get a power of ten in front."""
PLAIN_LOW, PLAIN_HIGH = 0.1, 1e4
"""Figures whose largest lies between these need no factor."""
POWER = "10"
"""The start of a unit with a power of ten."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """A factor on values, and the unit of the product."""

    factor: float
    unit: str

    def label(self, name: str) -> str:
        """An axis label, such as "eta (mm)"."""
        return f"{name} ({self.unit})" if self.unit else name


def value_scale(unit: str, *values: Array) -> Scale:
    """A scale on which the largest of `values` lies between 0.1 and 10 000."""
    largest = largest_of(*values)
    if largest == 0 or PLAIN_LOW <= largest < PLAIN_HIGH:
        return Scale(1.0, unit)
    power = 3 * math.floor(math.log10(largest) / 3)
    if unit in PREFIXED and power in PREFIXES:
        return Scale(10.0**-power, PREFIXES[power] + unit)
    return Scale(10.0**-power, f"{POWER}{str(power).translate(SUPERSCRIPTS)} {unit}".rstrip())


def length_scale(unit: str, coordinates: Array) -> Scale:
    """The scale of an axis of the grid: metres become kilometres or millimetres, other units do not change."""
    return value_scale(unit, coordinates) if unit == "m" else Scale(1.0, unit)


def time_scale(times: Array, unit: str = "s") -> Scale:
    """The scale of an axis of time: hours to microseconds for seconds, so that figures exceed 1. Other units do not change."""
    if unit != "s":
        return Scale(1.0, unit)
    last = largest_of(times)
    for seconds, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if last >= 2 * seconds:
            return Scale(1 / seconds, unit)
    return Scale(1e6, "µs")


def frequency_unit(time_unit: str) -> str:
    """The unit of frequencies where times have this one."""
    return "Hz" if time_unit == "s" else f"1 / ({time_unit})" if time_unit else ""


def largest_of(*values: Array) -> float:
    """The largest magnitude among the finite entries; 0 if there are none."""
    return max((float(np.max(np.abs(v[np.isfinite(v)]), initial=0.0)) for v in map(np.asarray, values)), default=0.0)


def number(value: float) -> str:
    """At most four significant digits."""
    if math.isnan(value):
        return "no figure"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:.4g}"
    if "e" not in text:
        return text
    mantissa, power = text.split("e")
    return f"{mantissa} × 10{str(int(power)).translate(SUPERSCRIPTS)}"


def quantity(value: float, unit: str) -> str:
    """A number of three digits with its unit, such as "20 mm" or "150 × 10⁻⁹ m²/s"."""
    scale = value_scale(unit, np.array([value]))
    scaled = scale.factor * value
    digits = f"{scaled:.0f}" if abs(scaled) >= 1000 else f"{scaled:.3g}"
    return f"{digits}{' ×' if scale.unit.startswith(POWER) else ''} {scale.unit}".rstrip()


def duration(seconds: float) -> str:
    """Wall-clock time."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(count: int) -> str:
    """Bytes, in powers of 1000."""
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
