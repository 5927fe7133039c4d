"""Compares a kernel's adjoint with differences, in a process of its own, because compiled code may end it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.userkernel import transport
from diffsim.ad.userkernel.kernel import UserKernel
from diffsim.ad.userkernel.signature import is_real
from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.errors import DiffsimError, KernelError

TOLERANCES = {"float64": 1e-6, "float32": 2e-2}
"""Central differences with a step of eps^(1/3) err by about eps^(2/3), 4e-11 and 2e-5, times third derivatives."""

LAST_LINES = 12
"""The number of lines shown, the last ones that a crashed process wrote."""

CHILD = "import sys; from diffsim.ad.userkernel.check import answer; answer(*sys.argv[1:])"


@dataclass(frozen=True)
class Row:
    """One comparison: a direction in one input. `adjoint` is <x_bar, dx>, `differences` <y_bar, dy>."""

    name: str
    direction: str
    adjoint: float
    differences: float
    error: float


@dataclass(frozen=True)
class KernelCheck:
    """The result of `check_kernel`, which prints as a table.

    Attributes:
        kernel: its name.
        rows: the comparisons.
        tolerance: largest relative error allowed.
        trouble: the reason why there are no comparisons (a crash, a refusal), or another fault; empty if there is none.
    """

    kernel: str
    rows: tuple[Row, ...]
    tolerance: float
    trouble: str = ""

    @property
    def passed(self) -> bool:
        """True if every comparison agrees and there was no trouble."""
        return bool(self.rows) and not self.trouble and all(row.error <= self.tolerance for row in self.rows)

    def __str__(self) -> str:
        lines = [f"kernel {self.kernel}: {'passed' if self.passed else 'FAILED'} (relative error at most {self.tolerance:.0e})"]
        if self.rows:
            lines.append(f"{'input':<12} {'direction':<12} {'adjoint':>16} {'differences':>16} {'error':>9}")
        lines += [
            f"{r.name:<12} {r.direction:<12} {r.adjoint:>16.8e} {r.differences:>16.8e} {r.error:>9.1e}"
            + ("" if r.error <= self.tolerance else "  <-- wrong")
            for r in self.rows
        ]
        return "\n".join([*lines, *([self.trouble] if self.trouble else [])])


def check_kernel(
    kernel: UserKernel,
    *args: Any,
    directions: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
    isolated: bool = True,
    timeout: float = 300.0,
    **kwargs: Any,
) -> KernelCheck:
    """Compare a kernel's adjoint with central differences at the given arguments.

    Each input that has a derivative is moved along random directions and along one of its cells alone; cotangents are
    random. Arguments should be away from kinks; differences are most precise for numbers near 1.

    Args:
        kernel: a kernel that `diffsim.kernel` made.
        args, kwargs: as in a call of the kernel.
        directions: random directions for each input.
        seed: of the directions and cotangents.
        tolerance: largest relative error; None: 1e-6 in f64, 2e-2 in f32.
        isolated: compare in a fresh interpreter, which gets the sources of the kernel and of its functions, and does not run the
            caller's script. False: compare in this process, which a crash of the kernel ends.
        timeout: seconds until the fresh interpreter is given up.

    Returns:
        The comparisons. They also hold a crash, a refusal or an error of the kernel, which is not raised.

    Raises:
        KernelError: the arguments do not fit, or something that the kernel uses cannot be sent.
    """
    if not isinstance(kernel, UserKernel):
        raise KernelError(f"kernel = {shown(kernel)}, expected a kernel; decorate the function with @diffsim.kernel")
    directions = whole("directions", directions, 1, error=KernelError)
    arrays = kernel.signature.convert(kernel.signature.bind(args, kwargs))
    inputs = list(arrays.values())
    if not isolated:
        return compare(kernel, inputs, directions, seed, tolerance)
    shapes = {n: kernel.signature.new_output(n, arrays).shape for n in kernel.signature.outputs if n not in arrays}
    now = engine.settings()
    request = {
        "kernel": transport.pack(kernel, kernel.__name__, shapes),
        "arguments": (inputs, directions, seed, tolerance),
        "init": (now.arch, now.precision, now.threads, False, now.engine),
    }
    return _ask(kernel.__name__, request, timeout)


def _ask(name: str, request: dict[str, Any], timeout: float) -> KernelCheck:
    """Run the comparison in a fresh interpreter and read its answer."""
    with tempfile.TemporaryDirectory(prefix="diffsim-check-") as folder:
        question, result = Path(folder, "question"), Path(folder, "answer")
        question.write_bytes(pickle.dumps(request))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path), "PYTHONFAULTHANDLER": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(question), str(result)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return KernelCheck(
                name, (), 0.0, f"no answer within {timeout:g} s; expected one: give a longer timeout, or look for an endless loop"
            )
        if result.exists():
            check: KernelCheck = pickle.loads(result.read_bytes())
            return check
    said = "\n".join(f"  | {line}" for line in done.stdout.strip().splitlines()[-LAST_LINES:])
    if done.returncode < 0:
        why = f"the kernel ended its process with {signal.Signals(-done.returncode).name}, expected an answer; it would have ended yours"
    else:
        why = f"the process that checks the kernel failed with status {done.returncode}, expected an answer"
    return KernelCheck(name, (), 0.0, f"{why}\n{said}")


def answer(question: str, result: str) -> None:
    """The work of the fresh interpreter: read the question, compare, write the answer."""
    request = pickle.loads(Path(question).read_bytes())
    engine.init(*request["init"])
    check = compare(transport.unpack(request["kernel"]), *request["arguments"])
    partial = Path(result + ".part")
    partial.write_bytes(pickle.dumps(check))
    partial.rename(result)


def compare(kernel: UserKernel, inputs: Sequence[Any], directions: int, seed: int, tolerance: float | None) -> KernelCheck:
    """The comparison itself, in this process."""
    random = np.random.default_rng(seed)
    inputs = list(kernel.signature.convert(inputs).values())
    try:
        outputs = kernel.evaluate(inputs)
        if not all(np.isfinite(a).all() for a in (*inputs, *outputs)):
            return KernelCheck(kernel.__name__, (), 0.0, "the kernel's values are not finite at these arguments, expected finite ones")
        cotangents = [random.normal(size=o.shape).astype(o.dtype) if is_real(o) else np.zeros_like(o) for o in outputs]
        bars = kernel.pullback(inputs, outputs, cotangents)
        again = kernel.pullback(inputs, outputs, cotangents)
        floats = [a.dtype.name for a in (*outputs, *inputs) if is_real(a) and a.ndim]
        precision = "float32" if "float32" in floats else "float64"
        bound = TOLERANCES[precision] if tolerance is None else tolerance
        rows = []
        for position, name in enumerate(kernel.signature.inputs):
            bar = bars[position]
            if bar is None:
                continue
            for label, dx in _directions(inputs[position], directions, random):
                moved = _differences(kernel, inputs, position, dx, cotangents, precision)
                claimed = float(np.vdot(bar.astype(np.float64), dx))
                scale = max(abs(claimed), abs(moved[0]), moved[1])
                gap = max(0.0, abs(claimed - moved[0]) - moved[2])
                rows.append(Row(name, label, claimed, moved[0], gap / scale if scale else gap))
        close = all(np.allclose(b, a, rtol=bound, atol=0) for b, a in zip(bars, again, strict=True) if b is not None and a is not None)
        trouble = "" if close else "the adjoint called twice gives different numbers, expected the same; does it keep a state?"
        if not rows:
            trouble = "nothing to compare: no input holds floats, expected at least one"
    except DiffsimError as error:
        return KernelCheck(kernel.__name__, (), 0.0, f"{type(error).__name__}: {error}")
    return KernelCheck(kernel.__name__, tuple(rows), bound, trouble)


def _directions(array: np.ndarray, count: int, random: np.random.Generator) -> list[tuple[str, np.ndarray]]:
    """Random directions in f64, and one that moves a single cell."""
    directions = [(f"random {i + 1}", random.normal(size=array.shape)) for i in range(count)]
    if array.ndim:
        cell = tuple(int(random.integers(n)) for n in array.shape)
        lonely = np.zeros(array.shape)
        lonely[cell] = 1.0
        directions.append((f"cell {cell if len(cell) > 1 else cell[0]}", lonely))
    return directions


def _differences(
    kernel: UserKernel, inputs: Sequence[np.ndarray], position: int, dx: np.ndarray, cotangents: Sequence[np.ndarray], precision: str
) -> tuple[float, float, float]:
    """<y_bar, dy> by central differences along dx; a floor for its size, since a sum may cancel by chance; its round-off."""
    array = inputs[position]
    size = float(np.abs(array).mean()) or 1.0
    step = float(np.finfo(precision).eps) ** (1 / 3) * size
    ends, moved = [], []
    for sign in (1, -1):
        changed = list(inputs)
        changed[position] = (array + sign * step * dx).astype(array.dtype)
        moved.append(np.asarray(changed[position], np.float64))
        ends.append([o.astype(np.float64) for o in kernel.evaluate(changed)])
    taken = float(np.vdot(moved[0] - moved[1], dx)) / float(np.vdot(dx, dx))  # the step that rounding left
    with np.errstate(invalid="ignore", over="ignore"):  # of values that overflow: the comparison then fails as NaN
        terms = [(plus - minus) / taken * bar for plus, minus, bar in zip(*ends, cotangents, strict=True)]
    total = float(sum(t.sum() for t in terms))
    largest = float(sum(np.abs(end * bar).sum() for end, bar in zip(ends[0], cotangents, strict=True)))
    rounding = 4 * float(np.finfo(precision).eps) * largest / abs(taken)
    return total, 1e-3 * float(sum(np.abs(t).sum() for t in terms)), rounding
