"""Common parts of the benchmarks: cases in separate processes, runs in turns, medians, and a table with the targets.

A case is measured in its own process, diffsim and the C version in turns (A B A B ...), after both were compiled, warmed up
and compared. OpenMP's threads spin a while for the next loop, which short loops need, and would spin on into diffsim's turn:
they are ended after each turn of C (`omp_pause_resource_all`) and started before it. Taichi's idle threads sleep. The wait
policy is OpenMP's own: "active" was no faster on free cores and far slower on taken ones. Threads are not bound to cores:
binding the first one would bind Taichi's pool, which inherits it, to that core.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from diffsim.base.system import REGISTER_VARIABLE
from diffsim.engine import chosen, compiled_register_bytes

HERE = Path(__file__).resolve().parent
COMPILE = ("gcc", "-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")
LIBRARY, STAGGERED = "DIFFSIM_BENCH_LIBRARY", "DIFFSIM_BENCH_STAGGERED"
"""Environment variable with the path of the compiled C version."""
NARROW = 32
"""Bytes of the registers in the cases that do not take the widest."""
PAUSE = 0.02
"""Seconds between turns, in which threads of the last one end."""

Case = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One measured number and its target.

    Attributes:
        name: name of the measured quantity.
        value: of diffsim, in `unit`.
        unit: of `value` and `reference`.
        reference: of the C version, if it is compared with one.
        ratio: diffsim over C as `bound` counts it, median over turns; or the value compared with the target in its place.
        spread: lower and upper quartile of that ratio.
        loop: the same ratio for the time loops alone, without input checks, coefficients, copies.
        bound: "least" or "most" `target`.
        target: the ratio (or value) to reach; None: for information.
        others: cores that other processes took meanwhile.
    """

    name: str
    value: float
    unit: str
    reference: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    loop: float | None = None
    bound: Literal["least", "most"] = "least"
    target: float | None = None
    others: float = 0.0

    @property
    def compared(self) -> float:
        return self.value if self.ratio is None else self.ratio

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.compared >= self.target if self.bound == "least" else self.compared <= self.target


@dataclass(frozen=True)
class Benchmark:
    """A script's cases, and how one of them is measured.

    Attributes:
        script: its path.
        cases: `quick` -> the cases.
        measure: one case, in a process of its own -> figures.
    """

    script: Path
    cases: Callable[[bool], list[Case]]
    measure: Callable[[Case], list[Figure]]


# time


