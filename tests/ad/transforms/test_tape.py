"""The tape made visible."""

from __future__ import annotations

import re
from typing import Any

import numpy

import diffsim as ds
import diffsim.numpy as np

X = numpy.arange(3.0)
W = numpy.ones((2, 3))


def program(x: Any, w: Any) -> Any:
    flux = ds.label(np.tanh(w @ x), "flux")
    return np.sum(flux * flux) + np.sum(x) * flux[0]


def test_entries_name_their_operations() -> None:
    tape = ds.show_tape(program, X, W)
    assert [e.label for e in tape.entries if e.operation == "input"] == ["x", "w"]
    (flux,) = (e for e in tape.entries if e.label == "flux")
    assert flux.operation == "tanh" and flux.shapes == ("float64[2]",) and flux.uses == 3 and flux.shared
    assert flux.nbytes == 16  # its own value, and nothing of its argument
    (product,) = (e for e in tape.entries if e.operation == "matmul")
    assert product.nbytes == W.nbytes + X.nbytes  # both factors
    assert all(a < e.number for e in tape.entries for a in e.arguments)
    assert [tape.entries[k].operation for k in tape.outputs] == ["add"]


def test_values_that_do_not_matter_are_not_there() -> None:
    def with_dead_branch(x: Any) -> Any:
        np.exp(x)
        return np.sin(x)

    assert [e.operation for e in ds.show_tape(with_dead_branch, 1.0).entries] == ["input", "sin"]


def test_a_shared_value_is_one_entry_and_many_in_the_tree() -> None:
    def doubled(x: Any) -> Any:
        for _ in range(100):
            x = x + x
        return x

    tape = ds.show_tape(doubled, 1.0)
    assert len(tape.entries) == 101
    assert tape.tree_size() == 2**101 - 1
    lines = tape.tree(lines=7).splitlines()
    assert len(lines) == 8 and lines[-1] == "... some 10^30 operations in all"
    assert str(tape).splitlines()[-1] == "101 operations, 100 shared, 0 B kept; as a tree some 10^30 operations"


def test_the_tree_of_a_small_program_is_written_out() -> None:
    tree = ds.show_tape(lambda x: x * np.sin(x), 1.0).tree().splitlines()
    assert tree == [
        "#2 multiply float64[]",
        "  #0 x: input float64[] (shared)",
        "  #1 sin float64[]",
        "    #0 x: input float64[] (shared)",
    ]


def test_graphviz_text_has_a_line_a_node_and_an_edge() -> None:
    tape = ds.show_tape(program, X, W)
    assert len(re.findall(r"^  n\d+ \[", tape.dot, re.M)) == len(tape.entries)
    assert len(re.findall(r"->", tape.dot)) == sum(len(e.arguments) for e in tape.entries)
    assert tape.dot.count("peripheries=2") == sum(e.shared for e in tape.entries)


def test_the_figure_shows_every_entry() -> None:
    tape = ds.show_tape(program, X, W)
    (axes,) = tape.figure().axes
    texts = [t.get_text() for t in axes.texts if t.get_text()]
    assert len(texts) == len(tape.entries)
    assert any(t.startswith("flux: tanh") for t in texts)


def test_records_of_records_are_named() -> None:
    tape = ds.show_tape(lambda p: p["a"] * p["b"][1], {"a": 1.0, "b": (2.0, 3.0)})
    assert [e.label for e in tape.entries if e.operation == "input"] == ["p[0]", "p[1]", "p[2]"]


def test_label_gives_back_its_argument_and_needs_no_record() -> None:
    assert ds.label(X, "x") is X
    assert ds.label(2.0, "two") == 2.0
