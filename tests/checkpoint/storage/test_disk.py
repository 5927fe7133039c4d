"""Faults planted in the file of a store, in the system's calls, and in the process."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import Future

import numpy as np
import pytest

from diffsim.checkpoint import DiskStore, Lossless, StateLayout
from diffsim.checkpoint.planning.memory import least_text
from diffsim.checkpoint.storage import disk_format
from diffsim.errors import ParameterError, StorageError

SLOTS = 3
KEY = "wave, 40 x 50"


def state(step):
    return [np.full((40, 50), float(step)), np.arange(100) * step]


def noise(step):
    """Bytes that cannot be compressed."""
    raw = np.frombuffer(np.random.default_rng(step).bytes(16_800), dtype="u1")
    return [raw[:16_000].view("f8").reshape(40, 50), raw[16_000:].view(int)]


def uneven(step):
    """Numbers of which some bytes are packed and others left as they are, where zlib checks nothing."""
    return [np.random.default_rng(step).uniform(1.0, 1.9, (40, 50)), np.arange(100)]


LAYOUT = StateLayout.of(state(0))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "states"


def same(found, expected):
    return all(f.tobytes() == e.tobytes() for f, e in zip(found, expected, strict=True))


def flip(path, place):
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 4]))


def left_behind(path, compression=None, make_state=state):
    """A file with state 5 in slot 0 after state 3, state 4 in slot 1 and nothing in slot 2 after state 2. Return where its states are."""
    store = DiskStore(path, LAYOUT, SLOTS, compression, key=KEY)
    for step, slot in ((3, 0), (4, 1), (2, 2), (5, 0)):
        store.write(slot, step, make_state(step))
    store.free(2)
    store.kept()
    places = {slot: (store._file.place_of(entry.block), entry.stored) for slot, entry in store._file.entries.items()}
    store.close(keep=True)
    return places


def reopen(path, key=KEY, layout=LAYOUT, slots=SLOTS):
    return DiskStore.reopen(path, layout, slots, key)


# what the disk holds


@pytest.mark.parametrize(("compression", "make_state"), [(None, noise), (Lossless(), state), (Lossless(), uneven), (Lossless(), noise)])
def test_a_flipped_bit_is_found_when_it_is_read(path, compression, make_state):
    with DiskStore(path, LAYOUT, SLOTS, compression, key=KEY) as store:
        store.write(0, 7, make_state(7))
        store.write(1, 8, make_state(8))
        store.kept()
        entry = store._file.entries[0]
        assert entry.packed == (compression is not None and make_state is not noise)
        for offset in (0, entry.stored // 2, entry.stored - 1):
            place = store._file.place_of(entry.block) + offset
            flip(path, place)
            for _ in range(2):
                with pytest.raises(StorageError, match=r"states: state 7 in slot 0 is damaged.*delete the file, and run again"):
                    store.read(0, 7)
            flip(path, place)
            assert same(store.read(0, 7), make_state(7))
        assert same(store.read(1, 8), make_state(8))


def test_a_fetched_state_is_checked_too(path):
    with DiskStore(path, LAYOUT, SLOTS) as store:
        store.write(0, 7, state(7))
        store.kept()
        flip(path, store._file.place_of(store._file.entries[0].block))
        store.fetch(0)
        with pytest.raises(StorageError, match="state 7 in slot 0 is damaged"):
            store.read(0, 7)


@pytest.mark.parametrize("compression", [None, Lossless()])
def test_a_file_cut_off_while_it_is_used(path, compression):
    with DiskStore(path, LAYOUT, SLOTS, compression) as store:
        store.write(0, 7, state(7))
        store.kept()
        os.truncate(path, store._file.place_of(store._file.entries[0].block) + 10)
        with pytest.raises(StorageError, match="state 7 in slot 0 is damaged"):
            store.read(0, 7)


def test_states_that_are_whole_are_found_again(path):
    left_behind(path, Lossless())
    with reopen(path) as store:
        assert store.kept() == {0: 5, 1: 4}
        assert same(store.read(0, 5), state(5)) and same(store.read(1, 4), state(4))
        for step in range(10, 30):
            store.write(step % SLOTS, step, noise(step))
        assert all(same(store.read(step % SLOTS, step), noise(step)) for step in (27, 28, 29))
        store.close(keep=True)
    with reopen(path) as store:
        assert store.kept() == {0: 27, 1: 28, 2: 29}
    assert not path.exists()


def test_a_run_that_was_reopened_goes_on_where_the_other_stopped(path, monkeypatch):
    left_behind(path)
    with reopen(path) as store:
        store.write(0, 8, state(8))
        store.close(keep=True)
    with reopen(path) as store:
        assert store.kept() == {0: 8, 1: 4}  # its entry is the newer one
        Failing(monkeypatch, 1, some=30)
        store.write(1, 9, state(9))
        with pytest.raises(StorageError, match="writing state 9 to slot 1"):
            store.close(keep=True)
    monkeypatch.undo()
    with reopen(path) as store:
        assert store.kept() == {0: 8, 1: 4}  # what was torn is not the only entry of the slot
        assert same(store.read(1, 4), state(4))


@pytest.mark.parametrize("compression", [None, Lossless()])
def test_a_damaged_state_is_not_found_again(path, compression):
    places = left_behind(path, compression)
    place, stored = places[0]
    flip(path, place + stored - 1)
    with reopen(path) as store:
        assert store.kept() == {0: 3, 1: 4}  # the one before is still there: nothing was written since
        assert same(store.read(0, 3), state(3))


def test_an_entry_torn_while_it_was_written_leaves_the_one_before(path):
    left_behind(path)
    with reopen(path) as store:
        file = store._file
        newest = file._index + (2 * 0 + 1 - file._turn[0]) * 64
        store.close(keep=True)
    flip(path, newest + 8)
    with reopen(path) as store:
        assert store.kept() == {0: 3, 1: 4} and same(store.read(0, 3), state(3))


def test_any_flipped_bit_of_an_entry_is_found():
    entry = disk_format.Entry(number=7, slot=1, step=300, block=2, stored=4096, checksum=123456, packed=True)
    good = entry.to_bytes()
    assert disk_format.Entry.from_bytes(good) == entry
    for place in range(len(good.rstrip(b"\0"))):
        for bit in range(8):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            assert disk_format.Entry.from_bytes(bad) is None


def test_no_two_slots_are_given_one_block(path):
    """An entry is damaged, and the one before it speaks of a block that another slot has got since, for the same values."""
    store = DiskStore(path, LAYOUT, SLOTS, key=KEY)
    store.write(0, 1, state(1))
    store.write(0, 2, state(2))
    store.write(1, 3, state(1))  # goes where state 1 was
    store.kept()
    newest = store._file._index + 1 * 64
    store.close(keep=True)
    flip(path, newest + 20)
    with reopen(path) as store:
        assert store.kept() == {1: 3} and same(store.read(1, 3), state(1))


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"key": "wave, 40 x 51"}, "key"),
        ({"layout": StateLayout.of([np.zeros((40, 50)), np.zeros(100)])}, "layout"),
        ({"layout": StateLayout.of(state(0)[:1])}, "layout"),
        ({"slots": SLOTS + 1}, "slots"),
    ],
)
def test_files_of_other_runs_are_refused_and_left_alone(path, wrong, name):
    left_behind(path)
    before = path.read_bytes()
    with pytest.raises(StorageError, match=rf"expected states of {name} .*; restore the settings of the run that was killed"):
        reopen(path, **wrong)
    assert path.read_bytes() == before
    with reopen(path) as store:
        assert store.kept() == {0: 5, 1: 4}


@pytest.mark.parametrize("content", [b"x", b"precious data" * 1000, disk_format.MAGIC, disk_format.MAGIC + b"\xff" * 100])
def test_foreign_files_are_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(StorageError, match="expected a file of states, got something else or a damaged one"):
        reopen(path)
    with pytest.raises(StorageError, match="expected no file, or the file of a killed run with this key, got something else"):
        DiskStore(path, LAYOUT, SLOTS, key=KEY)
    assert path.read_bytes() == content


def test_a_damaged_header_is_refused(path):
    left_behind(path)
    flip(path, 30)
    with pytest.raises(StorageError, match="damaged"):
        reopen(path)


def test_a_file_cut_off_is_refused(path):
    left_behind(path)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(StorageError, match="it was cut off; delete it and start anew"):
        reopen(path)


def test_no_file_and_no_key_are_refused(path):
    with pytest.raises(StorageError, match="No such file"):
        reopen(path)
    with pytest.raises(ParameterError, match="expected a key to reopen a file of states, got none"):
        reopen(path, key="")
    assert not path.exists()


def test_a_new_store_takes_the_place_of_its_own_file_only(path):
    left_behind(path)
    with pytest.raises(StorageError, match="got the states of a run with another key; name another file, or delete this one"):
        DiskStore(path, LAYOUT, SLOTS, key="another")
    with DiskStore(path, LAYOUT, 2 * SLOTS, key=KEY) as store:
        assert store.kept() == {}
        assert path.stat().st_size == DiskStore.planned_file_bytes(LAYOUT, 2 * SLOTS)
    assert not path.exists()


# who has it open


def test_two_openers_are_refused(path):
    with DiskStore(path, LAYOUT, SLOTS, key=KEY) as store:
        store.write(0, 1, state(1))
        for opener in (lambda: DiskStore(path, LAYOUT, SLOTS, key=KEY), lambda: reopen(path)):
            with pytest.raises(StorageError, match="expected a file that is not in use, got one that another run has open"):
                opener()
        assert same(store.read(0, 1), state(1))
    DiskStore(path, LAYOUT, SLOTS, key=KEY).close()


def test_a_file_removed_between_opening_and_locking_is_not_taken(path, monkeypatch):
    first = DiskStore(path, LAYOUT, SLOTS, key=KEY)
    lock = fcntl.flock

    def slow_lock(descriptor, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        first.close()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", slow_lock)
    with DiskStore(path, LAYOUT, SLOTS, key=KEY) as store:
        assert path.exists()
        store.write(0, 1, state(1))
        assert same(store.read(0, 1), state(1))


def test_a_store_that_is_forgotten_gives_its_file_back(path):
    store = DiskStore(path, LAYOUT, SLOTS)
    store.write(0, 1, state(1))
    del store
    gc.collect()
    deadline = time.monotonic() + 5
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not path.exists()
    DiskStore(path, LAYOUT, SLOTS).close()


def test_a_program_that_ends_gives_its_file_back(path):
    program = """
        import sys
        import numpy as np
        from diffsim.checkpoint import DiskStore, StateLayout
        store = DiskStore(sys.argv[1], StateLayout.of([np.zeros(10_000)]), 3)
        store.write(0, 1, [np.zeros(10_000)])
        sys.exit(7)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), path], capture_output=True, text=True)
    assert done.returncode == 7 and not done.stderr
    assert not path.exists()


