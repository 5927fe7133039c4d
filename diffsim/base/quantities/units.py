"""Units as files and objects write them, and the conversions between them.

The units themselves are those of Pint. A text is first brought into the form that Pint reads: "m s-1", "m·s⁻¹", "m.s-1" and "m/s" are one
unit, "degrees_north" and "degrees north" are degrees.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.errors import DataError
from diffsim.typing import Array

if TYPE_CHECKING:
    import pint

FAR = 1024.0
"""A conversion is measured from 0 to here."""
LONGEST = 80
"""Most characters of a unit."""
ANGLES = frozenset({"degree", "radian", "arcminute", "arcsecond", "milliarcsecond", "milliradian", "grade", "turn"})
"""Angles by Pint's names."""
_SIGNS = str.maketrans({"·": " ", "×": " ", "⋅": " ", "−": "-", "μ": "u", "µ": "u"})
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED_DIGITS = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+)([^\\W\\d_]?)")
"""An exponent, and the letter with which the next factor begins right behind it, as in m²s⁻¹."""
_DEGREES = re.compile(r"\bdeg(?:ree)?s?[ _]?(?:n(?:orth)?|e(?:ast)?|true)\b", re.IGNORECASE)
_TEMPERATURE = re.compile(r"(?:°|\bdeg(?:ree)?s?[ _]?)(c|f)(?:elsius|ahrenheit)?\b|^(c)elsius$|^(f)ahrenheit$", re.IGNORECASE)
_NUMBER = r"(?:\d+(?:\.\d+)?|(?<![\w)])\.\d+)(?:[eE][+-]?\d{1,2})?"
_NAME = r"[A-Za-zΩÅ_]+"
_LEADING = re.compile(rf"^({_NUMBER})(?=[A-DF-Za-df-zΩÅ_]|[eE](?![+-]?\d))")
"""A number right before the name of a unit, as in 10cm. In 10e3 it goes on."""
_FACTOR = re.compile(rf"({_NUMBER}|{_NAME})(?:(?:\*\*|\^)([+-]?\d{{1,2}})|(?<=[A-Za-z])([+-]?\d))?(?!\d)")
_UNDER = re.compile(r"/\s*\(((?:[^()/]|\*\*)+)\)")
"""A product in brackets behind a stroke."""
_BETWEEN = re.compile(r"\s*(/|\*(?!\*)|\.(?!\s*\d)|\s)\s*")
"""A sign between two factors. A point before a digit is a decimal one, as in m^0.5."""
_FRACTION = re.compile(r"(?:\*\*|\^)[+-]?\d/\d|[A-Za-z][+-]?\d/[2-4](?![\d.eE])")
"""An exponent that may be a fraction, as in m^1/2 and m1/2, and not in W/m2/1e3."""
_PHRASES = (
    (re.compile(r"\bmetric tons?\b", re.IGNORECASE), "tonne"),
    (re.compile(r"\bseconds? of arc\b"), "arcsecond"),
    (re.compile(r"\bu\.?s\.? survey (?:foot|feet)\b", re.IGNORECASE), "survey_foot"),
)
_EXTRA = (
    "@alias survey_foot = ftUS = us_ft = US_ft",
    "practical_salinity_unit = [] = psu = PSU",
    "per_mille = 1e-3 = permil",
    "@alias kilometer_per_hour = kmph = kmh",  # Pint takes kmph for 1000 mph
)
"""Names that files have and Pint does not."""
_AMBIGUOUS = {"gr": "g or grain", "ton": "tonne or short_ton", "tons": "tonne or short_ton"}
"""Names that files use for two units."""
_ONE = frozenset({"", "1", "-", "none", "dimensionless", "unitless", "nondim", "non-dimensional"})
"""Texts for a pure number, in lower case."""
Numbers = TypeVar("Numbers", float, npt.NDArray[Any])


