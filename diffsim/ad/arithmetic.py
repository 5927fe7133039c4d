"""The operators of arrays: arithmetic, comparisons, and their forms in place. Importing this module attaches them to `Array`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, wrap
from diffsim.ad.core import Tracer
from diffsim.ad.ops import elementwise as ew
from diffsim.errors import ShapeError


def binary(primitive: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The operator and its reflection."""

    def plain(self: Any, other: Any) -> Any:
        return wrap(primitive(core(self), core(other))) if _operand(other) else NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return wrap(primitive(core(other), core(self))) if _operand(other) else NotImplemented

    return plain, reflected


def _operand(x: Any) -> bool:
    return isinstance(x, (Array, np.ndarray, np.generic, int, float, complex, list, tuple, Tracer))


def in_place(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`a += b`: the array takes the new value, and all that share its memory see it; a number makes a new one."""

    def update(self: Array, other: Any) -> Any:
        if self._scalar:
            return plain(self, other)
        result = plain(self, other)
        if result is NotImplemented:
            return result
        value = core(result)
        if value.shape != self.shape:
            raise ShapeError(f"an in-place operation gives the shape {value.shape}, expected that of the array, {self.shape}")
        self._replace(self._in_its_type(value))
        return self

    return update


def _identity(compare: Callable[[Any, Any], Any], unlike: bool) -> Callable[[Any, Any], Any]:
    """Equality that holds for no entry and what is no number: None, a text, an object that equals itself alone."""

    def test(self: Array, other: Any) -> Any:
        if other is None or isinstance(other, (str, bytes)) or type(other).__eq__ is object.__eq__:
            found = np.full(self.shape, unlike)
            return wrap(found[()] if self._scalar else found)
        return compare(self, other)

    return test


for _name, _primitive in ew.OPERATORS.items():
    _plain, _reflected = binary(_primitive)
    setattr(Array, f"__{_name}__", _plain)
    setattr(Array, f"__r{_name}__", _reflected)
    setattr(Array, f"__i{_name}__", in_place(_plain))
for _name, _primitive in ew.COMPARISONS.items():
    setattr(Array, f"__{_name}__", binary(_primitive)[0])
for _name in ("eq", "ne"):
    setattr(Array, f"__{_name}__", _identity(getattr(Array, f"__{_name}__"), _name == "ne"))
for _name, _primitive in {"neg": ew.negative, "pos": ew.positive, "abs": ew.absolute, "invert": ew.TABLE["invert"]}.items():
    setattr(Array, f"__{_name}__", lambda self, p=_primitive: wrap(p(core(self))))
