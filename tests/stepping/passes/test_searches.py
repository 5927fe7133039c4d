"""Results of searches for kept values hold for other graphs, processes, fields and numbers, and are searched for anew where they do not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.engine import results
from diffsim.expr.graph import Node
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.ir.program import Program
from diffsim.stepping.passes import rolling
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.trace.trace import TracedStep
from tests.stepping.drawn_fluxes import Fluxes
from tests.stepping.passes.test_sharing import traced

DRAWN = {f"drawn {number}": lambda number=number: Fluxes(number, ndim=1 + number % 2, alone=True) for number in (1, 2, 5, 8, 11, 14)}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No results of this process, and files of its own."""
    monkeypatch.setattr(rolling, "_results", {})
    monkeypatch.setattr(results, "_folder", lambda kind: tmp_path / kind)
    return tmp_path / "searches"


def rolled(step: TracedStep) -> Program:
    return Rolling(step.graph, blocks=True).rolled(adjoint_program(step, ()).program)


def kept(program: Program) -> list[list[list[Node]]]:
    return [[[*group.values.values()] for group in nest.groups] for nest in program.nests]


def numbers_of(program: Program) -> list[list[list[int]]]:
    """The number of each kept value, by which a compiled kernel is known."""
    return [[[node.id for node in values] for values in nest] for nest in kept(program)]


def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of roots of each search from now on."""
    counts: list[int] = []
    search_of = rolling._searched

    def counted(roots: Any) -> Any:
        counts.append(len(roots))
        return search_of(roots)

    monkeypatch.setattr(rolling, "_searched", counted)
    return counts


@pytest.mark.parametrize("name", DRAWN)
def test_a_program_is_the_same_with_results_of_another_process(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(rolling, "WORTH", 100.0)
    program = rolled(traced(DRAWN[name]()))
    numbers = numbers_of(program)
    assert any(map(len, numbers)) and len([*folder.iterdir()])
    monkeypatch.setattr(rolling, "_results", {})
    counts = searched(monkeypatch)
    again = rolled(traced(DRAWN[name]()))
    assert numbers_of(again) == numbers and not counts
    assert [[*map(str, nest.roots)] for nest in again.nests] == [[*map(str, nest.roots)] for nest in program.nests]


def test_other_time_steps_and_grids_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(n: int, dt: float) -> TracedStep:
        return traced(ds.solvers.ShallowWater(ds.Grid((n, n + 3), 7.0 + dt), dt, fastest=18.0))

    rolled(step(16, 0.1))
    counts = searched(monkeypatch)
    rolled(step(24, 0.07))
    assert not counts


def test_a_result_is_of_its_limits_and_of_its_own_search(monkeypatch: pytest.MonkeyPatch) -> None:
    step = traced(DRAWN["drawn 2"]())
    rolled(step)
    counts = searched(monkeypatch)
    rolled(step)
    assert not counts
    monkeypatch.setattr(rolling, "WORTH", 0.5)
    rolled(step)
    first = len(counts)
    assert first
    monkeypatch.setattr(rolling, "_program", lambda: "another search")
    rolled(step)
    assert len(counts) == 2 * first


DAMAGES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "empty": lambda text, rng: b"",
    "cut": lambda text, rng: text[: int(rng.integers(1, len(text)))],
    "one digit": lambda text, rng: text.replace(b"0", b"1", 1) if b"0" in text else text[:-1],
    "bits": lambda text, rng: bytes(a ^ int(b) for a, b in zip(text, rng.integers(0, 2, len(text)), strict=True)),
    "twice": lambda text, rng: text + text,
    "without its first line": lambda text, rng: text.partition(b"\n")[2],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_files_are_searched_for_anew(
    damage: Callable[[bytes, np.random.Generator], bytes], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    step, rng = traced(DRAWN["drawn 5"]()), np.random.default_rng(0)
    expected = kept(rolled(step))
    files = {file: file.read_bytes() for file in folder.iterdir()}
    for file, text in files.items():
        file.write_bytes(damage(text, rng))
    monkeypatch.setattr(rolling, "_results", {})
    assert kept(rolled(step)) == expected
    assert {file: file.read_bytes() for file in folder.iterdir()} == files


def test_old_files_make_room(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(results, "MOST", 10)
    for number in range(11):
        results.store_result("searches", f"n{number}", number)
        os.utime(folder / f"n{number}.json", (number, number)) if number < 10 else None
    assert sorted(int(file.stem[1:]) for file in folder.iterdir()) == [5, 6, 7, 8, 9, 10]
    assert results.load_result("searches", "n7") == 7 and results.load_result("searches", "n1") is None


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("a file in its place")
    results.store_result("searches", "n", 1)
    assert results.load_result("searches", "n") is None and folder.read_text() == "a file in its place"


THREADS = 6


def at_once(work: Callable[[int], None]) -> None:
    """Call `work` with the numbers of some threads in all of them at once. The first error in one of them is raised."""
    start, errors = threading.Barrier(THREADS), []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_write_one_result_at_once_leave_one_that_others_can_read(seed: int, folder: Path) -> None:
    """Values of any length by all threads: a reader has one of them whole, from the first on."""
    rng = np.random.default_rng(seed)
    values = [[*range(int(length))] for length in rng.integers(0, 40_000, 8)]
    names = ["a", "b"]
    for name in names:
        results.store_result("searches", name, values[0])

    def work(number: int) -> None:
        draw = np.random.default_rng([seed, number])
        for _ in range(60):
            name = names[draw.integers(2)]
            if draw.random() < 0.5:
                results.store_result("searches", name, values[draw.integers(8)])
            else:
                assert results.load_result("searches", name) in values

    at_once(work)
    assert sorted(file.name for file in folder.iterdir()) == ["a.json", "b.json"]


def test_threads_that_make_room_at_once_keep_newer_results(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(results, "MOST", 40)

    def work(number: int) -> None:
        for each in range(60):
            results.store_result("searches", f"{number} {each}", each)
            loaded = results.load_result("searches", f"{number} {each}")
            assert loaded in (each, None)

    at_once(work)
    left = [file.name for file in folder.iterdir()]
    assert 10 < len(left) <= 41 and all(name.endswith(".json") for name in left)


def test_threads_that_build_steps_at_once_have_the_programs_of_one(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Each searches, or reads what another one wrote; files that are damaged meanwhile change nothing."""
    monkeypatch.setattr(rolling, "WORTH", 100.0)
    cases = [DRAWN[name] for name in ("drawn 1", "drawn 5")]
    expected = [numbers_of(rolled(traced(case()))) for case in cases]
    for file in folder.iterdir():
        file.unlink()
    rolling._results.clear()

    def work(number: int) -> None:
        if number == 0:
            for file in [*folder.glob("*.json")]:
                file.write_bytes(b"damaged")
        rolling._results.clear()
        assert numbers_of(rolled(traced(cases[number % 2]()))) == expected[number % 2]

    at_once(work)


