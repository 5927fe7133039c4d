"""Summaries of objects, as text and in a notebook."""

from __future__ import annotations

import pickle
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.summary import Rows, Summary, array_shown


class Cells(HTMLParser):
    """The text of each cell of a table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.found.append(data)


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    grid = ds.Grid((8, 9), spacing=10.0)
    sea = ds.Simulation(ds.solvers.Acoustic(grid, dt=1e-3), sources={"f": [[50.0, 50.0]]}, receivers={"p": [[20.0, 20.0]]}, wrt=["c"])
    solution = sea.run({"c": np.full(grid.shape, 2000.0), "f": np.ones((3, 1))}, 3)
    return {"grid": grid, "simulation": sea, "solution": solution, "plan": ds.plan(sea, "4 MB", steps=20), "nothing": ds.Solution()}


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("grid", ["Grid of 72 cells", "8 cells of 10.0, centres from 0 to 70"]),
        ("simulation", ["Simulation of Acoustic", "8 x 9 cells (y, x)", "1 of f", "1 of p", "p, p_prev"]),
        ("solution", ["Solution", "8 x 9, float64", "4 x 1, float64"]),
        ("plan", ["at most 4 MB of memory"]),
        ("nothing", ["Solution"]),
    ],
)
def test_text_and_html_say_the_same(name: str, texts: list[str], shown: dict[str, Any]) -> None:
    cells = " ".join(Cells(shown[name]._repr_html_()).found)
    for text in texts:
        assert text in cells and (text in str(shown[name]) or name == "grid")


def test_a_repr_is_one_line(shown: dict[str, Any]) -> None:
    assert f"{shown['grid']}" == repr(shown["grid"]) == "Grid(shape=(8, 9), spacing=(10.0, 10.0), origin=(0.0, 0.0), axes=('y', 'x'))"
    assert repr(shown["simulation"]) == "Simulation(Acoustic, shape=(8, 9), wrt=('c',), precision='f64')"
    assert repr(shown["solution"]) == "Solution(final={'p': (8, 9), 'p_prev': (8, 9)}, traces={'p': (4, 1)})"
    assert pickle.loads(pickle.dumps(shown["grid"])) == shown["grid"]


def test_foreign_names_are_escaped() -> None:
    class Named(Summary):
        def _summary(self) -> tuple[str, Rows]:
            return "<script>", [("a & b", "<b>")]

    assert Cells(Named()._repr_html_()).found == ["<script>", "a & b", "<b>"]


ARRAYS = [
    (np.zeros((0, 2)), "0 x 2, float64"),
    (np.float32(2.0), "a number, float32, 2 to 2"),
    (np.array(["a"]), "1, <U1"),
    (None, "a number, NoneType"),
]


@pytest.mark.parametrize(("value", "text"), ARRAYS, ids=[text for _, text in ARRAYS])
def test_any_array(value: Any, text: str) -> None:
    assert array_shown(value) == text
