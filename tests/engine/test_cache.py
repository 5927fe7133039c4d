"""Compiled kernels are kept in a folder that works, wherever the process runs, and nothing stays behind where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diffsim.command import cli
from diffsim.engine import Tuned, cache, keep
from diffsim.errors import BackendError
from tests.engine.hostile import CACHES, DISKS, HOSTILE, Hostile, Surroundings, environment
from tests.engine.installed import require
from tests.sampled import sampled

ENGINES = ("taichi", "quadrants")
GRADIENT = """
import sys
import numpy as np
import diffsim as ds
rod = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), 0.05), dt=0.1), receivers={"T": [[0.5]]}, wrt=["kappa"])
value, gradient = rod.value_and_grad(lambda s: (s.traces["T"] ** 2).sum(), {"kappa": np.full(20, 8e-3), "T": np.arange(20.0)}, 20)
print(float(value).hex(), gradient["kappa"].tobytes().hex())
"""
AGAIN = GRADIENT + "ds.init(anew=True)\n" + "\n".join(GRADIENT.splitlines()[4:])
SPAWNED = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import diffsim as ds
def speak(_):
    return ds.init().engine
if __name__ == "__main__":
    ds.init()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        print(*pool.map(speak, range(2)))
"""


def output(program: str, engine: str, changes: Surroundings, temporary: Path) -> tuple[str, str]:
    """Lines that a program printed, as output and as errors."""
    temporary.mkdir(exist_ok=True)
    surroundings = environment(changes | {"DIFFSIM_ENGINE": engine}, temporary)
    done = subprocess.run([sys.executable, "-c", program], env=surroundings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def bits(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The gradient where the folder works, by engine."""
    bits_of: dict[str, str] = {}

    def of(engine: str) -> str:
        if engine not in bits_of:
            folder = tmp_path_factory.mktemp("works")
            bits_of[engine], said = output(GRADIENT, engine, {"HOME": str(folder)}, folder / "tmp")
            assert said == "" and list((folder / ".cache" / "diffsim" / engine).rglob("*.[tq][id]c")), "nothing is kept"
        return bits_of[engine]

    return of


@pytest.mark.parametrize(("hostile", "engine"), sampled([(hostile, engine) for engine in ENGINES for hostile in HOSTILE], every=4))
def test_the_same_bits_wherever_the_process_runs(engine: str, hostile: Hostile, bits: Callable[[str], str], tmp_path: Path) -> None:
    require(engine)
    (tmp_path / "place").mkdir()
    temporary = tmp_path / "tmp"
    with hostile(tmp_path / "place") as changes:
        first, said = output(GRADIENT, engine, changes, temporary)
        assert first == bits(engine) and said == ""
        if hostile in DISKS:
            assert output(GRADIENT, engine, changes, temporary)[0] == first, "with the files of the first one"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("engine", sampled(ENGINES))
def test_an_engine_that_starts_again_keeps_its_temporary_folder(engine: str, bits: Callable[[str], str], tmp_path: Path) -> None:
    require(engine)
    twice, said = output(AGAIN, engine, {"HOME": None, "DIFFSIM_CACHE": ""} | {"XDG_CACHE_HOME": "/proc/none"}, tmp_path / "tmp")
    assert twice == 2 * bits(engine) and said == ""
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_engine_that_is_used_at_the_end_starts_again(bits: Callable[[str], str], tmp_path: Path) -> None:
    late = f"import atexit, diffsim\natexit.register(exec, {GRADIENT!r}, {{}})\n{GRADIENT}"
    assert output(late, "taichi", {"HOME": "/proc/none"}, tmp_path / "tmp") == (2 * bits("taichi"), "")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_spawned_processes_choose_for_themselves(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SPAWNED)
    (tmp_path / "tmp").mkdir()
    surroundings = environment({"HOME": "/proc/none"}, tmp_path / "tmp")
    done = subprocess.run([sys.executable, str(script)], env=surroundings, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "taichi taichi\n", "")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("variable", ["DIFFSIM_CACHE", "TI_OFFLINE_CACHE_FILE_PATH"])
def test_a_named_folder_that_does_not_work_is_named(variable: str, bits: Callable[[str], str], tmp_path: Path) -> None:
    digest, said = output(GRADIENT, "taichi", {variable: "/proc/none/kept"}, tmp_path / "tmp")
    assert digest == bits("taichi")
    assert f"RuntimeWarning: {variable}: expected a folder that can be made and read, got '/proc/none/kept" in said
    assert said.count("Warning") == 1 and list((tmp_path / "tmp").iterdir()) == []


def test_a_run_of_tests_keeps_its_kernels(tmp_path: Path) -> None:
    """Those of its own process: what the tests leave to be looked through no more must not keep the engine's program to the end."""
    surroundings = environment({"TI_OFFLINE_CACHE_FILE_PATH": str(tmp_path / "kernels"), "DIFFSIM_ENGINE": "taichi"}, tmp_path)
    test = "tests/engine/test_decorated.py::test_methods_of_users_are_kernels"
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, env=surroundings, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "kernels").glob("*.tic"))


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No variable of caches is set, and a home."""
    for name in CACHES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return monkeypatch


@pytest.mark.parametrize(("part", "name"), [("", "ticache.lock"), ("kernels", "qdcache.lock")])
@pytest.mark.parametrize(("age", "left"), [(0, True), (0.5 * cache.OLD, True), (2 * cache.OLD, False), (1e7, False)])
def test_the_lock_of_a_killed_process_goes(age: float, left: bool, part: str, name: str, bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, others = tmp_path / "kept" / part, ("T12.tic", "uv.lock", "poetry.lock", "own.lock")
    folder.mkdir(parents=True)
    then = time.time() - age
    for file in (name, *others):
        (folder / file).touch()
        os.utime(folder / file, (then, then))
    bare.setenv("TI_OFFLINE_CACHE_FILE_PATH", str(tmp_path / "kept"))
    assert cache.kernel_folder("taichi", "TI_OFFLINE_CACHE_FILE_PATH", part).path == tmp_path / "kept"
    assert (folder / name).exists() is left and all((folder / each).exists() for each in others)


def test_kernels_are_kept_beside_the_lock_of_a_killed_process(bits: Callable[[str], str], tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "ticache.lock").touch()
    os.utime(folder / "ticache.lock", (0, 0))
    assert output(GRADIENT, "taichi", {"TI_OFFLINE_CACHE_FILE_PATH": str(folder)}, tmp_path / "tmp") == (bits("taichi"), "")
    assert list(folder.glob("*.tic"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "home/.cache/diffsim/taichi"),
        ({"XDG_CACHE_HOME": "/HERE/xdg"}, "xdg/diffsim/taichi"),
        ({"XDG_CACHE_HOME": "relative"}, "home/.cache/diffsim/taichi"),
        ({"XDG_CACHE_HOME": "/HERE/xdg", "DIFFSIM_CACHE": "/HERE/own"}, "own/taichi"),
        ({"DIFFSIM_CACHE": "~/own"}, "home/own/taichi"),
        ({"DIFFSIM_CACHE": ""}, "home/.cache/diffsim/taichi"),
        ({"DIFFSIM_CACHE": "/HERE/own", "TI_OFFLINE_CACHE_FILE_PATH": "/HERE/engine"}, "engine"),
        ({"DIFFSIM_CACHE": "/HERE/own", "QD_OFFLINE_CACHE_FILE_PATH": "/HERE/engine"}, "own/taichi"),
    ],
)
def test_the_first_that_is_set_is_taken(changes: dict[str, str], expected: str, bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in changes.items():
        bare.setenv(name, value.replace("/HERE", str(tmp_path)))
    folder = cache.kernel_folder("taichi", "TI_OFFLINE_CACHE_FILE_PATH")
    assert folder.path == tmp_path / expected and not folder.temporary and folder.path.is_dir()


def test_without_any_folder_the_remedy_is_named(bare: pytest.MonkeyPatch) -> None:
    def nowhere(prefix: str) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    bare.setenv("HOME", "/proc/none")
    bare.setattr(cache, "_made", [])
    bare.setattr(cache.tempfile, "mkdtemp", nowhere)
    with pytest.raises(BackendError, match=r"none that can be used \(No such file.*No usable.*set DIFFSIM_CACHE to a folder"):
        cache.kernel_folder("taichi", "TI_OFFLINE_CACHE_FILE_PATH")


def test_a_measurement_that_cannot_be_kept_is_named(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bare.setenv("DIFFSIM_TUNING", str(tmp_path / "file" / "tuning.json"))
    with pytest.raises(
        BackendError, match=r"keep the measurement in .*tuning\.json, got (Not a directory|File exists); set DIFFSIM_TUNING"
    ):
        keep("taichi", Tuned(32, "2026-01-02"))


def test_the_command_shows_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    assert "kernels kept in" in capsys.readouterr().out
