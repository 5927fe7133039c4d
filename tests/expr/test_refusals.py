"""NumPy's functions, conversions and loops on a symbolic field: refused, with a replacement; NumPy's numbers take part."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim.expr
from diffsim.errors import TraceError
from diffsim.expr import Graph, Symbol
from diffsim.expr.refusals import ELEMENTARY, INSTEAD

Call = Callable[[Symbol], Any]


@pytest.fixture
def field() -> Symbol:
    graph = Graph()
    return Symbol(graph, graph.read("p", (0,)), (0,), (1.0,))


REFUSED: dict[str, tuple[Call, str]] = {
    "ufunc": (np.sin, r"numpy\.sin on a field, expected .*, got .*; write diffsim\.expr\.sin\(f\)"),
    "ufunc of two": (lambda f: np.maximum(f, 0.0), r"numpy\.maximum .*; write diffsim\.expr\.maximum\(a, b\)"),
    "ufunc with other remedy": (np.square, r"numpy\.square .*; write f\*\*2"),
    "ufunc without remedy": (
        lambda f: np.heaviside(f, f),
        r"numpy\.heaviside .*; write it with \+ - \* / % \*\*, abs and the functions sqrt",
    ),
    "method of a ufunc": (np.add.reduce, r"numpy\.add\.reduce .*; a step works cell by cell"),
    "ufunc with out": (lambda f: np.add(f, 1.0, out=np.ones(3)), r"numpy\.add on a field"),
    "into an array": (lambda f: operator.iadd(np.ones(3), f), r"numpy\.add on a field"),
    "where": (lambda f: np.where(f > 0, 1.0, f), r"numpy\.where .*; write diffsim\.expr\.where\(condition, a, b\)"),
    "reduction": (np.sum, r"numpy\.sum .*; a step works cell by cell, so join the values of cells in the loss"),
    "submodule": (np.linalg.norm, r"numpy\.linalg\.norm on a field"),
    "list of fields": (lambda f: np.stack([f, f]), r"numpy\.stack on a field"),
    "asarray": (np.asarray, r"a NumPy array of a field of a step, expected numbers, got .*; write functions of diffsim\.expr"),
    "array of fields": (lambda f: np.array([f, f]), "a NumPy array of a field of a step"),
    "math": (math.sin, r"float\(\) of a field of a step, .*; write functions of diffsim\.expr, such as diffsim\.expr\.sin\(f\)"),
    "float": (float, r"float\(\) of a field"),
    "int": (int, r"int\(\) of a field"),
    "complex": (complex, r"complex\(\) of a field"),
    "range": (range, "an index, or a count, of a field"),
    "index": (lambda f: np.ones(3)[f], "of a field of a step"),
    "if": (bool, r"a step branches on the value of a field, .*; use where"),
    "len": (len, r"len\(\) of a field of a step, expected one expression .*, got .*; f\.shifted\(axis, cells\) is a neighbour"),
    "loop": (list, "a loop, or an unpacking, of a field"),
    "entry": (lambda f: f[0], r"an entry \[\.\.\.\] of a field"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_is_refused_with_a_remedy(call: str, field: Symbol) -> None:
    function, message = REFUSED[call]
    with pytest.raises(TraceError, match=message):
        function(field)


BINARY: list[Callable[[Any, Any], Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.matmul, divmod),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.contains, operator.eq, operator.ne),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.getitem, operator.delitem),
]
UNARY: list[Callable[[Any], Any]] = [
    *(operator.neg, operator.pos, operator.abs, operator.invert, operator.not_, operator.truth, operator.index, round, math.floor),
    *(math.ceil, math.trunc, int, float, complex, len, list, reversed, "{:.2f}".format, lambda f: pow(f, 2, 3)),
]


@pytest.mark.parametrize("function", [*BINARY, *UNARY])
def test_every_operator_of_python_is_one_of_fields_or_refused(function: Callable[..., Any], field: Symbol) -> None:
    """None ends in an error of Python's, which would not say what to write."""
    calls = [(field,)] if function in UNARY else [(field, 2.0), (field, field), (2.0, field), (field > 0, field < 1), (field, True)]
    for operands in calls:
        if not isinstance(operands[0], Symbol) and function in (operator.contains, operator.getitem, operator.delitem):
            continue  # those of the number
        message = ""
        try:
            assert isinstance(function(*operands), (Symbol, bool))
        except TraceError as error:
            message = str(error)
        assert not message or "; " in message


