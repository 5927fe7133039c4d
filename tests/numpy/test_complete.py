"""The table leaves out no public name, and the names of parameters are NumPy's."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

import diffsim.numpy as dn
from diffsim.ad.arrays.array import Array
from tests.sampled import together

from .table import ENTRIES

COVERED = {entry.covers for entry in ENTRIES}
# Types, constants and settings, which are NumPy's own, and modules.
PASSED_ON = {name for name in dn.__all__ if isinstance(getattr(dn, name), type) or not callable(getattr(dn, name))}
PASSED_ON |= {"errstate", "printoptions", "set_printoptions", "ndarray", "ufunc"}
LINALG_TYPES = {"LinAlgError", "EighResult", "LstsqResult", "QRResult", "SVDResult", "SlogdetResult"}
# Conversions to Python's own types and methods for copying, pickling and printing: see the tests of arrays.
NOT_OPERATIONS = {
    "array", "array_function", "array_namespace", "array_ufunc", "bool", "ceil", "class", "complex", "copy", "deepcopy", "delattr",
    "dir", "dlpack", "dlpack_device", "doc", "float", "floor", "format", "getattribute", "getstate", "hash", "index", "init",
    "init_subclass", "int", "iter", "len", "module", "new", "reduce", "reduce_ex", "repr", "round", "setattr", "sizeof", "slots", "str",
    "subclasshook", "trunc", "firstlineno", "static_attributes", "weakref",
}  # fmt: skip
NOT_METHODS = {"core", "linked", "add_at", "dtype", "item", "tolist"}


def test_every_public_name_is_in_the_table() -> None:
    names = set(dn.__all__) - PASSED_ON
    names |= {f"linalg.{n}" for n in set(dn.linalg.__all__) - LINALG_TYPES} | {f"fft.{n}" for n in dn.fft.__all__}
    assert sorted(names - COVERED) == []


def test_every_operator_and_method_is_in_the_table() -> None:
    special = {n[2:-2] for n in dir(Array) if n.startswith("__") and n.endswith("__")} - NOT_OPERATIONS
    reflected = {n for n in special if n[:1] == "r" and n[1:] in special}
    operators = {f"operator.{n}" for n in special - reflected}
    methods = {f"method.{n}" for n in dir(Array) if not n.startswith("_")} - {f"method.{n}" for n in NOT_METHODS}
    assert sorted((operators | methods) - COVERED) == []
    assert all(f"{n} number left" in {e.name for e in ENTRIES} for n in (f"operator.{r[1:]}" for r in reflected - {"rmatmul"}))


def test_names_that_are_exported_are_those_that_are_there() -> None:
    there = {n for n, v in vars(dn).items() if not n.startswith("_") and not inspect.ismodule(v)} | {"fft", "linalg", "special"}
    assert sorted(there - set(dn.__all__) - {"annotations", "Any", "sys"}) == []


ARRAY_API = ("descending",)  # keywords of the array API that NumPy lacks


def functions() -> Iterator[tuple[Any, Any]]:
    for ours, theirs in ((dn, np), (dn.linalg, np.linalg), (dn.fft, np.fft)):
        for name in sorted(ours.__all__):
            function = getattr(ours, name)
            if inspect.isfunction(function) and hasattr(theirs, name):
                yield function, getattr(theirs, name)


@together(functions(), apart=True)
def test_parameters_have_the_names_and_places_of_numpy(ours: Any, theirs: Any) -> None:
    """Positional arguments mean the same, and every keyword exists there (but for those of the array API)."""
    try:
        model = list(inspect.signature(theirs).parameters.values())
    except ValueError:  # NumPy does not tell its parameters
        return
    free = any(p.kind is p.VAR_KEYWORD for p in model)
    names = [p.name for p in model]
    by_position = [p.name for p in model if p.kind is not p.KEYWORD_ONLY]
    for place, p in enumerate(inspect.signature(ours).parameters.values()):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.name in ARRAY_API:
            continue
        if place < len(model) and model[place].kind is p.POSITIONAL_ONLY and p.kind is not p.KEYWORD_ONLY:
            continue  # by keyword it cannot be given there
        assert free or p.name in names
        if p.kind is not p.KEYWORD_ONLY and not free:
            assert by_position.index(p.name) == place
