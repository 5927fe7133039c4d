"""Shared by all tests: one initialisation, in f64, and which tests share a process."""

from __future__ import annotations

import signal

import pytest

import diffsim as ds
from tests.cases import Case
from tests.steps.step import Step

for _ignored in ("SIGINT", "SIGHUP"):  # a shell's background jobs ignore the first and nohup the second, and so would what the tests start
    _number = getattr(signal, _ignored, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _ignored == "SIGINT" else signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _cpu() -> None:
    ds.init(arch="cpu", precision="f64")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`, tests of one case or step run in one process, which compiles its kernels once; others by file."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((f"{type(value).__name__} {value.name}" for value in values if isinstance(value, Case | Step)), item.location[0])