# a slow disk, so that calls find others under way


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_calls_on_a_slow_disk(path, monkeypatch, seed):
    rng, delays = np.random.default_rng(seed), np.random.default_rng(seed + 100)
    for name in ("pwrite", "preadv"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *arguments, real=real: (time.sleep(delays.choice([0.0, 1e-4, 2e-3])), real(*arguments))[1])
    kept, live, held, step = {}, state(0), None, 0
    with DiskStore(path, LAYOUT, SLOTS, Lossless() if seed % 2 else None, key=KEY) as store:
        for step in range(200):
            slot = int(rng.integers(SLOTS))
            match rng.choice(["write", "read", "fetch", "free"], p=[0.3, 0.25, 0.35, 0.1]):
                case "write":
                    for array, values in zip(live, noise(step), strict=True):
                        array[...] = values
                    store.write(slot, step, live)
                    live[0][...] = -1.0
                    kept[slot] = step
                    if held is not None and held[0] == slot:
                        held = None
                case "read" if slot in kept:
                    held = (slot, kept[slot], store.read(slot, kept[slot]))
                case "fetch" if slot in kept:
                    store.fetch(slot)
                case "free" if slot in kept:
                    store.free(slot)
                    del kept[slot]
            if held is not None:
                assert same(held[2], noise(held[1]))
        assert store.kept() == kept
        store.close(keep=True)
    with reopen(path) as store:
        assert store.kept() == kept and all(same(store.read(slot, step), noise(step)) for slot, step in kept.items())


