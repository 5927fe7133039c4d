"""Shots in several processes: the same bits, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from diffsim.checkpoint import Policy
from diffsim.engine import settings
from diffsim.errors import MissingPackageError, ParameterError, SceneError, StabilityError, WorkerError
from diffsim.scene import Scene
from diffsim.scene.disk.shot_progress import ShotProgress
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots import cluster as module
from diffsim.scene.shots.cluster import Cluster, opened
from diffsim.scene.shots.cluster_worker import Conditions
from diffsim.scene.shots.workers import HERE
from tests.sampled import sampled
from tests.scene.shots import shot_functions
from tests.scene.shots.shot_functions import Kept
from tests.scene.tiny import ACOUSTIC, as_toml, scene, tables

distributed = pytest.importorskip("distributed")

POINTS = [[40.0, 30.0], [70.0, 30.0], [100.0, 35.0], [120.0, 35.0]]
FOUR: dict[str, Any] = {"sources__f__points": POINTS, "accept": []}
"""Four shots."""
DIED = r"result of shot 1, got 2 workers that died while they ran it; .*take fewer workers"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers of one thread, for all tests."""
    with module._started(2) as started:
        yield started


@pytest.fixture
def crew(client: Any) -> Cluster:
    return Cluster(lambda: client, Conditions.of_head(None))


SEARCHES: dict[str, dict[str, Any]] = {
    "L-BFGS": {"optimise": {"iterations": 3}},
    "Gauss-Newton": {"optimise": {"method": "gauss-newton", "iterations": 2}},
    "Adam": {"optimise": {"method": "adam", "iterations": 5, "batch": 2, "rate": 0.2}},
    "stages": {
        "unknowns__c__precondition": "energy",
        "stage": [{"lowpass": 60.0, "iterations": 2}, {"iterations": 2}],
    },
}


def require_same(found: Path, expected: Path) -> None:
    """All that two runs found: their arrays, and the rest without times and memory."""
    with np.load(found / "result.npz") as a, np.load(expected / "result.npz") as b:
        assert a.files == b.files
        for name in b.files:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    texts = [json.loads((folder / "outcome.json").read_text()) for folder in (found, expected)]
    for text in texts:
        for name in ("seconds", "memory", "gradient"):
            text.pop(name)
        for row in text["history"]:
            row.pop("seconds")
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", sampled(SEARCHES, gate=["stages"]))
def test_a_run_has_the_same_bits(name: str, client: Any, tmp_path: Path) -> None:
    case = scene(ACOUSTIC, **FOUR, **SEARCHES[name])
    case.run(tmp_path / "alone", precision="f64")
    case.run(tmp_path / "cluster", precision="f64", workers=client)
    require_same(tmp_path / "cluster", tmp_path / "alone")


def test_code_of_a_user(client: Any, tmp_path: Path) -> None:
    """Its folder is none from which the workers import when they start."""
    (tmp_path / "cubes_of_mine.py").write_text(
        "class Cubes:\n"
        "    def __init__(self, data):\n"
        "        self.data = data\n\n"
        "    def __call__(self, predicted):\n"
        "        return (abs(predicted - self.data) ** 3).sum()\n"
    )
    file = tmp_path / "own.toml"
    file.write_text(as_toml(tables(ACOUSTIC, accept=[], misfit__0__type="cubes_of_mine:Cubes", optimise={"iterations": 1})))
    case = Scene.load(file, allow_code=True)
    alone, parallel = (case.run(precision="f64", workers=workers) for workers in (None, client))
    assert [row.loss for row in parallel.history] == [row.loss for row in alone.history]
    np.testing.assert_array_equal(parallel.unknowns["c"].answer, alone.unknowns["c"].answer)


