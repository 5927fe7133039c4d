"""Conversion of units: the only module here that knows the units library."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

from diffsim.errors import DataError

_SUPERSCRIPTS = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")
_POWER = re.compile(r"(?<=[A-Za-zµμ°Ωω%])\^?([-+]?\d+)")
_OTHER_NAMES = {
    "": "dimensionless",
    "1": "dimensionless",
    "Angstrom": "angstrom",
    "deg_C": "degC",
    "deg_F": "degF",
    **dict.fromkeys(("degrees_north", "degrees_east", "degree_north", "degree_east", "degrees_N", "degrees_E"), "degree"),
    **dict.fromkeys(("degrees_south", "degrees_west", "degree_south", "degree_west", "degrees_S", "degrees_W"), "-degree"),
}


def conversion(unit: str, wanted: str) -> tuple[float, float]:
    """The numbers a and b for which a value x in `unit` is a x + b in the unit `wanted`.

    Args:
        unit: the unit of the value; "" or "1" for a pure number.
        wanted: the unit to convert to.

    Raises:
        DataError: there are no such numbers.
    """
    if unit == wanted:
        return 1.0, 0.0
    if "-degree" in (_OTHER_NAMES.get(unit), _OTHER_NAMES.get(wanted)):
        raise DataError(f"{unit} counts in the other direction than {wanted}")
    registry, pint = _registry()
    try:
        found, target = registry.Unit(_read(unit)), registry.Unit(_read(wanted))
        if found == target:
            return 1.0, 0.0
        if _has_angle(registry, found) != _has_angle(registry, target):  # the library takes an angle for a pure number
            raise DataError(f"{unit} does not convert to {wanted or 'a pure number'}")
        offset = registry.convert(0.0, found, target)
        return _decimal(registry.convert(1.0, _difference(registry, found), _difference(registry, target))), _decimal(offset)
    except DataError:
        raise
    except (pint.PintError, ValueError, TypeError, AttributeError, SyntaxError, AssertionError, RecursionError, KeyError) as error:
        raise DataError(f"{unit} does not convert to {wanted or 'a pure number'}") from error


def _decimal(x: float) -> float:
    """A number without the round-off of a product of factors: a foot is 0.3048 m, and no unit in the last place less."""
    short = float(f"{x:.12g}")
    return short if abs(short - x) <= 4 * math.ulp(x) else float(x)


@cache
def _registry() -> tuple[Any, Any]:
    import pint

    return pint.UnitRegistry(), pint


def _read(text: str) -> str:
    """A unit as the library reads it: "m s-1" and "m·s⁻¹" are "m s**-1"."""
    text = text.strip().translate(_SUPERSCRIPTS).replace("·", " ").replace("⋅", " ")
    return _OTHER_NAMES.get(text) or _POWER.sub(r"**\1", text)


def _has_angle(registry: Any, unit: Any) -> bool:
    return "radian" in str(registry.Quantity(1.0, _difference(registry, unit)).to_root_units().units)


def _difference(registry: Any, unit: Any) -> Any:
    """The unit of differences: that of degrees Celsius has no offset."""
    name = f"delta_{unit}"
    return registry.Unit(name) if name in registry else unit
