"""Generated sources translated by Python's help: an engine computes the same bits from them."""

from __future__ import annotations

import inspect
import os
import queue
import subprocess
import sys
import threading
from types import FrameType

import numpy as np
import pytest

import diffsim as ds
from diffsim.engine import language, translation
from diffsim.engine.kernels import compile_kernel
from tests.engine.installed import require
from tests.sampled import sampled
from tests.steps import STEPS

KINDS = ("acoustic with CPML", "shallow water")
"""Steps with regions; with conditions and kept values."""
NAMES = [step.name for step in STEPS if step.name.startswith(KINDS)]


def _translated(engine: str, name: str, *by_itself: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.engine.translated", engine, name, *by_itself]
    environment = os.environ | {"TI_OFFLINE_CACHE": "0", "QD_OFFLINE_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    values, digest = done.stdout.split()
    return int(values), digest


SHORT = next(name for name in NAMES if name.startswith("shallow"))
PAIRS = [("taichi", SHORT), ("quadrants", SHORT), *(("taichi", name) for name in NAMES if name != SHORT)]


@pytest.mark.parametrize(("engine", "name"), sampled(PAIRS))
def test_kernels_have_the_bits_of_those_that_an_engine_translates_by_itself(engine: str, name: str) -> None:
    """Not its tree: an engine takes a second variable for each value."""
    require(engine)
    values, digest = _translated(engine, name)
    assert values > 1000  # other than 0
    assert (values, digest) == _translated(engine, name, "by_itself")


def _variables(values: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The variables that Taichi makes for a kernel with so many values."""
    ds.init(precision="f64", threads=1)
    lines = [f"        v{k + 1} = v{k} * 2.0" for k in range(values)]
    source = "\n".join(
        ["@ti.kernel", "def kernel(x: Numbers):", "    for i in range(1):", "        v0 = x[0]", *lines, f"        x[1] = v{values}"]
    )
    ti = language()
    kernel = compile_kernel(source, "kernel", {"Numbers": ti.types.ndarray(dtype=ti.f64, ndim=1)}, generated=True)
    asked, own = list[object](), ti.lang.impl.expr_init
    monkeypatch.setattr(ti.lang.impl, "expr_init", lambda value: asked.append(value) or own(value))
    x = np.array([3.0, 0.0])
    kernel(x)
    monkeypatch.undo()
    assert x[1] == 3.0 * 2.0**values
    return len(asked)


def test_a_value_takes_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taichi goes through a whole function for each."""
    assert _variables(30, monkeypatch) - _variables(10, monkeypatch) == 20


def test_functions_are_in_a_class_where_its_body_decorates_them() -> None:
    def decorator(function: object) -> bool:
        return translation.is_in_class(3)

    def nested() -> object:
        return decorator(None)

    class Body:
        inside = decorator(None)

        class Inner:
            inside = decorator(None)

    assert (Body.inside, Body.Inner.inside) == (True, True)
    assert (decorator(None), nested()) == (False, False)


def test_lines_of_frames_are_those_that_inspect_reads() -> None:
    frames: list[FrameType] = []

    def kept(function: object) -> int:
        frame = inspect.currentframe()
        while frame is not None:
            line = translation.frame_info(frame), inspect.getframeinfo(frame)
            assert line[0].code_context == line[1].code_context and line[0][:3] == line[1][:3] and line[0].index == line[1].index
            frames.append(frame)
            frame = frame.f_back
        return len(frames)

    class Body:
        inside = kept(None)

    source = "def f():\n    call(None)\nf()"
    exec(compile(source, "<no file>", "exec"), {"call": kept})
    assert len(frames) > 10
    with pytest.raises(ValueError, match="of a line") as caught:
        raise ValueError("of a line")
    trace = caught.value.__traceback__
    assert trace is not None and translation.frame_info(trace) == inspect.getframeinfo(trace)
    here = inspect.currentframe()
    assert here is not None and len(translation.frame_info(here, 3).code_context) == 3


@pytest.mark.parametrize("seed", range(4))
def test_overlapping_imports_put_back_the_function_that_reads_frames(seed: int) -> None:
    """Threads and nested blocks, which begin and end in any order; each of them reads lines while it lasts."""
    original, rng = inspect.getframeinfo, np.random.default_rng(seed)
    blocks = 5
    ends = [threading.Event() for _ in range(blocks)]
    began: queue.Queue[bool] = queue.Queue()

    def read(end: threading.Event, depth: int) -> None:
        with translation.reading_lines():
            if depth:
                return read(end, depth - 1)
            began.put(inspect.getframeinfo is translation.frame_info)
            assert end.wait(60)

    threads = [threading.Thread(target=read, args=(end, int(rng.integers(3)))) for end in ends]
    for thread in threads:
        thread.start()
        assert began.get(timeout=60)
    for number in rng.permutation(blocks):
        assert inspect.getframeinfo is translation.frame_info
        ends[number].set()
        threads[number].join()
    assert inspect.getframeinfo is original
    with pytest.raises(KeyError), translation.reading_lines():
        raise KeyError
    assert inspect.getframeinfo is original


IMPORTED = """
import inspect
original, asked = inspect.getframeinfo, []
def counted(object, _filename=None, sought=inspect.getmodule):
    asked.append(object)
    return sought(object, _filename)
inspect.getmodule = counted
import diffsim as ds
ds.init(arch="cpu")
print(len(asked), inspect.getframeinfo is original)
"""


def test_the_import_of_an_engine_looks_for_no_modules() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    asked, restored = done.stdout.split()
    assert int(asked) < 10 and restored == "True"
