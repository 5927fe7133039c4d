"""Dependences on the system: answers that hold here, and an answer to every question where their source is taken away."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import diffsim as ds
from diffsim.base import system
from diffsim.base.system import REGISTER_VARIABLE
from diffsim.engine import compiled_register_bytes
from diffsim.errors import BackendError, PlanError

KIB = 1024


def test_no_object_is_looked_for_while_collection_waits() -> None:
    seen: list[bool] = []

    def fail() -> None:
        with system.without_collection():
            seen.append(gc.isenabled())
            raise ValueError("within")

    for before in (True, False):
        (gc.enable if before else gc.disable)()
        try:
            with pytest.raises(ValueError, match="within"):
                fail()
            seen.append(gc.isenabled())
        finally:
            gc.enable()
    assert seen == [False, True, False, False]


MISSING = {
    "modules": ["fcntl", "resource"],
    "/proc": ["/proc"],
    "affinity": ["sched_setaffinity", "sched_getaffinity"],
    "direct": ["O_DIRECT", "preadv", "pwrite", "posix_fallocate"],
    "all": ["fcntl", "resource", "/proc", "sched_setaffinity", "sched_getaffinity", "O_DIRECT", "preadv", "pwrite", "posix_fallocate"],
}
TAKEN_AWAY = """
import json, os, sys
import psutil  # which needs `resource` itself, where there is one
def guard(event, args):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(args[0], (str, bytes)) and str(args[0]).startswith("/proc"):
        raise FileNotFoundError(2, "taken away", args[0])
folder, missing = sys.argv[1], sys.argv[2:]
for name in missing:
    if name == "/proc":
        sys.addaudithook(guard)
    elif name in ("fcntl", "resource"):
        sys.modules[name] = None
    else:
        delattr(os, name)
import numpy as np
import diffsim as ds
from diffsim.base import system
from diffsim.checkpoint import Policy, Resident
from diffsim.solvers import Heat
resident, answers = Resident(), {
    "cores": system.usable_cores(), "register": system.register_bytes(), "total": system.total_memory(),
    "available": system.available_memory(), "resident": system.resident_memory(),
    "disk": system.free_disk(folder + "/not/there"),
}
simulation = ds.Simulation(Heat(ds.Grid((9, 10), 1.0), 0.1), precision="f64")
inputs = {"kappa": np.ones((9, 10)), "T": np.arange(90.0).reshape(9, 10)}
def slopes(checkpoint):
    solution, pullback = simulation.vjp(inputs, 12, checkpoint)
    return pullback(ds.Solution(final=solution.final))
kept = slopes("auto")
for what, resume in (("states on disk", 0), ("states to be found again", 60)):
    try:
        again = slopes(Policy(slots=2, disk="1 MB", folder=folder, resume=resume))
        answers[what] = all(np.array_equal(kept[name], again[name]) for name in kept)
    except ds.DiffsimError as error:
        answers[what] = str(error)
