"""Arrays and numbers as other packages hold them, made from plain ones: with a unit, with labels, in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffsim as ds

PINT = {"km/s": "kilometer / second", "mm²/s": "millimeter ** 2 / second", "1/min": "1/minute", "°C": "degree_Celsius", "kg": "kilogram"}
ASTROPY = {"km/s": "km / s", "mm²/s": "mm2 / s", "1/min": "1 / min", "°C": "deg_C", "": "", "kg": "kg"}
TEXT = {"km/s": "km s-1", "mm²/s": "mm2 s-1", "1/min": "min-1", "°C": "degC"}


@dataclass(frozen=True)
class Target:
    """An input of the library.

    Attributes:
        name: in messages.
        numbers: the input in the unit and the order that the library wants.
        unit: that unit.
        converts: unit -> the number that a value in it is multiplied with, and the one that is added.
        dims: names of the dimensions, if a labelled array is matched to them.
        at: name of a dimension -> its coordinates, in m or s.
        take: gives the input to the library, and returns the library's value of it.
    """

    name: str
    numbers: Any
    unit: str
    converts: dict[str, tuple[float, float]]
    dims: tuple[str, ...]
    at: dict[str, np.ndarray]
    take: Callable[[Any], Any]


@dataclass(frozen=True)
class Member:
    """An input as another package holds it, and a flag if the library takes it."""

    target: Target
    label: str
    make: Callable[[], Any]
    taken: bool
    says: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.target.name}: {self.label}"


def members(target: Target) -> Iterator[Member]:
    """All members of a kind: {package} x {unit} x {order and coordinates}."""
    for package in ("pint", "astropy", "DataArray", "pint in DataArray"):
        for unit, (factor, offset) in target.converts.items():
            yield from _one(target, package, unit, (target.numbers - offset) / factor, True)
        wrong = "kg" if target.unit != "kg" else "s"
        stated = {"pint": PINT, "pint in DataArray": PINT}.get(package, {}).get(wrong, wrong)
        yield from _one(target, package, wrong, target.numbers, False, (stated, target.unit or "pure number"))
        yield from _one(target, package, None, target.numbers, package == "DataArray" or not target.unit, ("pure number",))
    if len(target.dims) == np.ndim(target.numbers) > 0:
        yield from _arranged(target)


def _one(target: Target, package: str, unit: str | None, numbers: Any, taken: bool, says: tuple[str, ...] = ()) -> Iterator[Member]:
    yield Member(target, f"{package}, {unit}", lambda: wrapped(package, unit, numbers, target.dims), taken, () if taken else says)


def wrapped(package: str, unit: str | None, numbers: Any, dims: tuple[str, ...]) -> Any:
    """Numbers in an object of a package; a unit of None means pure numbers in a quantity, and no statement in a DataArray."""
    if package == "astropy":
        import astropy.units

        return numbers * astropy.units.Unit(ASTROPY.get(unit or "", unit or ""))
    if package == "pint":
        return quantity(unit, numbers)
    import xarray

    named = dims if len(dims) == np.ndim(numbers) else None
    if package == "pint in DataArray":
        return xarray.DataArray(quantity(unit, np.asarray(numbers)), dims=named)
    return xarray.DataArray(numbers, dims=named, attrs={} if unit is None else {"units": TEXT.get(unit, unit)})


def quantity(unit: str | None, numbers: Any) -> Any:
    import pint

    return pint.application_registry.get().Quantity(numbers, PINT.get(unit or "", unit or "dimensionless"))


def _arranged(target: Target) -> Iterator[Member]:
    """Labelled arrays in other orders."""
    import xarray

    def labelled(dims: tuple[str, ...], coords: dict[str, Any], numbers: Any = target.numbers) -> Any:
        return xarray.DataArray(numbers, dims=dims, coords=coords)

    dims, at = target.dims, target.at
    backwards = tuple(reversed(range(len(dims))))
    full = labelled(dims, at)
    one = next((dim for dim in dims if dim in at), None)
    other = {dim: f"label_{k}" for k, dim in enumerate(dims)}
    yield Member(target, "transposed by names", lambda: labelled(dims, {}).transpose(*(dims[k] for k in backwards)), True)
    yield Member(target, "transposed with coordinates", lambda: full.transpose(*(dims[k] for k in backwards)), True)
    yield Member(
        target, "names in capitals", lambda: full.rename({d: d.upper() for d in dims}).transpose(*(d.upper() for d in dims[::-1])), True
    )
    if len(dims) > 1:
        yield Member(target, "other names, no coordinates", lambda: labelled(dims, {}).rename(other), False, ("label_0", dims[-1]))
    if one is None:
        return
    number = dims.index(one)
    yield Member(target, "reversed", lambda: full.isel({one: slice(None, None, -1)}).transpose(*(dims[k] for k in backwards)), True)
    kilo = {dim: (dim, values / 1000, {"units": "km" if dim not in ("time",) else "ks"}) for dim, values in at.items()}
    yield Member(target, "coordinates in km, reversed", lambda: labelled(dims, kilo).isel({one: slice(None, None, -1)}), True)
    single = {dim: values.astype(np.float32) for dim, values in at.items()}
    yield Member(target, "coordinates in single precision", lambda: labelled(dims, single), True)
    apart = np.diff(at[one]).mean()
    shifted = {**at, one: at[one] + 0.5 * apart}
    yield Member(target, "shifted by half a cell", lambda: labelled(dims, shifted), False, (one, f"{at[one][0]:g} to {at[one][-1]:g}"))
    wrong = {one: (one, at[one], {"units": "kg"})}
    yield Member(target, "coordinates in kg", lambda: labelled(dims, wrong), False, (one, "kg"))
    stretched = {**at, one: at[one] * 1.25}
    yield Member(target, "coordinates of another spacing", lambda: labelled(dims, stretched), False, (one,))
    shuffled = np.random.default_rng(number).permutation(len(at[one]))
    if not np.array_equal(np.sort(shuffled), shuffled) and not np.array_equal(np.sort(shuffled)[::-1], shuffled):
        yield Member(target, "cells in no order", lambda: full.isel({one: shuffled}), False, (one,))
    if len(at) == len(dims) and len({v.tobytes() for v in at.values()}) == len(dims):
        yield Member(
            target,
            "other names with coordinates, transposed",
            lambda: full.rename(other).transpose(*(other[dims[k]] for k in backwards)),
            True,
        )
    cf = {
        dim: (other[dim], values, {"axis": {"time": "T"}.get(dim, dim.upper())}) for dim, values in at.items() if dim in ("time", "z", "x")
    }
    if len(cf) == len(dims):
        named = {other[dim]: each for dim, each in cf.items()}
        yield Member(
            target,
            "other names with CF's axis, transposed",
            lambda: labelled(tuple(other[d] for d in dims), named).transpose(*(other[dims[k]] for k in backwards)),
            True,
        )


def require(member: Member, wanted: Any) -> None:
    """Raise unless the library gives for a member the result for the plain numbers, or refuses it in one line."""
    target = member.target
    if member.taken:
        result = target.take(member.make())
        np.testing.assert_allclose(
            np.asarray(result, float), np.asarray(wanted, float), rtol=1e-12, atol=1e-12 * np.abs(wanted).max(), err_msg=str(member)
        )
        return
    try:
        result = target.take(member.make())
    except ds.DiffsimError as error:
        message = str(error)
        assert "\n" not in message and target.name in message and "; " in message and "expected" in message, (str(member), message)
        assert all(word in message for word in member.says), (str(member), message, member.says)
    else:
        raise AssertionError(f"{member} is taken: {result}")
