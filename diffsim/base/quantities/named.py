"""Units that only the name of an array has, as in "time_ms": read in another unit, its numbers would be wrong."""

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
_LABELLED = re.compile(r".*[_/][A-Za-z]+")
"""The name of a place with a unit at its end, as G1_cm. The end of Station KM is a word."""
SYMBOLS = frozenset({"bar", "d", "h", "min"})
"""Units that are more often indices of a symbol, as in p_bar, tau_d and dt_min. They count behind a whole word alone, as in time_min."""
WORD = 4
"""Letters from which on a name is a whole word."""


def require_stated(name: str, wanted: str, what: str, remedy: str = GIVE, of_place: bool = False) -> None:
    """Refuse numbers without a unit whose name ends in one, other than that for which they would be taken.

    Args:
        name: of the numbers, such as "time_ms" or "minutes".
        wanted: the unit for which they would be taken; "": none.
        what: the numbers, for the message.
        remedy: how the user states a unit, with {own} for that of the name, and {wanted}.
        of_place: whether it is the name of a place, which has a unit behind "_" or "/" alone.

    Raises:
        DataError: the unit at the end converts to the wanted one, and is not the same.

    Example:
        from diffsim.base.quantities.named import require_stated

        require_stated("time_s", "s", "gauges.npz, time_s")
        require_stated("height", "m", "gauges.npz, height")
    """
    *rest, last = _BETWEEN.split(name.strip())
    before, word = rest[-1] if rest else "", last.lower()
    is_place = before[-1:].isdigit() and "_" not in name  # "12 km" is the name of a place
    if not wanted or is_place or (of_place and not _LABELLED.fullmatch(name.strip())) or (word in SYMBOLS and len(before) < WORD):
        return
    own = WORDS.get(word, "")
    try:
        same = not own or conversion(own, wanted) == SAME
    except DataError:  # a word that means something else here
        return
    if not same:
        raise DataError(
            f"{what}: expected the unit of {name_shown(name)}, whose name ends like {own}, found none; "
            f"{remedy.format(own=own, wanted=wanted)}"
        )