def test_a_call_that_is_interrupted_may_be_made_again(path, monkeypatch):
    with DiskStore(path, LAYOUT, SLOTS) as store:
        for slot in range(SLOTS):
            store.write(slot, slot, state(slot))
        store.kept()
        for slot in range(SLOTS):
            with monkeypatch.context() as patch:
                patch.setattr(Future, "exception", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt):
                    store.read(slot, slot)
        assert all(same(store.read(slot, slot), state(slot)) for slot in range(SLOTS))
        with monkeypatch.context() as patch:
            patch.setattr(StateLayout, "pack", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
            for _ in range(3):
                with pytest.raises(KeyboardInterrupt):
                    store.write(0, 9, state(9))
        store.write(1, 9, state(9))
        assert store.kept() == {0: 0, 1: 9, 2: 2}
        assert same(store.read(0, 0), state(0)) and same(store.read(1, 9), state(9))


# a full disk


def test_a_full_disk_is_found_at_once(path, monkeypatch):
    def full(descriptor, offset, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    needed = DiskStore.planned_file_bytes(LAYOUT, SLOTS)
    with pytest.raises(
        StorageError, match=rf"room for a file of {re.escape(least_text(needed))}, got .* with [\d.]+ .?B free; make room"
    ) as raised:
        DiskStore(path, LAYOUT, SLOTS)
    assert raised.value.errno == errno.ENOSPC
    assert not path.exists()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="opening the file of states: No such file or directory"):
        DiskStore(tmp_path / "nowhere" / "states", LAYOUT, SLOTS)


class Failing:
    """`os.pwrite` that fails from a call on, and may write some bytes of that one."""

    def __init__(self, monkeypatch, calls, some=0):
        self.left, self.some, self.real = calls, some, os.pwrite
        monkeypatch.setattr(os, "pwrite", self)

    def __call__(self, descriptor, data, place):
        self.left -= 1
        if self.left >= 0:
            return self.real(descriptor, data, place)
        if self.left == -1 and self.some:
            return self.real(descriptor, data[: self.some], place)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("calls", "some"), [(0, 0), (0, 100), (1, 0), (1, 30)], ids=["data", "part of data", "entry", "part of entry"])
