"""Units in the spellings of files are those of Pint, and every pair converts or is refused by name."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from diffsim.base.quantities.units import conversion, factor, is_unit, plain
from diffsim.errors import DataError

SIZES = {
    "length": {
        "m": 1.0,
        "mm": 1e-3,
        "cm": 1e-2,
        "km": 1e3,
        "ft": 0.3048,
        "um": 1e-6,
        "nautical_mile": 1852.0,
        "US survey foot": 1200 / 3937,
    },
    "time": {"s": 1.0, "us": 1e-6, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0},
    "pressure": {"Pa": 1.0, "hPa": 100.0, "kPa": 1e3, "MPa": 1e6, "mbar": 100.0, "dbar": 1e4, "bar": 1e5},
    "speed": {"m/s": 1.0, "mm/s": 1e-3, "cm s-1": 1e-2, "km/s": 1e3, "km/h": 1 / 3.6, "kt": 1852 / 3600, "ft/s": 0.3048},
    "density": {"kg/m3": 1.0, "g/cm3": 1e3, "g/cc": 1e3, "g m-3": 1e-3},
    "diffusivity": {"m2/s": 1.0, "mm^2 s-1": 1e-6, "cm2/s": 1e-4},
    "angle": {"degree": 1.0, "arcmin": 1 / 60, "seconds of arc": 1 / 3600, "rad": 180 / np.pi},
    "number": {"1": 1.0, "percent": 1e-2, "permil": 1e-3},
}
"""Quantity -> unit -> its size in the first, by definition."""
SPELLINGS = {
    "m/s": ("m s-1", "m·s⁻¹", "m.s-1", "m s**-1", "m s^-1", "m/s", "meter/second", "metres second-1", "(m/s)", "m * s-1", " m / s "),
    "kg/m³": ("kg m-3", "kg.m-3", "kg/m3", "kg m**-3", "kg/m^3", "kg·m⁻³"),
    "m": ("m", "meter", "meters", "Metre", "METERS", "1 m", "100 cm", "1e3 mm"),
    "s": ("s", "sec", "second", "seconds", "Seconds", "1000 ms"),
    "degree": ("degrees_north", "degree_east", "degrees north", "degN", "degrees_E", "°", "degrees", "deg"),
    "K": ("K", "kelvin", "Kelvin", "kelvins"),
    "degC": ("°C", "Celsius", "celsius", "degC", "deg_C", "degree_Celsius", "degrees_C"),
    "": ("1", "", "-", "none", "unitless", "dimensionless"),
}
PAIRS = [(a, b, sizes[a] / sizes[b]) for sizes in SIZES.values() for a, b in itertools.product(sizes, repeat=2)]
STRANGE = ("volt", "counts", "m s", "", "degrees_south", "10**10**10", "9**9**9 m", "__import__('os')", "m" * 200, "m;s", "1e999 m", "m\n")


def test_all_pairs_of_a_quantity_convert() -> None:
    for unit, wanted, ratio in PAIRS:
        assert np.isclose(factor(unit, wanted), ratio, rtol=1e-15, atol=0), (unit, wanted)


def test_all_pairs_of_different_quantities_are_refused_with_both() -> None:
    for one, other in itertools.permutations(SIZES, 2):
        for unit, wanted in itertools.product(SIZES[one], SIZES[other]):
            with pytest.raises(DataError) as error:
                conversion(unit, wanted, "gauges.nc, eta")
            assert wanted in str(error.value) and unit in str(error.value) and str(error.value).startswith("gauges.nc, eta: expected")


@pytest.mark.parametrize("wanted", SPELLINGS)
def test_spellings_of_a_unit_are_one(wanted: str) -> None:
    for unit in SPELLINGS[wanted]:
        assert conversion(unit, wanted)(2.0) == 2.0, unit


def test_temperatures_have_a_shift_and_their_differences_none() -> None:
    for unit, zero, size in (("degC", 273.15, 1.0), ("degF", 459.67 * 5 / 9, 5 / 9), ("K", 0.0, 1.0), ("mK", 0.0, 1e-3)):
        factor = conversion(unit, "K")
        assert np.allclose(factor(np.array([0.0, 10.0])), [zero, zero + 10 * size], rtol=1e-14)
        assert np.isclose(factor.difference(10.0), 10 * size, rtol=1e-14)


@pytest.mark.parametrize(
    ("unit", "wanted", "size"),
    [
        ("W/(m K)", "W m-1 K-1", 1.0),
        ("kg/(m s)", "Pa s", 1.0),
        ("J/(kg K)", "J kg-1 K-1", 1.0),
        ("1/(ms)", "Hz", 1e3),
        ("m/(10 s)", "m/s", 0.1),
    ],
)
def test_products_in_brackets(unit: str, wanted: str, size: float) -> None:
    assert np.isclose(factor(unit, wanted), size, rtol=1e-14)


@pytest.mark.parametrize("unit", ["dB", "Np", "decade", "octave"])
def test_levels_are_no_multiples(unit: str) -> None:
    with pytest.raises(DataError, match=f"found '{unit}'"):
        conversion(unit, "1")


@pytest.mark.parametrize("unit", STRANGE)
def test_no_text_hangs_or_passes_as_a_length(unit: str) -> None:
    if unit.strip() == "m":
        assert factor(unit, "m") == 1.0
        return
    with pytest.raises(DataError, match=r"expected .*unit .*m.*, found .*; "):
        conversion(unit, "m")


def test_a_unit_that_nobody_knows_is_itself_alone() -> None:
    assert conversion("snorks", "snorks")(3.0) == 3.0 and not is_unit("snorks") and is_unit("km/h") and plain("snorks!") == "snorks!"
    with pytest.raises(DataError, match="expected the unit snorks, found 'm'"):
        conversion("m", "snorks")


@pytest.mark.parametrize("unit", ["m^0.5", "m1.5", "m^1.0", "m s^-1.0", "m^1/2", "s m-1/3", "0 m", "0"])
def test_exponents_that_are_no_integers_are_refused(unit: str) -> None:
    """A point in an exponent is no product: m^1.0 was read as 0, and m^0.5 as 5."""
    for wanted in ("m", "m/s", "1", "s/m"):
        with pytest.raises(DataError, match="no unit that diffsim knows"):
            conversion(unit, wanted)


@pytest.mark.parametrize(
    ("unit", "wanted", "size"),
    [
        ("10⁻¹² m", "m", 1e-12),
        ("10^-12 m", "m", 1e-12),
        ("metric ton", "kg", 1e3),
        ("W/m2/1e3", "W/m2", 1e-3),
        ("10³ m/s", "m/s", 1e3),
        ("10⁻³ m s⁻¹", "m/s", 1e-3),
        ("10⁻³kg", "kg", 1e-3),
        ("W m⁻²K⁻¹", "W/m2/K", 1.0),
        ("mm²µs⁻¹", "m2/s", 1.0),
        ("m²·s⁻¹", "m2/s", 1.0),
        ("kmph", "m/s", 1 / 3.6),
        ("kmh", "m/s", 1 / 3.6),
    ],
)
def test_raised_digits_behind_numbers_are_exponents(unit: str, wanted: str, size: float) -> None:
    assert np.isclose(factor(unit, wanted), size, rtol=1e-12)


@pytest.mark.parametrize("unit", ["ton/m3", "tons/m3", "gr/cm3"])
def test_names_of_two_units_are_refused_with_both(unit: str) -> None:
    with pytest.raises(DataError, match=r"may mean (tonne or short_ton|g or grain); write the one"):
        conversion(unit, "kg/m3", "rho.nc")


@pytest.mark.parametrize("unit", ["m", "cm", "m/s", "km.s-1", "m**2", "W/(m K)", "eV", "e", "E", "degC", "Å"])
@pytest.mark.parametrize("number", ["10", "0.01", ".01", "1e-3", "2E5", "3.5e1"])
def test_a_number_may_stand_right_before_a_unit(number: str, unit: str) -> None:
    """One that is refused with a space between them, as a multiple of a temperature is, is refused without."""
    if not is_unit(f"{number} {unit}"):
        assert not is_unit(f"{number}{unit}")
        return
    assert plain(f"{number}{unit}") == plain(f"{number} {unit}")
    if unit not in ("e", "E"):
        assert factor(f"{number}{unit}", unit) == float(number)


@pytest.mark.parametrize("unit", ["m10 cm", "1/2m", "10-3 m", "1e-300m", "10 20m", "-1m", "0,01m", "m.5 s"])
def test_numbers_elsewhere_are_no_factors(unit: str) -> None:
    assert not is_unit(unit)