@dataclass(frozen=True)
class Conversion:
    """A change of unit: x becomes `scale` · x + `shift`.

    Attributes:
        scale: a factor.
        shift: 0 except for temperatures, whose scales have different zeros.

    Example:
        from diffsim.base.quantities.units import conversion

        celsius = conversion("degC", "K")
        assert celsius(20.0) == 293.15 and celsius.difference(2.0) == 2.0
    """

    scale: float
    shift: float = 0.0

    def __call__(self, values: Numbers) -> Numbers:
        """Values in the new unit."""
        return self.difference(values) + self.shift if self.shift else self.difference(values)

    def difference(self, values: Numbers) -> Numbers:
        """Differences of values, such as standard deviations, in the new unit."""
        return values if self.scale == 1.0 else self.scale * values


SAME = Conversion(1.0)


def conversion(unit: str, wanted: str, what: str = "", key: str = "unit") -> Conversion:
    """The conversion from one unit to another.

    Args:
        unit: as a file or an object states it; "" and "1" are pure numbers.
        wanted: the unit of the result.
        what: the quantity, for the message, such as "gauges.nc, eta".
        key: by which the user states another unit, for the message.

    Raises:
        DataError: `unit` is unknown, or has another dimension than `wanted`. The message has both.

    Example:
        from diffsim.base.quantities.units import conversion

        assert conversion("km h-1", "m/s")(36.0) == 10.0
    """
    if plain(unit) == plain(wanted):
        return SAME
    begin, remedy = f"{what}: " if what else "", f"correct it, or state the right one by {key}"
    unclear = next((name for name in re.findall(_NAME, _phrased(unit)) if name in _AMBIGUOUS), None)
    if unclear is not None:
        raise DataError(
            f"{begin}expected a unit that converts to {_named(wanted)}, found {shown(unit)}, in which {unclear} may mean "
            f"{_AMBIGUOUS[unclear]}; write the one that is meant, or state it by {key}"
        )
    registry, source, target = _registry(), _quantity(unit), _quantity(wanted)
    if source is None or target is None:
        strange = f"{shown(unit)}, which is no unit that diffsim knows" if source is None else shown(unit)
        raise DataError(f"{begin}expected the unit {_named(wanted)}, found {strange}; {remedy}")
    levels = any(_is_logarithmic(each) for each in (source, target))
    if levels or _is_angle(source) != _is_angle(target):  # Pint takes an angle for a pure number
        raise DataError(f"{begin}expected a unit that converts to {_named(wanted)}, found {shown(unit)}; {remedy}")
    try:
        ends = (registry.Quantity(x * source.magnitude, source.units).to(target.units) for x in (0.0, FAR))
        zero, far = (float(end.magnitude / target.magnitude) for end in ends)
    except _errors():
        raise DataError(f"{begin}expected a unit that converts to {_named(wanted)}, found {shown(unit)}; {remedy}") from None
    return Conversion(_short((far - zero) / FAR), _short(zero))


def factor(unit: str, wanted: str, what: str = "", key: str = "unit") -> float:
    """The number by which a difference in `unit` is multiplied to be in the unit `wanted`; see `conversion`."""
    return conversion(unit, wanted, what, key).scale


def is_unit(text: str) -> bool:
    """True if a text is a unit. A bare number is not a unit."""
    return any(char.isalpha() or char in "°%‰" for char in text) and _quantity(text) is not None


def plain(unit: str) -> str:
    """A unit in one spelling: factors with exponents, in their order. A text that is no product of names stays as it is."""
    factors = _factors(unit)
    return unit.strip() if factors is None else " * ".join(factors) or "1"


def _phrased(text: str) -> str:
    """A unit with one name for each that has several words."""
    for phrase, name in _PHRASES:
        text = phrase.sub(name, text)
    return text


