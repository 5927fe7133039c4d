"""The engine is chosen by name, one process may use both in turn, and each gives the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import diffsim as ds
from diffsim import engine
from diffsim.engine import engines
from diffsim.errors import BackendError, KernelError, MissingPackageError
from tests.engine.installed import require
from tests.language import ti
from tests.sampled import sampled

ROUND_OFF = 1e-15
"""Reverse mode of the engines adds the same terms in another order; measured 2.4e-16 of the largest entry."""
OF_EACH_KIND = {
    "cases": ("f32", "acoustic 2-D mixed", "functions"),
    "steps": ("f64", "heat"),
    "arrays": ("f32", "recurrence (3, 6000, 2)", "scan_vjp matrix (3, 6000, 2)", "reduce arg-max (3, 6000, 2)", "order 40000 50 1"),
    "blocks": ("f64", "linear algebra/products_of_stacks", "linear algebra/solve_a_vector", "positions/gather_with_repeats"),
    "users": ("f64", "struct_for", "atomics", "matrices", "carrying_loop_with_vectors", "function"),
}
"""Precision and names of the compared parts. Cases and steps have forward, adjoint and tangent kernels, and
those that record; arrays have scans, reductions and histograms; blocks have tiles and products of matrices."""


def results(kind: str, chosen: str, folder: Path) -> dict[str, np.ndarray]:
    precision, *names = OF_EACH_KIND[kind]
    file = folder / f"{chosen}.npz"
    command = [sys.executable, "-m", "tests.engine.bits", precision, str(file), kind, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"DIFFSIM_ENGINE": chosen})
    assert not done.returncode, done.stderr[-3000:]
    with np.load(file) as stored:
        return dict(stored)


@pytest.mark.parametrize("kind", sampled(OF_EACH_KIND, gate={"steps"}))
def test_engines_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    require("quadrants")
    one, other = results(kind, "taichi", tmp_path), results(kind, "quadrants", tmp_path)
    assert len(one) >= 5 and one.keys() == other.keys()
    for name in one:
        if kind == "users":
            assert np.abs(one[name] - other[name]).max() <= ROUND_OFF * np.abs(one[name]).max(), name
        else:
            assert one[name].tobytes() == other[name].tobytes(), name


IN_TURN = """
import numpy as np
import diffsim as ds
from diffsim import engine
from diffsim.solvers import Heat
from tests.sampled import sampled

x = {"kappa": np.full((16, 16), 0.2), "T": np.arange(256.0).reshape(16, 16)}

def simulated():
    return ds.Simulation(Heat(ds.Grid((16, 16), 1.0), 0.1))

def cube(x: "A", y: "A"):
    for i in x:
        y[i] = x[i] ** 3

def user_kernel(ti):
    cube.__annotations__ = dict.fromkeys("xy", ti.types.ndarray(dtype=ti.f64, ndim=1))
    return ds.kernel(reads=("x",), writes={"y": "x"})(cube)

def refused(what, *words):
    try:
        what()
    except ds.DiffsimError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(words)

bits, former = set(), []
for name in "taichi", "quadrants", "taichi", "quadrants":
    assert ds.init(precision="f64", engine=name).engine == engine.chosen() == engine.present().name == name
    for simulation, kernel in former:
        refused(lambda: simulation.run(x, 3), "build it anew")
        if kernel.signature.engine != name:
            refused(lambda: kernel(np.ones(3)), kernel.signature.engine, name, "diffsim.init(engine=")
    simulation, kernel = simulated(), user_kernel(engine.language())
    bits.add(simulation.run(x, 3).final["T"].tobytes())
    assert ds.grad(lambda v: kernel(v).sum())(np.array([1.0, 2.0])).tolist() == [3.0, 12.0]
    former.append((simulation, kernel))
assert len(bits) == 1
"""


def test_a_process_may_use_both_engines_in_turn(tmp_path: Path) -> None:
    require("quadrants")
    script = tmp_path / "in_turn.py"
    script.write_text(IN_TURN)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr[-3000:]


@pytest.mark.engines
def test_settings_name_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    now = ds.init(arch="cpu", precision="f64")
    assert now.engine == engine.chosen() == os.environ.get("DIFFSIM_ENGINE", "taichi")
    monkeypatch.setenv("DIFFSIM_ENGINE", "tai chi")
    with pytest.raises(BackendError, match="engine = 'tai chi' is unknown; choose one of taichi, quadrants or auto"):
        ds.init(arch="cpu", precision="f64")
    with pytest.raises(BackendError, match="engine = None is unknown"):
        ds.init(arch="cpu", precision="f64", engine=None)  # type: ignore[arg-type]
    assert engine.settings() is now


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent(engines.TaichiEngine):
        name = "absent"

        def _imported(self) -> None:
            import absent_engine  # noqa: F401

    now = ds.init(arch="cpu", precision="f64")
    monkeypatch.setitem(engines.ENGINES, "absent", Absent)
    with pytest.raises(MissingPackageError, match="engine 'absent' expected the package absent_engine, found none; install it"):
        ds.init(arch="cpu", precision="f64", engine="absent")
    assert engine.settings() is now


@pytest.mark.engines
def test_a_kernel_in_the_language_of_another_engine_is_refused() -> None:
    name = next(name for name in engines.ENGINES if name != engine.chosen())
    foreign = type("ndarray", (), {"__module__": f"{name}.types"})()

    def doubled(x, y):
        for i in x:
            y[i] = 2 * x[i]

    doubled.__annotations__ = {"x": ti.types.ndarray(ndim=1), "y": foreign}
    with pytest.raises(KernelError, match=f"parameter y of kernel doubled has a type of '{name}', expected .*DIFFSIM_ENGINE={name}"):
        ds.kernel(reads=("x",), writes={"y": "x"})(doubled)