def timed(function: Callable[[], object]) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def cpu_seconds(function: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


def in_turns(contenders: Mapping[str, Callable[[], float]], turns: int) -> dict[str, list[float]]:
    """Call each contender once a turn, for `turns` turns after one to warm up; each returns its seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, contender in contenders.items():
            time.sleep(PAUSE)
            duration = contender()
            if turn:
                seconds[name].append(duration)
    return seconds


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    low, middle, high = np.percentile(np.asarray(values), (25, 50, 75))
    return float(low), float(middle), float(high)


def ratios(upper: Sequence[float], lower: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Median and quartiles of the ratios of turns that were neighbours, so that a slowdown of both drops out."""
    low, middle, high = quartiles([u / v for u, v in zip(upper, lower, strict=True)])
    return middle, (low, high)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def compare(name: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float, scale: float | None = None) -> None:
    """End the benchmark unless two results agree; the error is relative to `scale`, or to the largest value.

    Raises:
        SystemExit: they do not, so that timing them would compare different work.
    """
    size = float(np.abs(theirs).max()) if scale is None else scale
    error = float(np.abs(ours - theirs).max()) / size
    if not error <= tolerance:
        raise SystemExit(f"{name}: diffsim and the C version differ by {error:.2e} of {size:.3g}, expected at most {tolerance:.0e}")


# processes


@contextmanager
def build_folder() -> Iterator[None]:
    """A temporary folder with the compiled C version and an empty kernel cache, for this process and its children."""
    if shutil.which(COMPILE[0]) is None:
        raise SystemExit(f"the benchmarks compile a C version to compare with, but {COMPILE[0]} was not found; install it")
    with tempfile.TemporaryDirectory(prefix="diffsim-bench-") as folder:
        for variable, name in ((LIBRARY, "reference"), (STAGGERED, "staggered")):
            os.environ[variable] = str(Path(folder) / f"{name}.so")
            subprocess.run([*COMPILE, "-o", os.environ[variable], str(HERE / f"{name}.c")], check=True)
        os.environ.update({"TI_OFFLINE_CACHE_FILE_PATH": folder, "QD_OFFLINE_CACHE_FILE_PATH": folder})
        yield


def in_process(script: Path, case: Case, **environment: str) -> Any:
    """Run `script --case CASE` in a separate process, and parse its output as JSON."""
    path = os.pathsep.join(p for p in (str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")) if p)
    command = [sys.executable, str(script), "--case", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path, **environment})
    if done.returncode:
        raise SystemExit(f"{script.name} {case} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def narrow(case: Case) -> Case:
    """The same case with registers of 32 bytes, where kernels are written for wider ones."""
    return case | {"environment": {REGISTER_VARIABLE: str(NARROW)}}


def registers(case: Case) -> str:
    """The end of a figure's name."""
    return f", registers of {NARROW} bytes" if "environment" in case else ""


def main(*benchmarks: Benchmark) -> None:
    """Run the benchmarks of the command line's script, or the one case that it names."""
    parser = argparse.ArgumentParser(description="Measure diffsim beside a hand-written C version.")
    parser.add_argument("--quick", action="store_true", help="fewer steps and turns")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write the figures to this file")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps([asdict(figure) for figure in benchmarks[0].measure(options.case)]))
        return
    about = machine()
    for key, value in about.items():
        print(f"{key:10s} {value}")
    print("\n" + HEADER, flush=True)
    figures = []
    with build_folder():
        for benchmark in benchmarks:
            for case in benchmark.cases(options.quick):
                begin, others = time.perf_counter(), others_seconds()
                measured = in_process(benchmark.script, case, **case.get("environment", {}))
                others = (others_seconds() - others) / (time.perf_counter() - begin)
                for fields in measured:
                    figures.append(Figure(**fields | {"others": round(max(others, 0.0), 2)}))
                    print(row(figures[-1]), flush=True)
    print(LEGEND)
    if options.out:
        text = json.dumps({"machine": about, "quick": options.quick, "figures": [asdict(f) for f in figures]}, indent=1)
        partial = options.out.with_suffix(".part")
        partial.write_text(text + "\n")
        partial.replace(options.out)


def others_seconds() -> float:
    """CPU time that processes other than this one and its finished children have used."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    busy = sum(int(fields[k]) for k in (0, 1, 2, 5, 6, 7)) / os.sysconf("SC_CLK_TCK")  # all but idle and waiting for input
    own = os.times()
    return busy - (own.user + own.system + own.children_user + own.children_system)


# output

BUSY = 0.05
"""Cores taken by others above which a figure is marked as disturbed."""
HEADER = f"{'figure':66s} {'diffsim':>9s} {'C':>9s} {'unit':10s} {'ratio':>6s} {'(quartiles)':>13s} {'loop':>6s}  target"
LEGEND = """
ratio: diffsim over C, speed where the target is "at least", time where it is "at most"; median and quartiles over turns.
loop: the same for the time loops alone. All other figures are whole calls, diffsim's with input checks, coefficients and copies,
the C version's with coefficients and copies. Compilation is apart."""


def row(figure: Figure) -> str:
    """A line of the table."""
    reference = "" if figure.reference is None else f"{figure.reference:9.3f}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:6.2f}"
    spread = "" if figure.spread is None else f"({figure.spread[0]:.2f} {figure.spread[1]:.2f})"
    loop = "" if figure.loop is None else f"{figure.loop:6.2f}"
    goal = "" if figure.target is None else f"at {figure.bound} {figure.target:g}  {'met' if figure.met else 'NOT MET'}"
    disturbed = f"  (others took {figure.others:.2f} cores)" if figure.others > BUSY else ""
    return (
        f"{figure.name:66s} {figure.value:9.3f} {reference:>9s} {figure.unit:10s} {ratio:>6s} {spread:>13s} {loop:>6s}  {goal}{disturbed}"
    )


def machine() -> dict[str, str]:
    """The conditions of the measurement."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    fields = dict(line.replace("\t", "").split(": ", 1) for line in lines if ": " in line)
    flags = fields.get("flags", "").split()
    width = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "no AVX2"
    model = f"{fields.get('model name', platform.processor())} (family {fields.get('cpu family')}, model {fields.get('model')})"
    try:
        pages = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip()
    except OSError:
        pages = "unknown"
    packages = ", ".join(f"{name} {version(name)}" for name in (chosen(), "numpy"))
    return {
        "processor": f"{model}, {len(os.sched_getaffinity(0))} cores, {width}, {fields.get('cache size', '?')} cache a core",
        "system": f"{platform.platform()}, huge pages {pages}, load {os.getloadavg()[0]:.2f} at the start",
        "registers": f"kernels are written for {compiled_register_bytes()} bytes",
        "software": f"Python {platform.python_version()}, {packages}, {_compiler()}",
        "C": " ".join(COMPILE),
    }


@functools.cache
def _compiler() -> str:
    try:
        return subprocess.run([COMPILE[0], "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        return "no gcc"
