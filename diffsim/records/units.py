"""Units that a file may state, and the factors between them."""

from __future__ import annotations

from diffsim.errors import DataError
from diffsim.messages import shown

UNITS: dict[str, dict[str, float]] = {
    "length": {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "dm": 0.1, "km": 1e3, "ft": 0.3048},
    "time": {"s": 1.0, "us": 1e-6, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0},
    "pressure": {"Pa": 1.0, "hPa": 100.0, "kPa": 1e3, "MPa": 1e6, "mbar": 100.0, "dbar": 1e4, "bar": 1e5},
    "speed": {"m/s": 1.0, "mm/s": 1e-3, "cm/s": 1e-2, "km/s": 1e3, "km/h": 1 / 3.6},
    "density": {"kg/m3": 1.0, "g/cm3": 1e3, "g/m3": 1e-3},
    "diffusivity": {"m2/s": 1.0, "mm2/s": 1e-6, "cm2/s": 1e-4},
    "temperature": {"K": 1.0, "mK": 1e-3},
}
"""Quantity -> unit -> its size in the first unit of the quantity."""
OTHER_NAMES = {
    **dict.fromkeys(("meter", "meters", "metre", "metres"), "m"),
    **dict.fromkeys(("millimeter", "millimeters", "millimetre", "millimetres"), "mm"),
    **dict.fromkeys(("centimeter", "centimeters", "centimetre", "centimetres"), "cm"),
    **dict.fromkeys(("kilometer", "kilometers", "kilometre", "kilometres"), "km"),
    **dict.fromkeys(("foot", "feet"), "ft"),
    **dict.fromkeys(("sec", "second", "seconds"), "s"),
    **dict.fromkeys(("millisecond", "milliseconds", "msec"), "ms"),
    **dict.fromkeys(("microsecond", "microseconds"), "us"),
    **dict.fromkeys(("minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("pascal", "pascals"), "Pa"),
    **dict.fromkeys(("kelvin",), "K"),
}
"""Long names of units, in small letters."""
_SIGNS = str.maketrans("²³⁻¹·µμ", "23-1 uu")


def factor(unit: str, wanted: str) -> float:
    """The number by which a value in `unit` is multiplied to be in the unit `wanted`.

    Raises:
        DataError: there is no such number. The message lists the units that convert.
    """
    found, target = plain(unit), plain(wanted)
    if found == target:
        return 1.0
    for sizes in UNITS.values():
        if target in sizes:
            if found in sizes:
                return sizes[found] / sizes[target]
            raise DataError(
                f"expected a unit that converts to {wanted} ({', '.join(sizes)}), found {shown(unit)}; name it by unit, or convert "
                "the values"
            )
    raise DataError(f"expected the unit {wanted or '1 (a pure number)'}, found {shown(unit)}; name it by unit, or convert the values")


def plain(unit: str) -> str:
    """A unit as the tables above write it: "m s-1", "m·s⁻¹" and "m s**-1" are "m/s". A product keeps its space: "m s" is not "ms"."""
    text = unit.strip().translate(_SIGNS)
    text = text.replace("**", "").replace("^", "")
    over = [part for part in text.split() if "-" not in part]
    under = [part.replace("-", "").removesuffix("1") for part in text.split() if "-" in part]
    text = "/".join([" ".join(over), *under])
    return OTHER_NAMES.get(text.lower(), text)
