"""One simulation over many processes has the bits of one process, and ends with one line if something is wrong."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import diffsim as ds
from diffsim.domains import Domains, mpi
from diffsim.domains.ranks import Alone
from diffsim.errors import MissingPackageError, ParameterError, ShapeError
from tests.domains.drawn import KINDS, drawn
from tests.domains.generator import DEEP, NIGHTLY, QUICK, DomainCase, Summed, mapped
from tests.domains.refused import ALIKE, Pointwise
from tests.sampled import sampled

ROOT = Path(__file__).parents[2]
LAUNCHER = Path(sys.executable).parent / "mpiexec"
WITH_MPI = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not LAUNCHER.exists(), reason="needs mpi4py and mpich: pip install -e '.[mpi]' mpich"
)
PATIENCE = 10.0
"""Most seconds until all ranks have ended after one was killed; starting and compiling are not counted."""
Value = TypeVar("Value")


def launched(ranks: int, module: str, *arguments: str, timeout: float = 900.0) -> subprocess.CompletedProcess[str]:
    command = [str(LAUNCHER), "-n", str(ranks), sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def compared(cases: list[DomainCase], folder: Path, claim: int = 0, left_out: int = 0, narrower: int = 0) -> dict[str, str]:
    """The results that differ between one process and domains, by the case and its cuts."""
    for case in cases:
        (folder / f"{case.name}.pickle").write_bytes(pickle.dumps(case.results(None)))
    done = launched(
        cases[0].ranks, "tests.domains.compare", str(folder), str(claim), str(left_out), str(narrower), *(case.name for case in cases)
    )
    assert done.returncode == 0, done.stderr
    return dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())


def by_ranks(cases: list[DomainCase]) -> list[Any]:
    counts = sorted({case.ranks for case in cases})
    return [pytest.param([case for case in cases if case.ranks == count], id=f"{count} ranks") for count in counts]


@WITH_MPI
@pytest.mark.parametrize("cases", by_ranks(QUICK))
def test_domains_have_the_bits_of_one_process(cases: list[DomainCase], tmp_path: Path) -> None:
    differing = compared(cases, tmp_path)
    assert len(differing) == sum(len(case.cuts) for case in cases) and set(differing.values()) == {"same bits"}, differing


@WITH_MPI
@pytest.mark.slow
@pytest.mark.parametrize("case", [*NIGHTLY, *DEEP], ids=lambda case: case.name)
def test_all_equations_have_the_bits_of_one_process(case: DomainCase, tmp_path: Path) -> None:
    differing = compared([case], tmp_path)
    assert len(differing) == len(case.cuts) and set(differing.values()) == {"same bits"}, differing


@WITH_MPI
@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "first", "step"), [(2, 0, 1), (3, 0, 1), (4, 0, 1), (6, 0, 2), (8, 1, 2)])
def test_drawn_cases_have_the_bits_of_one_process(ranks: int, first: int, step: int, tmp_path: Path) -> None:
    """A case of each kind, or of every second one; `python -m tests.domains.drawn RANKS FIRST END` compares others."""
    numbers = range(first, len(KINDS), step)
    differing = compared([drawn(number, ranks) for number in numbers], tmp_path)
    assert len(differing) == len(numbers) and set(differing.values()) == {"same bits"}, differing


@WITH_MPI
@pytest.mark.slow
def test_all_calls_have_the_bits_of_one_process() -> None:
    done = launched(2, "tests.domains.calls")
    assert done.returncode == 0 and done.stdout == "9 calls: same bits\n", done.stdout + done.stderr


@WITH_MPI
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs the files of Linux about a process")
def test_no_rank_holds_what_it_does_not_own(tmp_path: Path) -> None:
    """A rank of four needs about a quarter of the memory of one process, for cells that are added to a grid: 0.23, and 0.27 to 0.31 where
    final states were not in memory that was used before. Each is the lower of two measurements, for threads may hold memory at once."""
    small, large = 1024, 2048
    np.save(tmp_path / "p.npy", np.random.default_rng(0).standard_normal((large, large)))

    def added(ranks: int) -> int:
        before, after = (
            min(int(launched(ranks, "tests.domains.memory", str(n), str(ranks), str(tmp_path / "p.npy")).stdout) for _ in range(2))
            for n in (small, large)
        )
        return after - before

    assert added(4) < 0.25 * added(1)


@WITH_MPI
@pytest.mark.slow
def test_ghost_cells_are_no_more_than_needed(tmp_path: Path) -> None:
    """One cell beyond those that are right is wrong: sums at points see it. The second one reaches owned cells and gradients."""
    case = next(case for case in NIGHTLY if case.name == "acoustic order 2 on 2 ranks")
    assert "trace p" in compared([case], tmp_path, claim=1)[f"{case.name} (2, 1)"]
    differing = compared([case], tmp_path, claim=2)[f"{case.name} (2, 1)"]
    assert all(name in differing for name in ("final p", "gradient c, auto", "gradient p, auto"))


@WITH_MPI
@pytest.mark.slow
def test_windows_get_no_narrower_than_they_may(tmp_path: Path) -> None:
    """In the second of three steps order 8 computes 7 planes of ghost cells, one for psi and one for points. Without a layer the last
    step reads 4 of them. So with four less, points are wrong there, and with five less owned cells.
    """
    case = next(case for case in DEEP if case.name == "some steps of acoustic order 8 in 3-D")
    assert "final p" in compared([case], tmp_path, narrower=5)[f"{case.name} (2, 1, 1)"]


@WITH_MPI
@pytest.mark.slow
def test_cells_that_are_not_computed_are_missed(tmp_path: Path) -> None:
    """Windows are made larger to blocks of four rows, so it takes as many to miss one."""
    case = next(case for case in NIGHTLY if case.name == "acoustic order 2 on 2 ranks")
    assert "final p" in compared([case], tmp_path, left_out=5)[f"{case.name} (2, 1)"]


LINES = {
    "inputs": "rank 0 of 2: ParameterError: rank 1 of 2 differs from rank 0, expected the same on all, got other inputs",
    "nan": "rank 0 of 2: ParameterError: on rank 1: input kappa has 1 values that are not finite",
    "points": "rank 0 of 2: ParameterError: rank 1 of 2 differs",
    "place": "rank 0 of 2: ParameterError: input kappa has other numbers on rank 1",
    "loss": "rank 0 of 2: ParameterError: rank 1 of 2 differs from rank 0, expected the same on all, got another loss",
    "axes": "rank 0 of 2: ParameterError: domains = (1, 1), expected 1 number (one an axis)",
    "function": "rank 1 of 2: ParameterError: a watch that fails on one rank",
}


@WITH_MPI
@pytest.mark.parametrize("kind", sampled(LINES, gate={"inputs", "function"}))
def test_an_error_ends_all_ranks_with_one_line(kind: str) -> None:
    done = launched(2, "tests.domains.mishap", kind, timeout=120)
    assert done.returncode == 2
    lines = [each for each in done.stderr.splitlines() if each.startswith("diffsim")]
    assert len(lines) == 1 and lines[0].startswith(f"diffsim: {LINES[kind]}")


@WITH_MPI
@pytest.mark.slow
def test_inputs_that_differ_are_refused_on_all_ranks(tmp_path: Path) -> None:
    """Mapped files that are not read by box are compared as a whole. What the check of an equation raises on one rank is raised on all."""
    done = launched(2, "tests.domains.refused", str(tmp_path), timeout=60)
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert said.pop("check", done.stderr) == "KeyError: the error of a user"
    assert set(said) == {"k", "depth", "wind", "tide", "f", "depth of a function"}
    assert all(line.startswith("ParameterError: rank 1 of 2 differs from rank 0, expected the same on all") for line in said.values()), said


@WITH_MPI
def test_one_rank_alone_may_follow_its_gradient() -> None:
    assert launched(2, "tests.domains.mishap", "followed", timeout=120).returncode == 0


@WITH_MPI
@pytest.mark.slow
def test_a_killed_rank_ends_all() -> None:
    began = time.monotonic()
    assert launched(2, "tests.domains.mishap", "none", timeout=120).returncode == 0
    usual = time.monotonic() - began
    began = time.monotonic()
    assert launched(2, "tests.domains.mishap", "killed", timeout=120).returncode != 0
    assert time.monotonic() - began < usual + PATIENCE


COPIES, LEFT = 7, 18
"""Rank 1 is killed before it writes this copy, one a step of 24. So these steps are left in the newest copy that both ranks have."""


@WITH_MPI
@pytest.mark.parametrize(
    ("model", "schedule"),
    [("rod", "disk"), *(pytest.param("sea", each, marks=pytest.mark.slow) for each in ("auto", "binomial", "disk", "all"))],
)
def test_killed_ranks_go_on_from_a_copy_that_all_have(model: str, schedule: str, tmp_path: Path) -> None:
    killed = launched(2, "tests.domains.killed", str(tmp_path), model, schedule, str(COPIES), timeout=120)
    assert killed.returncode != 0 and killed.stdout.startswith("\n="), killed.stdout  # the launcher's message alone
    assert len(list(tmp_path.glob("sweep-*"))) == 4
    again = launched(2, "tests.domains.killed", str(tmp_path), model, schedule, "0", timeout=120)
    assert again.returncode == 0 and again.stdout == f"[{LEFT}] same bits\n", again.stdout + again.stderr
    assert not list(tmp_path.iterdir())


class TwoRanks(Alone):
    """Stands for two processes, to see what is refused before anything is exchanged."""

    size, launched = 2, True

    def gathered(self, value: Value) -> list[Value]:
        return [value, value]

    def exchanged(self, outgoing: Mapping[int, Any], incoming: Mapping[int, Any]) -> None:
        raise AssertionError("an exchange of an equation that is refused")


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "_known", [TwoRanks()])


GRID = ds.Grid((24, 20), 0.5)


@pytest.mark.parametrize(
    ("equation", "domains", "error", "message"),
    [
        (lambda: ds.solvers.Heat(GRID, 0.1, method="crank_nicolson"), (2, 1), ParameterError, "a stage of the kind Solve"),
        (lambda: ds.solvers.Heat(GRID, 0.1, boundary="periodic"), (2, 1), ParameterError, "cut axis 0, whose ends are joined"),
        (lambda: Summed(GRID), (1, 2), ParameterError, r"a largest value of all cells, expected cuts of its first axis alone, \(2, 1\)"),
        (lambda: Summed(ds.Grid((24,), 0.5)), (2,), ParameterError, "a largest value of all cells, expected a grid of more than one axis"),
        (lambda: ds.solvers.Heat(GRID, 0.1), (2, 2), ParameterError, "need 4 ranks, one for each box, got 2; start .* mpiexec -n 4"),
        (lambda: ds.solvers.Heat(GRID, 0.1), (2,), ParameterError, "expected 2 numbers"),
        (lambda: ds.solvers.Heat(ds.Grid((24,), 0.5), 0.1), (2, 1), ParameterError, r"expected 1 number \(one an axis\)"),
        (lambda: ds.solvers.Heat(GRID, 0.1), (1, 1), ParameterError, "need 1 rank, one for each box, got 2; .* mpiexec -n 1"),
        (lambda: ds.solvers.Heat(GRID, 0.1), (2, 0), ParameterError, "domains along axis 1"),
        (lambda: ds.solvers.Heat(GRID, 0.1), "2x1", ParameterError, r"write them like \(2, 2\)"),
        (lambda: ds.solvers.Acoustic(ds.Grid((7, 20), 1.0), 1e-4), (2, 1), ShapeError, "boxes of 3, expected at least 4"),
    ],
)
@pytest.mark.usefixtures("two_ranks")
def test_domains_are_refused_by_name(equation: Any, domains: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ds.Simulation(equation(), domains=domains)


@pytest.mark.usefixtures("two_ranks")
def test_calls_that_domains_do_not_have_are_refused() -> None:
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((24,), 0.5), 0.1), domains=(2,))
    with pytest.raises(ParameterError, match="a Batch for a grid in domains"):
        ds.Batch(rod, 2)
    assert rod.box == (slice(0, 12),)


@pytest.mark.usefixtures("two_ranks")
def test_fields_along_an_axis_that_is_cut_are_read_by_box(tmp_path: Path) -> None:
    """All others are compared as a whole, and an error of any type in the check of a part is left to the whole."""
    run = ds.Simulation(Pointwise(ds.Grid((16, 7), 1.0)), sources={"f": [[3.0, 3.0]]}, domains=(2, 1), wrt=[])
    files = {name: mapped(np.asarray(value), tmp_path / f"{name}.npy") for name, value in ALIKE.items()}
    assert [name for name, file in files.items() if run._compiled._by_box(name, file)] == ["r"]
    assert not any(run._compiled._by_box(name, np.asarray(value)) for name, value in ALIKE.items())
    assert [run._compiled._by_box(name, lambda *at: 1.0) for name in ("r", "u", "depth")] == [True, True, False]
    assert [run._compiled._passes({"r": np.full(3, value)}) for value in (1.0, 9.0)] == [True, False]


def test_without_a_launcher_one_process_has_the_whole_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "_known", [])
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((24,), 0.5), 0.1), domains=Domains((3,)))
    assert rod.box == (slice(0, 24),) and "mpi4py.MPI" not in sys.modules


def test_a_launcher_without_mpi4py_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "_known", [])
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingPackageError, match="a simulation over many processes expected the package mpi4py"):
        ds.Simulation(ds.solvers.Heat(ds.Grid((24,), 0.5), 0.1), domains=(2,))


def test_mpi4py_without_an_mpi_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    (tmp_path / "mpi4py" / "MPI.py").write_text("raise RuntimeError('cannot load MPI library')")
    monkeypatch.setattr(mpi, "_known", [])
    monkeypatch.setenv("PMI_SIZE", "2")
    for name in [name for name in sys.modules if name.partition(".")[0] == "mpi4py"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingPackageError, match=r"an MPI that mpi4py can load, found none \(cannot load MPI library\); install one"):
        mpi.ranks()
    monkeypatch.setenv("MPI_LOCALRANKID", "1")  # the first process of a machine speaks for the others
    with pytest.raises(SystemExit, match="2"):
        mpi.ranks()
