"""Blocks go past the system's cache where it lets them, and arrive whole where it does not, or takes them bit by bit."""

from __future__ import annotations

import errno
import fcntl
import os
from mmap import PAGESIZE

import numpy as np
import pytest

from diffsim.checkpoint import DiskStore, StateLayout
from diffsim.checkpoint.storage.channel import CACHED, DIRECT, Channel
from diffsim.checkpoint.storage.store import row_buffer

PAGES = 5


@pytest.fixture
def descriptor(tmp_path):
    opened = os.open(tmp_path / "blocks", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(opened, 0, 4 * PAGES * PAGESIZE)
    yield opened
    os.close(opened)


def block(seed):
    row = row_buffer(PAGES * PAGESIZE)
    row[:] = np.random.default_rng(seed).integers(256, size=len(row))
    return row


def place(number):
    return number * PAGES * PAGESIZE


def arrives(tmp_path, files, wrote, number):
    """This channel and others read the bytes that were written."""
    back = block(99)
    assert files.get_block(back.data, place(number)) == len(back)
    assert np.array_equal(back, wrote)
    assert (tmp_path / "blocks").read_bytes()[place(number) : place(number + 1)] == wrote.tobytes()


class System:
    """`os.pwrite` and `os.preadv` that note whether a call goes past the cache, and do what a test wants first."""

    def __init__(self, monkeypatch, before=lambda way, data: data):
        self.ways = []
        for name in ("pwrite", "preadv"):
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name), before))

    def _wrapped(self, name, real, before):
        def call(descriptor, data, place):
            way = fcntl.fcntl(descriptor, fcntl.F_GETFL) & DIRECT
            self.ways.append((name, way))
            return real(descriptor, before(way, data), place)

        return call


def best_of(descriptor):
    """The way of a channel that wrote whole pages of a new file on this file system."""
    files = Channel(descriptor)
    files.put_block(block(0).data, 0)
    files.put(b"through", 0)
    return files.best


def test_blocks_go_past_the_cache_and_the_rest_through_it(descriptor, monkeypatch):
    if best_of(descriptor) == CACHED:
        pytest.skip("this file system has one way only")
    system, files, wrote = System(monkeypatch), Channel(descriptor), block(1)
    back = block(2)
    files.put(b"entry", place(3))
    files.put_block(wrote.data, place(1))
    files.get_block(back.data, place(1))
    entry = bytearray(5)
    assert files.get(memoryview(entry), place(3)) == 5 and entry == b"entry"
    assert np.array_equal(back, wrote)
    assert system.ways == [("pwrite", CACHED), ("pwrite", DIRECT), ("preadv", DIRECT), ("preadv", CACHED)]


def test_both_ways_see_one_file(descriptor, tmp_path):
    files = Channel(descriptor)
    for turn in range(6):
        first, second = block(turn), block(turn + 10)
        files.put_block(first.data, place(turn % 3))
        arrives(tmp_path, files, first, turn % 3)
        files.put(second.data, place(turn % 3))
        arrives(tmp_path, files, second, turn % 3)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
@pytest.mark.parametrize("where", ["write", "flag"])
def test_a_file_system_with_one_way_only(descriptor, tmp_path, monkeypatch, number, where):
    def refuse(way, data):
        if way == DIRECT != CACHED:
            raise OSError(number, os.strerror(number))
        return data

    files, wrote = Channel(descriptor), block(3)
    if where == "write":
        System(monkeypatch, refuse)
    else:
        real = fcntl.fcntl
        monkeypatch.setattr(fcntl, "fcntl", lambda d, call, flags=0: (refuse(flags & DIRECT, 0), real(d, call, flags))[1])
    files.put_block(wrote.data, place(2))
    assert files.best == CACHED
    arrives(tmp_path, files, wrote, 2)


def test_other_errors_are_raised(descriptor, tmp_path, monkeypatch):
    def fail(way, data):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files, wrote = Channel(descriptor), block(4)
    best = files.best
    with monkeypatch.context() as patch:
        System(patch, fail)
        for call in (files.put_block, files.get_block):
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                call(wrote.data, place(0))
    assert files.best == best
    files.put_block(wrote.data, place(0))
    arrives(tmp_path, files, wrote, 0)


@pytest.mark.parametrize("length", [PAGESIZE, 2 * PAGESIZE, PAGESIZE + 100])
def test_what_the_system_takes_in_parts_arrives_whole(descriptor, monkeypatch, length):
    """Also in parts that end within pages, with which it will not go past the cache."""

    def part(way, data):
        return [data[0][:length]] if isinstance(data, list) else data[:length]

    files, wrote = Channel(descriptor), block(5)
    system = System(monkeypatch, part)
    files.put_block(wrote.data, place(1))
    assert len(system.ways) > 2
    back = block(6)
    assert files.get_block(back.data, place(1)) == len(back)
    assert np.array_equal(back, wrote)


def test_a_file_that_ends_within_a_block(descriptor):
    files, wrote = Channel(descriptor), block(7)
    files.put_block(wrote.data, 0)
    os.ftruncate(descriptor, PAGESIZE + 10)
    back = block(8)
    assert files.get_block(back.data, 0) == PAGESIZE + 10
    assert np.array_equal(back[: PAGESIZE + 10], wrote[: PAGESIZE + 10])


@pytest.mark.parametrize("values", [1, PAGESIZE // 8, PAGESIZE // 8 + 1, 10_000])
def test_states_of_any_length_are_kept(descriptor, tmp_path, values):
    """Blocks are whole pages, states are not; all go the best way there is."""
    best = best_of(descriptor)
    states = [[np.random.default_rng(step).random(values)] for step in range(3)]
    path = tmp_path / "states"
    with DiskStore(path, StateLayout.of(states[0]), 3, key="any") as store:
        for step, state in enumerate(states):
            store.write(step, step, state)
        assert all(np.array_equal(store.read(step, step)[0], state[0]) for step, state in enumerate(states))
        assert store._file._channel.best == best
        store.close(keep=True)
    with DiskStore.reopen(path, StateLayout.of(states[0]), 3, "any") as store:
        assert store.kept() == {0: 0, 1: 1, 2: 2} and store._file._channel.best == best
        assert all(np.array_equal(store.read(step, step)[0], state[0]) for step, state in enumerate(states))
