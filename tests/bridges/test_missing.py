"""The errors of parts of diffsim whose package is not installed."""

from __future__ import annotations

import importlib
import sys

import pytest

import diffsim as ds


@pytest.mark.parametrize(("module", "name"), [("diffsim.torch", "torch"), ("diffsim.jax", "jax")])
def test_a_missing_package_is_named_with_its_command(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    for known in [each for each in sys.modules if f"{each}.".startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, known)
    with pytest.raises(ImportError, match=rf"{module} expected the package {name}.*pip install {name}$") as raised:
        importlib.import_module(module)
    assert isinstance(raised.value, ds.DiffsimError) and raised.value.name == name
