from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from diffsim.checkpoint import SweepFile
from diffsim.checkpoint.storage import suspend
from diffsim.errors import ParameterError, StorageError

KEY = "wave, 40 x 50, 1000 steps"
SWEEP = {
    "cotangent/p": np.random.default_rng(0).standard_normal((40, 50)),
    "gradient ∂c": np.arange(7, dtype=">f4"),
    "loss": np.array(-0.0),
    "none": np.zeros((0, 3)),
    "traces": np.asfortranarray(np.random.default_rng(1).standard_normal((300, 600))),
    "special": np.array([np.nan, np.inf, 5e-324, -0.0]).view("c16"),
}


@pytest.fixture
def file(tmp_path):
    return SweepFile(tmp_path / "sweep", KEY)


def same(found, expected):
    return list(found) == list(expected) and all(
        found[name].dtype == array.dtype and found[name].shape == array.shape and found[name].tobytes() == array.tobytes()
        for name, array in expected.items()
    )


def test_what_is_saved_is_loaded_bit_for_bit(file):
    file.save(17, SWEEP)
    step, arrays = SweepFile(file.path, KEY).load()
    assert step == 17 and same(arrays, SWEEP)
    arrays["loss"][...] = 1.0  # the caller's own
    assert [entry.name for entry in file.path.parent.iterdir()] == ["sweep"]


def test_the_last_one_counts(file):
    file.save(17, SWEEP)
    file.save(np.int64(16), {"loss": np.array(2.0)})
    step, arrays = file.load()
    assert step == 16 and same(arrays, {"loss": np.array(2.0)})


def test_there_may_be_none(file):
    assert file.load() is None
    file.save(3, SWEEP)
    assert SweepFile(file.path, KEY + "!").load() is None
    file.remove()
    file.remove()
    assert file.load() is None and not file.path.exists()


def test_any_flipped_bit_is_found(file):
    file.save(17, SWEEP)
    good = file.path.read_bytes()
    header = good.index(b"}") + 5
    places = [*range(0, header), *np.linspace(header, len(good) - 1, 200).astype(int)]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << (place % 8)
        file.path.write_bytes(bad)
        with pytest.raises(StorageError, match="expected a suspended sweep, got a damaged file or another's; delete it"):
            file.load()


def test_files_of_another_length_are_refused(file):
    file.save(17, SWEEP)
    good = file.path.read_bytes()
    for bad in (b"", good[:5], good[:40], good[:-1], good + b"x", b"precious data" * 100):
        file.path.write_bytes(bad)
        with pytest.raises(StorageError, match="damaged file or another's"):
            file.load()
        assert file.path.read_bytes() == bad


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_save_leaves_the_last_one(file, monkeypatch, call):
    file.save(17, SWEEP)

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(
        StorageError,
        match=r"saving the sweep at step 16: expected room for a file of .* got 'No space left on device' with .* free; make room",
    ) as raised:
        file.save(16, SWEEP)
    assert raised.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert file.load()[0] == 17
    assert [entry.name for entry in file.path.parent.iterdir()] == ["sweep"]


def test_it_is_on_disk_before_it_takes_the_name(file, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *arguments, name=name, real=real: (calls.append(name), real(*arguments)))
    file.save(1, SWEEP)
    assert calls == ["fsync", "replace", "fsync"]  # the last is the folder


def test_what_cannot_be_saved_is_refused(file):
    with pytest.raises(ParameterError, match="x: expected an array of numbers, got object"):
        file.save(1, {"x": np.array([None])})
    with pytest.raises(ParameterError, match="expected a key for a suspended sweep, got none"):
        SweepFile(file.path, "")
    with pytest.raises(StorageError, match="No such file"):
        SweepFile(file.path.parent / "nowhere" / "sweep", KEY).save(1, SWEEP)


def test_a_killed_process_leaves_a_whole_sweep(file):
    program = """
        import sys
        import numpy as np
        from diffsim.checkpoint import SweepFile
        file = SweepFile(sys.argv[1], "killed")
        for step in range(1_000_000):
            file.save(step, {"a": np.full(50_000, step), "b": np.full(step % 1000, step)})
            print(step, flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program), file.path], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(5):
            assert process.stdout.readline()
        time.sleep(0.0123)
        process.kill()
        last = int((process.stdout.read().split() or [4])[-1])
    killed = SweepFile(file.path, "killed")
    step, arrays = killed.load()
    assert step >= last
    assert (arrays["a"] == step).all() and (arrays["b"] == step).all() and len(arrays["b"]) == step % 1000
    killed.remove()
    assert not list(file.path.parent.iterdir())


def test_the_magic_and_the_layout_are_what_is_documented(file):
    file.save(5, {"x": np.array([1.0])})
    raw = file.path.read_bytes()
    assert raw.startswith(suspend.MAGIC) and raw.endswith(np.array([1.0]).tobytes())