@pytest.mark.parametrize("then", ["write", "read", "fetch", "free", "kept", "close"])
def test_a_write_that_fails_in_the_background(path, monkeypatch, calls, some, then):
    store = DiskStore(path, LAYOUT, SLOTS, key=KEY)
    store.write(0, 1, state(1))
    store.write(1, 2, state(2))
    store.kept()
    with monkeypatch.context() as patch:
        Failing(patch, calls, some)
        store.write(0, 9, state(9))
        store._changes[-1].future.exception()
        call = {
            "write": lambda: store.write(2, 3, state(3)),
            "read": lambda: store.read(1, 2),
            "fetch": lambda: store.fetch(1),
            "free": lambda: store.free(1),
            "kept": store.kept,
            "close": lambda: store.close(keep=True),
        }[then]
        with pytest.raises(StorageError, match=r"writing state 9 to slot 0: expected room for a file of [\d.]+ kB") as raised:
            call()
        assert raised.value.errno == errno.ENOSPC
    if then == "close":
        store.close()
        store = reopen(path)
    assert store.kept() == {0: 1, 1: 2}  # the error is raised once, and the slot keeps what it kept
    assert same(store.read(0, 1), state(1)) and same(store.read(1, 2), state(2))
    for step in range(10, 20):
        store.write(step % SLOTS, step, state(step))
    assert all(same(store.read(step % SLOTS, step), state(step)) for step in (17, 18, 19))
    store.close()