answers["peak"] = resident.peak
print(json.dumps(answers))
"""


@pytest.mark.parametrize("what", MISSING)
def test_every_question_has_an_answer_without(what: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", TAKEN_AWAY, str(tmp_path), *MISSING[what]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    assert answers["cores"] == (os.cpu_count() if "sched_getaffinity" in MISSING[what] else system.usable_cores())
    assert answers["register"] == system.register_bytes()
    assert 2**20 < answers["available"] <= answers["total"]
    assert answers["resident"] > 2**24 or MISSING[what] == MISSING["all"]
    assert answers["disk"] > 0 and answers["peak"] >= 0
    assert answers["states on disk"] is True
    if "fcntl" in MISSING[what]:
        assert "expected a POSIX system for states on disk with resume" in answers["states to be found again"]
        assert "resume = 0" in answers["states to be found again"]
    else:
        assert answers["states to be found again"] is True


# cores and registers


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3.0),
    ],
)
def test_a_quota_of_processor_time_counts(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    write(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert system._cgroup_quota(tmp_path) == quota


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 6), ("150000 100000", 1), ("20000 100000", 1), ("450000 100000", 4), ("900000 100000", 6)]
)
def test_cores_are_no_more_than_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int) -> None:
    write(tmp_path, {"sys/fs/cgroup/cpu.max": quota})
    monkeypatch.setattr(system, "ROOT", tmp_path)
    monkeypatch.setattr(system, "core_numbers", lambda: [0, 1, 2, 5, 6, 7])
    assert system.usable_cores() == cores


@pytest.mark.parametrize(
    ("second", "core"),
    [("0,4", 2 << 20), ("0-3", 48 << 10)],  # that of a core and its two threads; that of two cores
)
def test_a_core_has_the_caches_that_no_other_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, core: int) -> None:
    monkeypatch.setattr(system, "ROOT", tmp_path)
    assert (system.core_cache_bytes(), system.last_cache_bytes()) == (system.USUAL_CORE_CACHE, system.USUAL_CACHE)
    files = {"topology/thread_siblings_list": "0,4\n"}
    for index, (level, size, shared) in enumerate(
        (("1", "48K", "0,4"), ("1", "32K", "0,4"), ("2", "2048K", second), ("3", "32768K", "0-7"))
    ):
        kinds = (("level", level), ("size", size), ("shared_cpu_list", shared))
        files |= {f"cache/index{index}/{name}": f"{text}\n" for name, text in kinds}
    write(tmp_path, {f"sys/devices/system/cpu/cpu0/{name}": text for name, text in files.items()})
    assert (system.core_cache_bytes(), system.last_cache_bytes()) == (core, 32 << 20)


@pytest.mark.parametrize(
    ("features", "width"),
    [
        (["SSE", "SSE2", "SSE42", "AVX", "F16C"], 16),
        (["NEON", "ASIMD"], 16),
        ([], 16),
        (["SSE2", "AVX2", "FMA3"], 32),
        (["X86_V2", "X86_V3"], 32),
        (["X86_V2", "X86_V3", "X86_V4", "AVX512_ICL"], 64),
        (["AVX2", "AVX512F", "AVX512_SKX"], 64),
    ],
)
def test_features_tell_the_width_of_registers(features: list[str], width: int) -> None:
    assert system._width(features) == width


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="nothing to compare with")
def test_numpy_and_the_system_agree_on_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REGISTER_VARIABLE, raising=False)
    flags = Path("/proc/cpuinfo").read_text().split()
    assert system.register_bytes() == (64 if "avx512f" in flags else 32 if "avx2" in flags else 16)


@pytest.mark.parametrize(
    ("machine", "features", "count"),
    [
        ("x86_64", ["SSE2", "AVX2"], 16),
        ("AMD64", ["X86_V3"], 16),
        ("x86_64", ["X86_V4"], 32),
        ("x86_64", ["AVX512F"], 32),
        ("arm64", ["NEON"], 32),
        ("aarch64", [], 32),
    ],
)
def test_features_tell_the_number_of_registers(machine: str, features: list[str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.platform, "machine", lambda: machine)
    monkeypatch.setattr(system, "_features", lambda: features)
    assert system.vector_registers.__wrapped__() == count


@pytest.mark.parametrize("width", [16, 32, 64])
def test_the_width_can_be_forced(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv(REGISTER_VARIABLE, str(width))
    assert system.register_bytes() == width


@pytest.mark.parametrize("text", ["8", "128", "wide", "32.0", "-16"])
def test_a_width_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(REGISTER_VARIABLE, text)
    with pytest.raises(BackendError, match="expected one of 16, 32 and 64; correct or unset it"):
        system.register_bytes()


def test_a_forced_width_reaches_the_kernels() -> None:
    code = (
        "import os, numpy as np, diffsim as ds\n"
        "from diffsim.solvers import Heat\n"
        "x = {'kappa': np.ones((5, 9)), 'T': np.arange(45.0).reshape(5, 9)}\n"
        "for width in '16', '32', '64':\n"
        f"    os.environ['{REGISTER_VARIABLE}'] = width\n"
        "    ds.init(precision='f64')\n"
        "    s = ds.Simulation(Heat(ds.Grid((5, 9), 1.0), 0.1))\n"
        "    print(s._stepper.layout.lanes, s.run(x, 3).final['T'].sum())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [lanes for lanes, _ in rows] == ["2", "8", "8"]  # two registers of 32 bytes
    assert np.allclose([float(total) for _, total in rows], sum(range(45)))


# memory


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


AVAILABLE = 5000 * KIB
V2 = {
    "proc/self/cgroup": "0::/jobs/one\n",
    "sys/fs/cgroup/jobs/one/memory.max": "max\n",
    "sys/fs/cgroup/jobs/one/memory.current": "1000\n",
    "sys/fs/cgroup/jobs/memory.max": "70000\n",
    "sys/fs/cgroup/jobs/memory.current": "30000\n",
    "sys/fs/cgroup/jobs/memory.stat": "anon 1\ninactive_file 500\n",
}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/box\n0::/\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "60000\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "10000\n",
    "sys/fs/cgroup/memory/box/memory.stat": "inactive_file 7\ntotal_inactive_file 200\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "20000\n",
}
IN_A_CONTAINER = {  # the path is the host's; only the mount is there
    "proc/self/cgroup": "0::/host/path\n",
    "sys/fs/cgroup/memory.max": "8000\n",
    "sys/fs/cgroup/memory.current": "3000\n",
}
OVERFULL = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "8000\n", "sys/fs/cgroup/memory.current": "8500\n"}
WITH_ROOM = V2 | {"sys/fs/cgroup/jobs/memory.max": "99999999999\n"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 9000 KiB, 5000 of them available, whose control groups are described by files in the folder."""
    seen = psutil.virtual_memory()._replace(total=9000 * KIB, available=AVAILABLE)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: seen)
    monkeypatch.setattr(system, "ROOT", tmp_path)
    monkeypatch.setattr(system, "reserves", [])
    return tmp_path


