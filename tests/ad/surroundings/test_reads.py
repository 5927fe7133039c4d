"""Names that byte code reads, of instructions of any version of Python."""

from __future__ import annotations

from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import pytest

from diffsim.ad.recorded.outside import unchanged_of
from diffsim.ad.surroundings.reads import Read, reads_among

LOADS = {
    "LOAD_FAST": ("self",),
    "LOAD_FAST_CHECK": ("self",),
    "LOAD_FAST_BORROW": ("self",),
    "LOAD_FAST_LOAD_FAST": ("a", "self"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("a", "self"),
    "STORE_FAST_LOAD_FAST": ("a", "self"),
    "LOAD_DEREF": ("self",),
    "LOAD_GLOBAL": ("self",),
}
AFTER: dict[str, tuple[list[tuple[str, str]], tuple[str, ...], str]] = {
    "alone": ([("CALL", "")], (), ""),
    "an attribute": ([("LOAD_ATTR", "k"), ("CALL", "")], ("k",), ""),
    "a chain": ([("LOAD_ATTR", "part"), ("CACHE", ""), ("LOAD_METHOD", "k"), ("CALL", "")], ("part", "k"), ""),
    "an assignment": ([("STORE_ATTR", "k")], (), "k"),
    "an assignment to a part": ([("LOAD_ATTR", "part"), ("STORE_ATTR", "k"), ("LOAD_FAST_LOAD_FAST", ("b", "c"))], ("part",), "k"),
    "an addition in place": ([("COPY", ""), ("LOAD_ATTR", "k"), ("LOAD_CONST", "1"), ("STORE_ATTR", "k")], (), "k"),
    "an addition in place, of Python 3.10": ([("DUP_TOP", ""), ("LOAD_ATTR", "k")], (), "k"),
}


ENTRIES: dict[str, list[tuple[str, str]]] = {
    "an entry": [("LOAD_CONST", "0"), ("STORE_SUBSCR", "")],
    "an addition to an entry": [("LOAD_CONST", "0"), ("COPY", ""), ("COPY", ""), ("BINARY_SUBSCR", "")],
    "an addition to an entry, of Python 3.10": [("LOAD_CONST", "0"), ("DUP_TOP_TWO", ""), ("BINARY_SUBSCR", "")],
}


def instructions(*pairs: tuple[str, Any]) -> list[Any]:
    return [SimpleNamespace(opname=name, argval=value) for name, value in pairs]


@pytest.mark.parametrize("load", LOADS)
def test_what_follows_belongs_to_the_last_name(load: str) -> None:
    names, kind = LOADS[load], "global" if load == "LOAD_GLOBAL" else "local"
    for steps, attributes, assigned in AFTER.values():
        reads = list(reads_among(instructions((load, names if len(names) > 1 else names[0]), *steps)))
        first = [Read("local", "a")] if len(names) > 1 and load.startswith("LOAD") else []
        assert reads[: len(first) + 1] == [*first, Read(kind, "self", attributes, assigned)]  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", ENTRIES.values(), ids=ENTRIES)
def test_an_entry_that_is_assigned_is_not_read(steps: list[tuple[str, str]]) -> None:
    assert list(reads_among(instructions(("LOAD_GLOBAL", "table"), *steps))) == [Read("global", "table", entry=True)]
    read = instructions(("LOAD_GLOBAL", "table"), ("LOAD_ATTR", "part"), ("LOAD_CONST", "0"), ("BINARY_SUBSCR", ""))
    assert list(reads_among(read)) == [Read("global", "table", ("part",))]


@pytest.mark.parametrize("store", ["STORE_GLOBAL", "STORE_NAME", "STORE_DEREF"])
def test_a_name_that_is_assigned_outside_is_stored(store: str) -> None:
    assert list(reads_among(instructions((store, "k"), ("STORE_FAST", "own")))) == [Read("stored", "k")]


def test_a_name_that_is_a_local_and_a_cell_is_looked_at() -> None:
    """Since Python 3.12 the variable of a comprehension is a local of the function around it, beside a cell of the same name."""
    k = 2.0

    def f(x: Any) -> Any:
        return x * k

    def change() -> None:
        nonlocal k
        k = 5.0

    def around(x: Any) -> Any:
        return (lambda: x * k)()

    def with_both(code: CodeType) -> CodeType:
        inner = tuple(with_both(each) if isinstance(each, CodeType) else each for each in code.co_consts)
        return code.replace(co_nlocals=code.co_nlocals + 1, co_varnames=(*code.co_varnames, "k"), co_consts=inner)

    looks = []
    for each in (f, around):
        both = with_both(each.__code__)
        assert "k" in both.co_varnames and "k" in both.co_freevars
        looks.append(unchanged_of(FunctionType(both, globals(), "f", None, each.__closure__), [], [], [], []))
    assert [unchanged() for unchanged in looks] == [True, True]
    change()
    assert [unchanged() for unchanged in looks] == [False, False]