def test_a_worker_that_is_killed_within_an_evaluation_loses_its_shot_alone(client: Any, crew: Cluster) -> None:
    """And the process that takes its place gets the parts that were sent before."""
    objective = scene(ACOUSTIC, **FOUR).objective("f64")
    theta = objective.problem.theta + 0.1
    expected = objective.evaluate(theta)
    victim = next(iter(client.run(os.getpid).values()))
    shares: list[float] = []

    def killing(share: float, left: float | None) -> None:
        if not shares:
            os.kill(victim, signal.SIGKILL)
        shares.append(share)

    other = Objective(replace(objective.problem, workers=crew), objective.observed, killing)
    evaluation = other.evaluate(theta)
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert victim not in client.run(os.getpid).values()
    np.testing.assert_array_equal(evaluation.gradient, expected.gradient)
    assert evaluation.parts == expected.parts
    assert other.value(theta) == objective.value(theta)


def test_a_worker_that_dies_with_a_result_loses_it(client: Any, crew: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is there, and the worker dies before it has sent it."""
    killed = []
    fetched = module._Call._fetched

    def killing(self: Any, future: Any, address: str) -> Any:
        if not killed:
            killed.append(address)
            os.kill(client.run(os.getpid)[address], signal.SIGKILL)
        return fetched(self, future, address)

    monkeypatch.setattr(module._Call, "_fetched", killing)
    results = list(crew.run(shot_functions.places, (Kept(),), (10,), [0, 3, 1, 2]))
    assert [value for value, _, _ in results] == [0, 30, 10, 20]
    assert killed


def test_results_come_in_order_and_kept_parts_are_sent_once(client: Any, crew: Cluster) -> None:
    kept, shots = Kept(), [0, 3, 1, 2, 5, 4]
    first = list(crew.run(shot_functions.places, (kept,), (10,), shots))
    second = list(crew.run(shot_functions.places, (kept,), (7,), shots))
    assert [value for value, _, _ in first] == [10 * shot for shot in shots]
    assert [value for value, _, _ in second] == [7 * shot for shot in shots]
    worked = {pid for _, pid, _ in first + second}  # on a busy machine one process may do all
    assert worked <= set(client.run(os.getpid).values())
    assert len({(pid, place) for _, pid, place in first + second}) == len(worked)  # one object in each


def test_the_error_is_that_of_the_first_shot_that_fails(crew: Cluster) -> None:
    """As one after another: results of shots before it come first."""
    results = crew.run(shot_functions.failing, (Kept(),), (), [0, 1, 2, 3])
    assert next(results) == 0
    with pytest.raises(StabilityError, match=r"^shot 1: expected a smaller dt; lower it$"):
        next(results)


def test_workers_that_would_give_other_bits_are_refused(client: Any) -> None:
    conditions = Conditions.of_head(None)
    others = {
        "expected numpy 0.1 at the worker tcp.* install the same": replace(conditions, versions={"numpy": "0.1"}),
        "expected registers of 7 bytes at the worker tcp.* set DIFFSIM_REGISTER_BYTES": replace(conditions, register_bytes=7),
    }
    for message, each in others.items():
        with pytest.raises(WorkerError, match=message):
            list(Cluster(lambda: client, each).run(shot_functions.failing, (Kept(),), (), [0]))


def test_a_policy_of_another_machine(crew: Cluster, tmp_path: Path) -> None:
    """States on disk go to a folder that is there, and a worker copies no sweep."""
    policies = [Policy(folder=folder, resume=60.0) for folder in (tmp_path, tmp_path / "none")]
    assert [list(crew.run(shot_functions.folders, (), (policy,), [0])) for policy in policies] == [[(True, 0.0)]] * 2
    assert not (tmp_path / "none").exists()


def test_processes_end_with_an_error() -> None:
    me = psutil.Process()
    before = {child.pid for child in me.children(recursive=True)}
    with pytest.raises(ZeroDivisionError), opened(1, 4) as crew:
        1 // (len(crew.present()) - 1)
    left = {child.pid for child in me.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE}
    assert left <= before


def test_the_address_of_a_scheduler(client: Any) -> None:
    """It goes on after the run."""
    before = set(client.nthreads())
    with opened(client.scheduler.address, 3) as crew:
        assert [value for value, _, _ in crew.run(shot_functions.places, (Kept(),), (3,), [1, 2])] == [3, 6]
        assert crew.available()
    assert set(client.nthreads()) == before


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with module._started(0) as client, opened(client, 2) as crew, pytest.raises(WorkerError, match="got none for 0 s; start some by `dask"):
        list(crew.run(shot_functions.failing, (Kept(),), (), [0]))


def test_refused_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    with (
        pytest.raises(ParameterError, match="workers = 0, expected a whole number of at least 1; give a number of processes"),
        opened(0, 2),
    ):
        pass
    with pytest.raises(ParameterError, match=r"workers = 2\.5, expected a number of processes, the address"), opened(2.5, 2):  # type: ignore[arg-type]
        pass
    with dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}):
        for address in ("tcp://127.0.0.1:9", "nowhere"):
            with (
                pytest.raises(WorkerError, match=r"expected a scheduler of dask at .*; start one there by `dask scheduler`"),
                opened(address, 2),
            ):
                pass
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackageError, match=r"pip install distributed$"), opened(2, 2):
        pass


def test_processes_of_one_machine_share_its_memory() -> None:
    """Those of a scheduler have machines of their own."""

    class Some:
        def __init__(self, sharing: int) -> None:
            self.sharing = sharing

        def available(self) -> int:
            return 600_000_000

        run = HERE.run

    def policy(sharing: int, **checkpoint: Any) -> Policy:
        from diffsim.scene.search.assemble import assemble

        return assemble(scene(ACOUSTIC, checkpoint=checkpoint), "f64", workers=Some(sharing)).policy

    assert policy(4, memory="400 MB").memory == 100_000_000
    assert policy(1, memory="400 MB").memory == "400 MB"
    assert policy(4).memory == 300_000_000
    assert policy(4, slots=5).memory is None
    assert policy(2, schedule="multi_tier", slots=2, disk="8 MB").disk == 4_000_000
    with pytest.raises(SceneError, match=r"checkpoint.memory: "):
        policy(400_000_001, memory="400 MB")


def test_threads_are_divided() -> None:
    with opened(2, 1) as alone, opened(10_000, 10_000) as many:
        assert isinstance(alone, Cluster)
        assert isinstance(many, Cluster)
        assert (alone.sharing, alone.conditions.threads) == (1, settings().threads)  # no more processes than shots
        assert (many.sharing, many.conditions.threads) == (10_000, 1)


def test_progress_of_shots() -> None:
    shares: list[float] = []
    progress = ShotProgress(lambda share, left: shares.append(share), 4, done=1)
    progress.within(1)(0.5, 3.0)
    progress.finished(2)
    assert shares == [2.5 / 4, 3 / 4]


def test_ctrl_c_ends_all_processes_and_the_run_resumes(tmp_path: Path) -> None:
    """The signal goes to every process of the terminal. The rest is resumed without workers, with the same bits."""
    file, folder = tmp_path / "four.toml", tmp_path / "run"
    file.write_text(as_toml(tables(ACOUSTIC, **FOUR, optimise={"iterations": 2}, checkpoint={"resume": 1e-9})))
    command = [
        sys.executable,
        "-m",
        "tests.scene.shots.interrupted_on_cluster",
        "run",
        str(file),
        "--precision",
        "f64",
        "--out",
        str(folder),
    ]
    done = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    _, printed = done.communicate(timeout=120)
    assert done.returncode == 130, printed
    assert printed.splitlines()[-1].startswith("diffsim: interrupted; --resume goes on")
    assert "Traceback" not in printed
    assert list(folder.glob("shots-*"))
    deadline = time.monotonic() + 10
    while (left := _group(done.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    case = Scene.load(file)
    resumed, whole = case.run(folder, resume=True, precision="f64"), case.run(precision="f64")
    np.testing.assert_array_equal(resumed.unknowns["c"].answer, whole.unknowns["c"].answer)


def _group(number: int) -> list[int]:
    """The live processes of a group."""
    pids = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):  # it has ended
            continue
    return pids


def test_a_shot_that_kills_its_workers(crew: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DEATHS", 1)
    results = crew.run(shot_functions.deadly, (Kept(),), (tmp_path, 3), [0, 1, 2])
    assert next(results) == 0
    with pytest.raises(WorkerError, match=DIED):
        next(results)
    assert len(list(tmp_path.iterdir())) == 2
