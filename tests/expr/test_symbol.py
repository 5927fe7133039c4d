"""Symbols: axes are counted from the first or from the last, and others are refused."""

from __future__ import annotations

import pytest

from diffsim.errors import ShapeError
from diffsim.expr import diff, diff_centred, interpolate
from diffsim.expr.graph import Graph
from diffsim.expr.symbol import Symbol

graph = Graph()
field = Symbol(graph, graph.read("f", (0, 0, 0)), (0, 0, 0), (1.0, 1.0, 1.0))
ALONG = {
    "shifted": lambda axis: field.shifted(axis, 2),
    "across": lambda axis: field.across(axis),
    "diff": lambda axis: diff(field, axis),
    "interpolate": lambda axis: interpolate(field, axis),
    "diff_centred": lambda axis: diff_centred(field, axis),
}


@pytest.mark.parametrize("what", ALONG)
def test_axes_are_counted_from_both_ends(what: str) -> None:
    for axis in range(3):
        one, other = ALONG[what](axis), ALONG[what](axis - 3)
        assert one.node is other.node and one.location == other.location
        assert one.node is not field.node or one.location != field.location
    for axis in (3, -4):
        with pytest.raises(ShapeError, match=f"axis = {axis} of a 3-D grid, expected -3 to 2"):
            ALONG[what](axis)
