"""Shared by all tests: one initialisation, in f64."""

from __future__ import annotations

import signal

import pytest

import diffsim as ds

for _ignored in ("SIGINT", "SIGHUP"):  # a shell's background jobs ignore the first and nohup the second, and so would what the tests start
    _number = getattr(signal, _ignored, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _ignored == "SIGINT" else signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _cpu() -> None:
    ds.init(arch="cpu", precision="f64")
