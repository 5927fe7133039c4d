"""Shared by all tests: one initialisation, in f64, and which tests share a process."""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy comes: on busy cores threads of BLAS wait for one another
os.environ["DIFFSIM_TUNING"] = ""  # tests do not depend on what the user measured

import pytest

import diffsim as ds
from diffsim import engine
from diffsim.stepping.run import pace
from diffsim.stepping.source import slabs
from tests import NEXT_TO_NOTHING, WORTH_A_THREAD
from tests.cases import CASES
from tests.nightly import NIGHTLY, Kept
from tests.steps import STEPS

for _ignored in ("SIGINT", "SIGHUP"):  # a shell's background jobs ignore the first and nohup the second, and so would what the tests start
    _number = getattr(signal, _ignored, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _ignored == "SIGINT" else signal.SIG_DFL)


SHARED_OUT = (
    *(f"tests/{folder}/" for folder in ("kernels", "layers", "steps")),
    *(f"tests/stepping/{folder}/" for folder in ("derive", "passes", "run", "source", "stages")),
    *(f"tests/simulation/test_{name}.py" for name in ("batch", "checkpoints", "simulation")),
)
"""Where steps of small grids are shared out to all threads: what holds for kernels is tested there. Elsewhere steps have as many threads as
they are worth, as those of users have. Kernels for several threads take a quarter longer to compile, and threads wait for one another where
each core has a process with tests."""


@pytest.fixture(scope="module", autouse=True)
def _cpu(request: pytest.FixtureRequest) -> None:
    """The settings of all modules. A command that a test ran in this process may have chosen others."""
    _look_through_no_more()
    ds.init(arch="cpu", precision="f64")
    slabs.LEAST_CYCLES = NEXT_TO_NOTHING if request.node.nodeid.startswith(SHARED_OUT) else WORTH_A_THREAD
    pace.STRIKES = STRIKES if request.node.nodeid.startswith("tests/stepping/run/") else MANY_STRIKES


STRIKES, MANY_STRIKES = pace.STRIKES, 50
"""Slow launches before one worker runs alone, with a kernel of its own. Where each core has a process with tests, many launches are slow,
and to compile takes longer than to wait."""

NAMES = [entry.name.encode("unicode_escape").decode() for entry in (*CASES, *STEPS)]
BY_NAME = ("tests/steps/", "tests/stepping/", "tests/simulation/")
ALONE = ("tests/test_docs.py::test_code_runs", "tests/stepping/source/test_arches.py::test_gpu_kernels_on_vulkan")
LONG = (
    *(f"tests/{folder}/" for folder in ("steps", "stepping", "simulation", "solvers", "tile", "scene", "report")),
    *(f"tests/test_{name}.py" for name in ("late", "reference")),  # one process for all of them, which others must not wait for at the end
)


def group(test: str) -> str:
    """Tests of one case or step run in one process, which compiles its kernels once, others by file; some take long and need no company."""
    file, _, rest = test.partition("::")
    parameters = f"-{rest.partition('[')[2].removesuffix(']')}-"
    named = [name for name in NAMES if f"-{name}-" in parameters] if file.startswith(BY_NAME) else []
    return test if test.startswith(ALONE) else max(named, key=len, default=file)


def mark_slow(test: str, cases: list[tuple[str, pytest.Item]], kept: Kept, whole: bool) -> None:
    """Mark the cases of one test that are not kept for the gate. `whole`: whether all of its cases are there."""
    missing = [] if isinstance(kept, int) or not whole else sorted(set(kept) - {name for name, _ in cases})
    if cases and missing:
        raise pytest.UsageError(f"tests/nightly.py keeps cases {missing} of {test}, expected some of {[name for name, _ in cases]}")
    for number, (name, item) in enumerate(cases):
        if number % kept if isinstance(kept, int) else name not in kept:
            item.add_marker(pytest.mark.slow)


def _look_through_no_more() -> None:
    """Objects that live on, as tests and kernels do until the end, are looked through no more: each plan collects garbage, and that takes
    half a second where a process has compiled many kernels."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    _look_through_no_more()


def pytest_sessionfinish() -> None:
    """Write compiled kernels to disk, which an engine does as its program ends. At the end of the process that would not come, for objects
    that are looked through no more keep the program; and xdist ends a process that takes long to end."""
    gc.unfreeze()
    if engine.running_on_host():
        ds.init(arch="cpu", precision="f64", anew=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what `nightly` names as slow, and put the longest tests first: at the end, short ones fill the processes evenly."""
    cases: dict[str, list[tuple[str, pytest.Item]]] = {}
    for item in items:
        test, _, case = item.nodeid.removeprefix("tests/").partition("[")
        cases.setdefault(test, []).append((case.removesuffix("]"), item))
    whole = not any("[" in argument for argument in config.args)
    for file, tests in NIGHTLY.items():
        for test, kept in tests.items():
            mark_slow(test, cases.get(f"{file}::{test}", []), kept, whole)
    items.sort(key=lambda item: (not item.nodeid.startswith(ALONE), not item.nodeid.startswith(LONG)))


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there is no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Who gives `--dist loadgroup` has the groups above."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    config.option.loadscopereorder = False  # which would put them last
    return ByGroup(config, log)
