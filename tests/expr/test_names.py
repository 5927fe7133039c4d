"""Names of `diffsim.expr`."""

from __future__ import annotations

import builtins

import diffsim.expr
from diffsim.reference.entries import public_names


def test_a_star_import_hides_no_name_of_python() -> None:
    names: dict[str, object] = {}
    exec("from diffsim.expr import *", names)  # as a user's script has it
    assert "laplacian" in names and not (names.keys() - {"__builtins__"}) & set(vars(builtins))


def test_names_that_are_left_out_of_a_star_import_are_public() -> None:
    for name in diffsim.expr.HIDING:
        assert name in public_names("diffsim.expr") and name not in diffsim.expr.__all__