@pytest.mark.parametrize(
    ("files", "available", "total"),
    [
        ({}, AVAILABLE, 9000 * KIB),
        (V2, 40_500, 70_000),
        (V1, 50_200, 60_000),
        (IN_A_CONTAINER, 5000, 8000),
        (OVERFULL, 0, 8000),
        (WITH_ROOM, AVAILABLE, 9000 * KIB),
    ],
    ids=["no group", "v2", "v1", "container", "overfull", "with room"],
)
def test_the_tightest_limit_counts(machine: Path, files: dict[str, str], available: int, total: int) -> None:
    write(machine, files)
    assert (system.available_memory(), system.total_memory()) == (available, total)


class Kept:
    """Memory that is kept for later arrays."""

    held = 1500

    def release(self) -> None:
        self.held = 0


def test_memory_kept_for_later_arrays_counts_as_available(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine, IN_A_CONTAINER)
    kept = Kept()
    monkeypatch.setattr(system, "reserves", [kept])
    assert (system.available_memory(), system.total_memory()) == (6500, 8000)
    system.give_back_memory()
    assert kept.held == 0 and system.available_memory() == 5000


@pytest.mark.parametrize("size", [1, 4096, 1 << 20, (1 << 21) - 1, 1 << 21, 5_000_000])
def test_clear_memory_is_zero_and_can_be_written(size: int) -> None:
    block = system.clear_memory(size)
    assert block.shape == (size,) and block.dtype == np.uint8 and not block.any()
    block[:] = 7
    assert block.sum(dtype=int) == 7 * size


def test_large_memory_is_in_huge_pages() -> None:
    """By the figures of the system: 64 MiB are 16384 small pages, or 32 huge ones."""
    modes = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not modes.exists() or "[never]" in modes.read_text():
        pytest.skip("the system gives no huge pages")

    def huge() -> int:
        return next(int(line.split()[1]) * KIB for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if "AnonHuge" in line)

    before = huge()
    block = system.clear_memory(1 << 26)
    block[:: 1 << 12] = 1
    assert huge() - before >= 1 << 25  # half of them, because memory may be in pieces


def test_too_much_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        system.clear_memory(1 << 60)


def no_memory() -> None:
    raise FileNotFoundError("/proc/meminfo")


def test_without_psutil_physical_memory_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", no_memory)
    monkeypatch.setattr(system.os, "sysconf_names", {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 2}, raising=False)
    monkeypatch.setattr(system.os, "sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False)
    assert system.available_memory() == system.total_memory() == 4_096_000


def test_a_silent_system_is_an_error_with_a_remedy(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", no_memory)
    monkeypatch.setattr(system.os, "sysconf_names", {}, raising=False)
    with pytest.raises(PlanError, match="give the memory as a size"):
        system.available_memory()


def test_memory_that_is_taken_is_resident() -> None:
    before = system.resident_memory()
    block = np.ones(2**22)
    after = system.resident_memory()
    assert block.nbytes * 0.9 < after - before < block.nbytes * 2
    assert system.peak_memory() >= after * 0.9


# files


def test_a_file_is_read_and_written_at_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    for number in range(2):
        descriptor = os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT)
        system.allocate_file(descriptor, tmp_path / str(number), 20)
        assert system.write_at(descriptor, memoryview(b"abcdef"), 7) == 6
        view = bytearray(5)
        answers.append((system.read_at(descriptor, memoryview(view), 9), bytes(view), system.read_at(descriptor, memoryview(view), 30)))
        os.close(descriptor)
        for name in ("preadv", "pwrite", "posix_fallocate"):
            monkeypatch.delattr(os, name, raising=False)
    assert answers[0] == answers[1] == (5, b"cdef\0", 0)


def test_a_lock_is_held_until_the_file_is_closed(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert system.lock_file(first) and not system.lock_file(second)
    os.close(first)
    assert system.lock_file(second)
    os.close(second)


def test_the_settings_in_force_tell_the_width() -> None:
    assert ds.init(precision="f64").register_bytes == compiled_register_bytes()