def test_a_later_write_of_the_same_slot_counts(path, monkeypatch):
    """It is under way already when the one before it fails."""
    real, calls = os.pwrite, []

    def fail_once(*arguments):
        calls.append(arguments)
        time.sleep(0.02)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments)

    with DiskStore(path, LAYOUT, SLOTS) as store:
        store.write(0, 1, state(1))
        store.kept()
        monkeypatch.setattr(os, "pwrite", fail_once)
        store.write(0, 9, state(9))
        store.write(0, 10, state(10))
        with pytest.raises(StorageError, match="writing state 9 to slot 0: Input/output error; check the disk"):
            store.kept()
        assert store.kept() == {0: 10} and same(store.read(0, 10), state(10))


def test_an_error_does_not_hide_what_went_wrong_first(path, monkeypatch):
    def run():
        with DiskStore(path, LAYOUT, SLOTS) as store:
            Failing(monkeypatch, 0)
            store.write(0, 1, state(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert not path.exists()


def test_reading_a_state_whose_write_failed(path, monkeypatch):
    with DiskStore(path, LAYOUT, SLOTS) as store:
        Failing(monkeypatch, 0)
        store.write(0, 1, state(1))
        with pytest.raises(StorageError, match="writing state 1 to slot 0"):
            store.read(0, 1)
        monkeypatch.undo()
        store.write(0, 1, state(1))
        assert same(store.read(0, 1), state(1))


def test_a_limit_on_file_sizes(path):
    program = """
        import resource, sys
        import numpy as np
        from diffsim.checkpoint import DiskStore, StateLayout
        from diffsim.errors import StorageError
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        try:
            DiskStore(sys.argv[1], StateLayout.of([np.zeros(10_000)]), 3)
        except StorageError as error:
            print(error)
    """
    said = subprocess.run([sys.executable, "-c", textwrap.dedent(program), path], capture_output=True, text=True, check=True).stdout
    assert "making the file of states: expected to write a file of" in said and "raise the limit on the size of a file" in said
    assert not path.exists()


# a killed process

WRITER = """
    import sys
    import numpy as np
    from diffsim.checkpoint import DiskStore, Lossless, StateLayout
    state = lambda step: [np.full((200, 500), float(step)), np.full(1000, step)]
    compression = Lossless() if sys.argv[2] == "packed" else None
    store = DiskStore(sys.argv[1], StateLayout.of(state(0)), 3, compression, key="killed")
    for step in range(1_000_000):
        store.write(step % 3, step, state(step))
        if step % 7 == 6:
            store.kept()
            print(step, flush=True)
        if step % 5 == 4:
            store.fetch(step % 3)
"""


@pytest.mark.parametrize("kind", ["raw", "packed"])
def test_a_killed_run_leaves_states_that_are_whole(path, kind):
    layout = StateLayout.of([np.zeros((200, 500)), np.zeros(1000, dtype=int)])
    for delay in (0.0, 0.003, 0.011):
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), path, kind], stdout=subprocess.PIPE, text=True) as process:
            for _ in range(3):
                assert process.stdout.readline()
            time.sleep(delay)
            process.kill()
            last = int((process.stdout.read().split() or [20])[-1])
        assert process.returncode == -signal.SIGKILL
        with DiskStore.reopen(path, layout, 3, "killed") as store:
            kept = store.kept()
            assert set(kept) == {0, 1, 2}
            for slot, step in kept.items():
                assert step % 3 == slot and step >= last - 2
                field, count = store.read(slot, step)
                assert (field == step).all() and (count == step).all()
        assert not path.exists()


def test_a_killed_process_leaves_nothing_of_a_store_without_a_name(tmp_path):
    program = """
        import os, sys
        import numpy as np
        from diffsim.checkpoint import DiskStore, StateLayout
        state = [np.arange(10_000.0)]
        store = DiskStore.nameless(sys.argv[1], StateLayout.of(state), 3)
        store.write(0, 5, state)
        store.kept()
        assert (store.read(0, 5)[0] == state[0]).all()
        assert not os.listdir(sys.argv[1])
        os.kill(os.getpid(), 9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), tmp_path], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not list(tmp_path.iterdir())
    with pytest.raises(StorageError, match="opening the file of states"):
        DiskStore.nameless(tmp_path / "nowhere", LAYOUT, SLOTS)