def _factors(unit: str) -> list[str] | None:
    """The factors of a unit, such as "s**-1"; None: it is no product of names and numbers."""
    text = _RAISED_DIGITS.sub(lambda match: f"^{match[1].translate(_RAISED)}{' ' * bool(match[2])}{match[2]}", unit.strip()).translate(
        _SIGNS
    )
    if text.lower() in _ONE:
        return []
    if _FRACTION.search(text) is not None:
        return None
    text = _TEMPERATURE.sub(lambda match: f"deg{next(filter(None, match.groups())).upper()}", _DEGREES.sub("degree", text))
    text = _phrased(text).replace("°", "degree").replace("%", "percent").replace("‰", "permil").strip()
    if text.startswith("(") and text.find(")") == len(text) - 1:
        text = text[1:-1].strip()
    while (inner := _UNDER.search(text)) is not None:  # m/(s K) is m/s/K
        text = f"{text[: inner.start()]}/{_BETWEEN.sub('/', inner[1].strip())}{text[inner.end() :]}"
    text = _LEADING.sub(r"\1 ", text)
    out: list[str] = []
    at, sign = 0, 1
    while at < len(text):
        if out or text.startswith("/"):
            between = _BETWEEN.match(text, at)
            if between is None:
                return None
            sign, at = -1 if between[1] == "/" else 1, between.end()
        one = _FACTOR.match(text, at)
        if one is None:
            return None
        power = sign * int(one[2] or one[3] or 1)
        out.append(one[1] + ("" if power == 1 else f"**{power}"))
        at = one.end()
    return out


def _is_angle(quantity: pint.Quantity[float]) -> bool:
    return any(str(name) in ANGLES for name in quantity.units._units)


def _is_logarithmic(quantity: pint.Quantity[float]) -> bool:
    """True if the unit is one of levels, such as dB, whose conversion is no straight line."""
    registry = _registry()
    return any(registry._units[str(name)].is_logarithmic for name in quantity.units._units)


def _named(unit: str) -> str:
    return unit or "1 (a pure number)"


def _short(number: float) -> float:
    """The number of few digits that differs from `number` by rounding alone, if there is one: 0.3048 for 0.30479999999999996."""
    few = float(f"{number:.12g}")
    return few if abs(few - number) <= 8 * math.ulp(number) else float(number)


@cache
def _quantity(unit: str) -> pint.Quantity[float] | None:
    """The unit as a quantity of Pint; None: it is unknown."""
    factors = _factors(unit)
    if len(unit) > LONGEST or factors is None:
        return None
    registry, text = _registry(), " * ".join(factors) or "1"
    for spelling in (text, text.lower() if max(map(len, re.findall(_NAME, text)), default=0) > 3 else text):  # METERS, Meter
        try:
            quantity = registry.parse_expression(spelling)
        except _errors():
            continue
        quantity = quantity if hasattr(quantity, "units") else registry.Quantity(float(quantity))
        return quantity if quantity.magnitude else None
    return None


@cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint  # late: only numbers whose units differ need it

    registry: pint.UnitRegistry[Any] = pint.UnitRegistry(on_redefinition="ignore")
    for line in _EXTRA:
        registry.define(line)
    return registry


def _errors() -> tuple[type[Exception], ...]:
    import pint

    return (pint.PintError, ArithmeticError, AttributeError, TypeError, ValueError)


def values_in(wanted: str, values: Array, unit: str, what: str = "") -> Array:
    """Values in another unit; see `conversion`.

    Where nothing states the unit that is wanted, pure numbers such as percent become fractions, and others are taken as they are.
    """
    if not unit:
        return values
    if not wanted:
        quantity = _quantity(unit)
        if quantity is None or not quantity.dimensionless or _is_angle(quantity) or _is_logarithmic(quantity):
            return values
    return np.asarray(conversion(unit, wanted, what)(values))


def differences_in(wanted: str, values: Array, unit: str, what: str) -> Array:
    """Standard deviations in the unit of the values that they belong to; those without a unit are in it.

    Raises:
        DataError: the unit does not convert, or nothing says the unit of the values.
    """
    if unit and not wanted:
        raise DataError(f"{what}: expected the unit of the values beside that of the deviations, found {unit} alone; give unit")
    return values if not unit else np.asarray(conversion(unit, wanted, what).difference(values))
