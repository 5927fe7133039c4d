"""Kernels of users may be methods, and those of this package are decorated without a look at all modules of the process."""

import inspect
from typing import Any

import pytest

from diffsim.engine.kernels import compile_kernel
from tests.language import ti

pytestmark = pytest.mark.engines


@ti.data_oriented
class Counter:
    def __init__(self, first: int) -> None:
        self.first = first

    @ti.func
    def twice(self, number):  # type: ignore[no-untyped-def]
        return 2 * number

    @ti.kernel
    def count(self) -> ti.i32:
        return self.twice(self.first)


def test_methods_of_users_are_kernels() -> None:
    assert [Counter(first).count() for first in (1, 4)] == [2, 8]


def test_no_source_is_read_for_a_generated_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    read = inspect.getframeinfo

    def asking(frame: Any, context: int = 1) -> inspect.Traceback:
        asked.append(frame.f_code.co_filename)
        return read(frame, context)

    monkeypatch.setattr(inspect, "getframeinfo", asking)
    source = "@ti.func\ndef two():\n    return 2\n\n@ti.kernel\ndef one() -> ti.i32:\n    return two() - 1\n"
    kernel = compile_kernel(source, "one", {}, generated=True)
    assert kernel() == 1
    assert asked == []
