"""Reads arrays and numbers of other packages that state a unit or name their dimensions, whatever package they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from diffsim.errors import ParameterError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.ndarray, np.generic, list, tuple, dict)


@dataclass(frozen=True)
class Given:
    """An array of another package.

    Attributes:
        values: its numbers, as they lie in memory.
        unit: their unit as a text; "" for pure numbers, None if none is stated.
        bare: how to get its numbers in that package, for messages.
        scale: a number that is part of the unit.
        label: the unit in messages, if it is another text.
        dims: names of its dimensions; None: they have no names.
        coordinates: of the dimensions that have coordinates.
        words: name of a dimension -> other names of its meaning, by the conventions of CF.
    """

    values: Any
    unit: str | None
    bare: str
    scale: float = 1.0
    label: str | None = None
    dims: tuple[str, ...] | None = None
    coordinates: Mapping[str, Given] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def stated(self) -> str:
        """The unit in a message."""
        return (self.unit or "" if self.label is None else self.label) or "1 (a pure number)"

    @property
    def named(self) -> bool:
        """True if the dimensions have names that somebody gave them. An array that is given none has `dim_0`, `dim_1` and so on."""
        if self.dims is None or self.dims == tuple(f"dim_{k}" for k in range(len(self.dims))):
            return bool(self.coordinates)
        return True


def read(name: str, value: object) -> Given | None:
    """The unit and dimensions that an object of another package states; None if it states neither.

    Raises:
        ParameterError: it contradicts itself, has packed numbers, or is a set of arrays.
    """
    if type(value) in _PLAIN:
        return None
    if isinstance(getattr(value, "dims", None), tuple) and hasattr(value, "attrs") and hasattr(value, "data"):
        return _of_xarray(name, value)
    if hasattr(value, "data_vars"):
        raise ParameterError(f"{name} is a {type(value).__name__} of several arrays, expected one; give one of its variables, data['c']")
    if hasattr(value, "units") and hasattr(value, "magnitude"):
        return Given(value.magnitude, _text(format(value.units, "C")), ".magnitude", label=_text(value.units))
    if hasattr(value, "unit") and hasattr(value, "value") and hasattr(value.unit, "decompose"):
        return _of_astropy(value)
    if hasattr(value, "units") and hasattr(value, "in_units") and hasattr(value, "value"):
        return Given(value.value, _text(value.units), ".value")
    return None


def _text(unit: object) -> str:
    text = str(unit).strip()
    return "" if text in ("dimensionless", "1") else text


def _of_astropy(value: Any) -> Given:
    """A `Quantity` of astropy. Its unit is written in those of the SI, whose names are the same everywhere."""
    label = value.unit.to_string()
    try:
        si = value.unit.si
        unit = " ".join(f"{base.name}**{power}" for base, power in zip(si.bases, si.powers, strict=True))
        return Given(value.value, unit, ".value", float(si.scale), label)
    except (AttributeError, TypeError, ValueError):  # a logarithmic unit, or one that has no parts
        return Given(value.value, label, ".value", label=label)


def _of_xarray(name: str, value: Any) -> Given:
    """A `DataArray` or a `Variable` of xarray, whose numbers may be a quantity themselves."""
    packed = [key for key, plain in (("scale_factor", 1), ("add_offset", 0)) if value.attrs.get(key, plain) != plain]
    if packed:
        raise ParameterError(
            f"{name} has the attribute {packed[0]}, expected numbers that are not packed; decode them by xarray.decode_cf, or leave "
            "mask_and_scale as it is when the file is opened"
        )
    inner, coords = read(name, value.data), getattr(value, "coords", {})
    stated = value.attrs.get("units", value.attrs.get("unit"))
    outer = Given(value.data, None if stated is None else _text(stated), ".values")
    if inner is not None:
        if stated is not None and _text(stated) not in (inner.unit, inner.label):
            raise ParameterError(
                f"{name} has the unit {inner.stated} and the attribute units = {stated}, expected one unit; delete one of them"
            )
        outer = replace(inner, bare=f".data{inner.bare}")
    along = {str(dim): coords[dim] for dim in value.dims if dim in coords}
    words = {dim: _words(each.attrs) for dim, each in along.items()}
    dims = tuple(map(str, value.dims))
    return replace(outer, dims=dims, coordinates={dim: _coordinate(each) for dim, each in along.items()}, words=words)


def _coordinate(value: Any) -> Given:
    inner = read("coordinates", value.data)
    if inner is not None:
        return inner
    stated = value.attrs.get("units", value.attrs.get("unit"))
    return Given(value.data, None if stated is None else _text(stated), ".values")


def _words(attributes: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(attributes[key]).lower() for key in ("axis", "standard_name") if key in attributes)