@pytest.mark.parametrize(
    "value",
    [
        *(1j, np.complex64(1j), np.complex128(2.0), np.array(1j), np.clongdouble(1), "2", np.str_("2"), np.array("2"), None, [1.0], {}),
        *(np.array(each, object) for each in (2j, np.complex64(1j), "2", None, np.str_("2"))),
        *([[1], [1, 2]], [[], [[]]], np.array([1, [2]], object), object(), np.datetime64("2020-01-01"), (1, (2, 3))),
    ],
    ids=lambda value: "object()" if type(value) is object else repr(value),  # the address of an object differs from process to process
)
@pytest.mark.parametrize("function", [operator.add, operator.mul, operator.truediv, operator.pow, operator.lt, operator.mod])
def test_operands_that_are_no_real_numbers_are_refused(function: Callable[..., Any], value: Any, field: Symbol) -> None:
    """No part of a complex number is dropped, and no text is read as a number."""
    single = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
    is_complex = isinstance(single, (complex, np.complexfloating))
    expected = "real and the imaginary part as two fields" if is_complex else "expected a field or a number, got"
    for operands in ((field, value), (value, field)):
        if isinstance(value, str) and operands[0] is value and function is operator.mod:
            continue  # Python formats the text
        with pytest.raises(TraceError, match=expected):
            function(*operands)


ARITHMETIC: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    name: (function, function)
    for name, function in {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "<": operator.lt,
        "%": operator.mod,
    }.items()
} | {"<=": (operator.le, operator.le), ">": (operator.gt, operator.gt), "add": (np.add, operator.add), "less": (np.less, operator.lt)}


@pytest.mark.parametrize(
    "number", [np.float64(2), np.float32(2), np.int64(2), np.array(2.0), np.longdouble(2)], ids=lambda n: type(n).__name__
)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_numbers_of_numpy_are_numbers(name: str, number: Any, field: Symbol) -> None:
    numpys, pythons = ARITHMETIC[name]
    assert numpys(number, field).node is pythons(2.0, field).node
    assert numpys(field, number).node is pythons(field, 2.0).node


def test_operators_by_the_names_of_numpy(field: Symbol) -> None:
    assert np.negative(field).node is (-field).node and np.absolute(field).node is abs(field).node
    assert np.power(field, 2).node is (field * field).node
    assert np.remainder(2.0, field).node is (2.0 % field).node
    both = (field > 0) & (field < 1)
    assert (np.bool_(True) & both).node is both.node and np.invert(np.invert(both)).node is both.node
    assert (np.float64(2) ** field).node is (2.0**field).node and np.power(field, field).node is (field**field).node
    with pytest.raises(TraceError, match="compares fields with =="):
        np.float64(2) == field  # noqa: B015 -- it raises


def test_arrays_are_no_operands(field: Symbol) -> None:
    for both in ((np.ones(3), field), (field, np.ones(3)), ([1.0, 2.0], field)):
        with pytest.raises(TraceError, match="declare arrays as parameters or profiles"):
            np.multiply(*both)
    with pytest.raises(TraceError, match="declare arrays as parameters or profiles"):
        np.ones(3) * field


def test_replacements_can_be_written(field: Symbol) -> None:
    """Each remedy is an expression that gives a field, or a number."""
    names = {"diffsim": diffsim, "math": math, "f": field, "a": field, "b": 2.0 * field, "x": 1.0, "y": 2.0, "axis": 0, "cells": 1}
    names |= {"low": 0.0, "high": 1.0, "exponent": 2, "condition": field > 0}
    for name, remedy in INSTEAD.items():
        if remedy.startswith("the number"):
            continue
        place = {**names, "a": field > 0, "b": field < 1} if name.startswith("logical") else names
        assert isinstance(eval(remedy.partition(", for")[0].partition(", the other")[0], place), Symbol), name
    assert set(ELEMENTARY) <= set(diffsim.expr.__all__)
