"""Checks of kernels in a process of their own: right and wrong adjoints, crashes, and what travels there."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import KernelError
from tests.language import ti

ROOT = Path(__file__).parents[3]
A1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
real = ti.f32
Pair = ti.types.vector(2, ti.f64)
WEIGHTS = {"near": (0.25, 0.5), "far": np.array([1.0, 2.0])}
FAR = 2.0
VECTOR = ti.Vector([1.0, 3.0])


class Box:
    def __init__(self) -> None:
        self.volume = 2.0


@ti.func
def smooth(a):
    return ti.sin(a) * FAR


@ds.kernel(reads=("x", "k"), writes={"y": lambda x: (x.shape[0] - 1,)})
def everything(x: A1, k: ti.f64, y: A1):
    for i in y:
        pair = Pair(x[i], x[i + 1])
        y[i] = smooth(pair.norm_sqr()) * k * VECTOR[1] + ti.math.pi


def weigh(values):
    return values * WEIGHTS["near"][1] * WEIGHTS["far"][0] * 2


def halved(right: bool):
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def twice(x: A1, y: A1):
        for i in x:
            s = x[i]
            while s < 1.0:
                s = s * 2.0
            y[i] = s

    @twice.adjoint
    def twice_bar(inputs, outputs, cotangents):
        slope = np.round(outputs[0] / inputs[0]) if right else 2.0
        return weigh(cotangents[0]) * slope

    return twice


def test_right_adjoint_with_all_that_it_uses() -> None:
    result = ds.check_kernel(everything, np.linspace(0.3, 0.9, 5), k=0.4)
    assert result.passed, str(result)
    assert {r.name for r in result.rows} == {"x", "k"} and len(result.rows) == 7
    assert "kernel everything: passed" in str(result)


def test_hand_written_adjoint_travels_and_is_checked() -> None:
    x = np.array([0.3, 0.6, 0.9, 0.2])
    assert ds.check_kernel(halved(True), x, directions=1).passed
    wrong = ds.check_kernel(halved(False), x, directions=1)
    assert not wrong.passed and len(wrong.rows) == 2
    assert "FAILED" in str(wrong) and "<-- wrong" in str(wrong)


def test_f32() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def wave(x: ti.types.ndarray(dtype=real, ndim=1), y: ti.types.ndarray(dtype=real, ndim=1)):
        for i in x:
            y[i] = ti.sin(x[i]) * x[i]

    result = ds.check_kernel(wave, np.linspace(0.5, 1.5, 50, dtype=np.float32), isolated=False)
    assert result.passed and result.tolerance == 2e-2, str(result)
    wave.adjoint(lambda inputs, outputs, cotangents: cotangents[0] * (np.cos(inputs[0]) * inputs[0] + 0.9 * np.sin(inputs[0])))
    assert not ds.check_kernel(wave, np.linspace(0.5, 1.5, 50, dtype=np.float32), isolated=False).passed


def test_a_kernel_that_crashes_does_not_take_the_caller_with_it() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def wild(x: A1, y: A1):
        for i in x:
            y[i + 2000000000] = x[i]

    result = ds.check_kernel(wild, np.ones(3))
    assert not result.passed and not result.rows
    assert "SIGSEGV" in str(result) and "expected an answer" in str(result)


def test_a_refused_kernel_is_told_with_its_findings() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def exponentials(x: A1, y: A1):
        for i in x:
            s = 0.0
            for j in range(3):
                s += ti.exp(x[i] * j)
            y[i] = s

    result = ds.check_kernel(exponentials, np.ones(3))
    assert (
        not result.passed
        and "an inner loop beside other statements" in str(result)
        and "test_check.py" not in str(result).partition("FAILED")[0]
    )


def test_an_endless_kernel_is_given_up() -> None:
    @ds.kernel(reads=("x",), writes=("y",))
    def endless(x: A1, y: A1):
        for i in x:
            while x[i] > 0:
                y[i] += x[i]

    result = ds.check_kernel(endless, np.ones(2), np.ones(2), timeout=3.0)
    assert not result.passed and "no answer within 3 s" in str(result)


def test_values_that_overflow_and_adjoints_that_remember() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def inverse(x: A1, y: A1):
        for i in x:
            y[i] = 1.0 / x[i]

    assert "not finite" in str(ds.check_kernel(inverse, np.zeros(2), isolated=False))
    calls = []

    @inverse.adjoint
    def inverse_bar(inputs, outputs, cotangents):
        calls.append(1)
        return -cotangents[0] * outputs[0] ** 2 * len(calls)

    assert "called twice" in str(ds.check_kernel(inverse, np.ones(2), isolated=False))


def test_nothing_to_compare() -> None:
    @ds.kernel(reads=("n",), writes={"y": (3,)})
    def fill(n: int, y: A1):
        for i in y:
            y[i] = n * i

    assert "no input holds floats" in str(ds.check_kernel(fill, 2, isolated=False))


def test_what_cannot_be_sent() -> None:
    box = Box()
    kernel = halved(True)
    kernel.adjoint(lambda inputs, outputs, cotangents: cotangents[0])
    with pytest.raises(KernelError, match=r"cannot be sent|def of its own"):
        ds.check_kernel(kernel, np.ones(2))

    def with_local_object(inputs, outputs, cotangents):
        return cotangents[0] * box.volume + undefined_name  # noqa: F821

    kernel.adjoint(with_local_object)
    with pytest.raises(KernelError, match="undefined_name cannot be sent"):
        ds.check_kernel(kernel, np.ones(2))
    with pytest.raises(KernelError, match="directions = 0"):
        ds.check_kernel(kernel, np.ones(2), directions=0)


SCRIPT = """
import sys
import numpy as np
from tests.language import ti
import diffsim as ds
print("main runs", __name__)
K = 3.0

class Local:
    slope = 2.0

local = Local()

def slope(a):
    return 2 * a

@ds.kernel(reads=("x",), writes={"y": "x"})
def f(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = K * x[i] ** 2

result = ds.check_kernel(f, np.array([1.0, 2.0]))
print(result)
assert result.passed

@f.adjoint
def f_bar(inputs, outputs, cotangents):
    return cotangents[0] * K * slope(inputs[0])

assert ds.check_kernel(f, np.array([1.0, 2.0])).passed

@f.adjoint
def f_bar(inputs, outputs, cotangents):
    return cotangents[0] * K * local.slope

try:
    ds.check_kernel(f, np.array([1.0, 2.0]))
except ds.errors.KernelError as error:
    print(error)
"""


def test_a_script_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("main runs") == 1
    assert "local cannot be sent" in done.stdout and "isolated=False" in done.stdout
