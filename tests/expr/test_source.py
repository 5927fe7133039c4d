"""Names of fields in generated sources."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import diffsim as ds
from diffsim.expr import exp
from diffsim.expr.source import identifier
from diffsim.stepping.source import functions
from diffsim.stepping.source.functions import INDICES
from tests.cases import Case
from tests.stepping.run_cases import outputs


class Named(ds.Equation):
    """Fields of any names, each coupled to the next one."""

    def __init__(self, *names: str) -> None:
        self.grid, self.dt = ds.Grid((6, 9), 1.0), 0.1
        self.states = {name: ds.Variable("mirror") for name in names}

    def step(self, **fields: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
        first, *others = fields.values()
        pairs = zip(fields, fields.values(), (*others, first), strict=True)
        return {name: 0.9 * value + 0.1 * exp(-(other.shifted(1, 1) ** 2)) for name, value, other in pairs}


NAMES = ("e", "e_field", "splice_1", "tile_exp", "first", "nest_0", "nest_0_kept_0", "seen", "called", "range", "p_at_1", "lambda_")


def test_no_field_has_the_name_of_something_else_in_a_kernel() -> None:
    result, wanted = outputs(Case("", lambda: Named(*NAMES), 2, {}, {}, {}), "f64")
    for name, values in wanted.items():
        assert result[name] == pytest.approx(values, abs=1e-14), name


def test_names_stay_different() -> None:
    names = [*NAMES, *(f"{name} bar" for name in NAMES)]
    assert len({identifier(name) for name in names}) == len(names)


def test_no_field_has_the_name_of_a_local_of_a_kernel() -> None:
    """The coefficient `narrow` of shallow water on the sphere was an array and a number of one kernel, in domains."""
    bound = re.compile(r"(?:^|\n)\s*([a-z]\w*(?:, [a-z]\w*)*) [+|]?= |(?:^|\n)\s*for ([a-z]\w*) in |\b([a-z]\w*): ti\.")
    own = set(INDICES)
    for path in Path(functions.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            own |= {name for match in bound.finditer(text) for names in match.groups() if names for name in names.split(", ")}
    assert {"narrow", "begin", "end", "back", "hi"} <= own
    for name in sorted(own):
        assert identifier(name) == f"{name}__field", name
