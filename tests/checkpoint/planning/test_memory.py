from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffsim.checkpoint import parse_memory
from diffsim.checkpoint.planning.memory import least_text, memory_text
from diffsim.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4 GB", 4 * 10**9),
        ("500MB", 5 * 10**8),
        ("2 GiB", 2 * 2**30),
        ("1.5 kB", 1500),
        (".5 KiB", 512),
        ("1. TiB", 2**40),
        (" 3 tb ", 3 * 10**12),
        ("7 B", 7),
        ("1.0000001 kB", 1000),
        ("9007199254740993 B", 9007199254740993),  # no float holds it
        ("12 bytes", 12),
        ("253 412 096 bytes", 253_412_096),
        ("4 500 MB", 4500 * 10**6),
        (123, 123),
    ],
)
def test_amounts(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "GB",
        "-4 GB",
        "4 G",
        "4 apples",
        "1e3 MB",
        "nan GB",
        "0 GB",
        "0.1 B",
        "4 GB x",
        "4,5 GB",
        "25 34 MB",
        "1234 567 B",
        "1 234.5 kB",
        "٤ GB",
    ],
)
def test_text_that_is_no_amount_is_refused(text):
    with pytest.raises(ParameterError, match=r"expected an amount of memory of at least 1 byte, got .*; write for example '4 GB'"):
        parse_memory(text)


@pytest.mark.parametrize("value", [0, -1, True, 2.5, None])
def test_numbers_that_are_no_amount_are_refused(value):
    with pytest.raises(ParameterError, match="expected an amount of memory"):
        parse_memory(value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (999, "999 B"),
        (1000, "1 kB"),
        (253_412_096, "254 MB (253 412 096 bytes)"),
        (253_000_000, "253 MB"),
        (9_991, "10 kB (9 991 bytes)"),
        (999_001_000, "1 GB (999 001 000 bytes)"),
    ],
)
def test_the_least_memory_is_rounded_up(size, text):
    assert least_text(size) == text


@given(st.integers(1, 10**15))
def test_what_is_told_as_the_least_is_enough_and_hardly_more(size):
    rounded, _, exact = least_text(size).partition(" (")
    assert size <= parse_memory(rounded) <= size * 1.01
    assert parse_memory(exact.rstrip(")") or rounded) == size
    assert abs(parse_memory(memory_text(size)) - size) <= 0.005 * size + 1
