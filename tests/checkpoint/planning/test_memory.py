from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffsim.checkpoint import available_memory, parse_memory
from diffsim.checkpoint.planning import memory
from diffsim.checkpoint.planning.memory import least_text, memory_text
from diffsim.errors import ParameterError, PlanError

KIB = 1024


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4 GB", 4 * 10**9),
        ("500MB", 5 * 10**8),
        ("2 GiB", 2 * 2**30),
        ("1.5 kB", 1500),
        (".5 KiB", 512),
        ("1. TiB", 2**40),
        (" 3 tb ", 3 * 10**12),
        ("7 B", 7),
        ("1.0000001 kB", 1000),
        ("9007199254740993 B", 9007199254740993),  # no float holds it
        ("12 bytes", 12),
        ("253 412 096 bytes", 253_412_096),
        ("4 500 MB", 4500 * 10**6),
        (123, 123),
    ],
)
def test_amounts(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "GB",
        "-4 GB",
        "4 G",
        "4 apples",
        "1e3 MB",
        "nan GB",
        "0 GB",
        "0.1 B",
        "4 GB x",
        "4,5 GB",
        "25 34 MB",
        "1234 567 B",
        "1 234.5 kB",
        "٤ GB",
    ],
)
def test_text_that_is_no_amount_is_refused(text):
    with pytest.raises(ParameterError, match=r"expected an amount of memory of at least 1 byte, got .*; write for example '4 GB'"):
        parse_memory(text)


@pytest.mark.parametrize("value", [0, -1, True, 2.5, None])
def test_numbers_that_are_no_amount_are_refused(value):
    with pytest.raises(ParameterError, match="expected an amount of memory"):
        parse_memory(value)


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


MEMINFO = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:    5000 kB\nHugePages_Total: 0\n"}
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


@pytest.mark.parametrize(
    ("files", "size"),
    [({}, 5000 * KIB), (V2, 40_500), (V1, 50_200), (IN_A_CONTAINER, 5000), (OVERFULL, 0)],
    ids=["no group", "v2", "v1", "container", "overfull"],
)
def test_the_tightest_limit_counts(tmp_path, files, size):
    write(tmp_path, MEMINFO | files)
    assert memory._linux_memory(tmp_path) == size


def test_a_group_with_room_does_not_raise_the_limit(tmp_path):
    write(tmp_path, MEMINFO | V2 | {"sys/fs/cgroup/jobs/memory.max": "99999999999\n"})
    assert memory._linux_memory(tmp_path) == 5000 * KIB


def test_a_system_without_meminfo_tells_nothing(tmp_path):
    assert memory._linux_memory(tmp_path) is None


def test_this_machine_has_memory():
    assert available_memory() > 2**20


def test_other_systems_fall_back_to_physical_memory(monkeypatch):
    monkeypatch.setattr(memory, "_linux_memory", lambda root: None)
    monkeypatch.setattr(memory.os, "sysconf_names", {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 2}, raising=False)
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False)
    assert available_memory() == 4_096_000


def test_a_silent_system_is_an_error_with_a_remedy(monkeypatch):
    monkeypatch.setattr(memory, "_linux_memory", lambda root: None)
    monkeypatch.setattr(memory.os, "sysconf_names", {}, raising=False)
    with pytest.raises(PlanError, match="give the memory as a size"):
        available_memory()


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (999, "999 B"),
        (1000, "1 kB"),
        (253_412_096, "254 MB (253 412 096 bytes)"),
        (253_000_000, "253 MB"),
        (9_991, "10 kB (9 991 bytes)"),
        (999_001_000, "1 GB (999 001 000 bytes)"),
    ],
)
def test_the_least_memory_is_rounded_up(size, text):
    assert least_text(size) == text


@given(st.integers(1, 10**15))
def test_what_is_told_as_the_least_is_enough_and_hardly_more(size):
    rounded, _, exact = least_text(size).partition(" (")
    assert size <= parse_memory(rounded) <= size * 1.01
    assert parse_memory(exact.rstrip(")") or rounded) == size
    assert abs(parse_memory(memory_text(size)) - size) <= 0.005 * size + 1