WRITES = """
import diffsim as ds
ds.Simulation(ds.solvers.ShallowWater(ds.Grid((9, 9), 1.0), 0.01))
"""


@pytest.mark.parametrize("keeps", [True, False])
def test_results_are_kept_where_kernels_are(keeps: bool, tmp_path: Path) -> None:
    environment = os.environ | {
        "TI_OFFLINE_CACHE_FILE_PATH": str(tmp_path),
        "TI_OFFLINE_CACHE": str(int(keeps)),
        "DIFFSIM_ENGINE": "taichi",
    }
    subprocess.run([sys.executable, "-c", WRITES], env=environment, check=True, timeout=120)
    assert (tmp_path / "diffsim-searches").exists() == keeps


def test_offsets_may_be_integers_of_numpy(folder: Path) -> None:
    """Places of kept values are offsets, which are written to files."""

    class Numbers(ds.Equation):
        def __init__(self, kind: Callable[[int], Any]) -> None:
            self.grid, self.dt, self.kind = ds.Grid((12, 13), 1.0), 0.1, kind
            self.states = {"u": ds.Variable("mirror")}

        def step(self, u: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
            flux = ds.expr.sqrt(1.0 + u * u) / (2.0 + u * u * u.shifted(0, self.kind(1)))
            return {"u": u - sum(((-1) ** k * flux.shifted(0, self.kind(k)) * flux for k in (-1, 0, 1)), 0.0)}

    rolled(traced(Numbers(int)))
    files = {*folder.iterdir()}
    rolled(traced(Numbers(np.int64)))
    assert files and {*folder.iterdir()} == files
    with pytest.raises(ds.errors.ShapeError, match="expected a whole number of cells"):
        traced(Numbers(float))


def test_a_package_without_sources_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: Any) -> str:
        raise OSError("source code not available")

    monkeypatch.setattr("inspect.getsource", missing)
    rolling._program.cache_clear()
    try:
        assert any(map(len, kept(rolled(traced(DRAWN["drawn 5"]())))))
    finally:
        rolling._program.cache_clear()
