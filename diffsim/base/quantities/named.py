"""Units at the end of names, as in "time_ms": nobody states them, but who takes the numbers for others would be wrong."""

from __future__ import annotations

import re

from diffsim.base.messages import name_shown
from diffsim.base.quantities.units import SAME, conversion
from diffsim.errors import DataError

WORDS = {
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("mm", "millimetres", "millimeters"), "mm"),
    **dict.fromkeys(("cm", "centimetres", "centimeters"), "cm"),
    **dict.fromkeys(("km", "kilometres", "kilometers"), "km"),
    **dict.fromkeys(("ft", "feet"), "ft"),
    **dict.fromkeys(("hpa", "mbar"), "hPa"),
    **{"kpa": "kPa", "bar": "bar", "degc": "degC", "celsius": "degC", "degf": "degF", "percent": "%", "kmh": "km/h", "knots": "knot"},
}
"""Last words of names, in small letters -> the unit that they mean."""
GIVE = 'give unit = "{own}", or "{wanted}" if the numbers are in that'
_BETWEEN = re.compile(r"[\s_/,:;.\-]+")


def require_stated(name: str, wanted: str, what: str, remedy: str = GIVE) -> None:
    """Refuse numbers without a unit whose name ends in one, other than that for which they would be taken.

    Args:
        name: of the numbers, such as "time_ms" or "minutes".
        wanted: the unit for which they would be taken; "": none.
        what: the numbers, for the message.
        remedy: how the user states a unit, with {own} for that of the name, and {wanted}.

    Raises:
        DataError: the unit at the end converts to the wanted one, and is not the same.

    Example:
        from diffsim.base.quantities.named import require_stated

        require_stated("time_s", "s", "gauges.npz, time_s")
        require_stated("height", "m", "gauges.npz, height")
    """
    *rest, last = _BETWEEN.split(name.strip())
    number = bool(rest) and all(word.isdecimal() for word in rest)  # "12 km" is the name of a place
    own = WORDS.get(last.lower(), "") if wanted and not number else ""
    try:
        same = not own or conversion(own, wanted) == SAME
    except DataError:  # a word that means something else here
        return
    if not same:
        raise DataError(
            f"{what}: expected the unit of {name_shown(name)}, whose name ends like {own}, found none; "
            f"{remedy.format(own=own, wanted=wanted)}"
        )
