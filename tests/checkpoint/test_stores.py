"""Properties of every store, over a list of all of them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from diffsim.checkpoint import DiskStore, HostStore, Lossless, StateLayout, Store
from diffsim.errors import ParameterError, ScheduleError, ShapeError, StaleValueError

SLOTS = 4


def noise(step):
    """Arrays of all sorts that cannot be compressed, or hardly."""
    rng = np.random.default_rng(step)
    return [
        rng.standard_normal((30, 41)),
        rng.integers(0, 256, 333, dtype="u1"),
        rng.standard_normal((7, 5)).astype(">f4"),
        np.zeros((0, 3)),
        np.array(step + 0.5),
        np.array([-0.0, np.nan, np.inf, 5e-324]),
    ]


def smooth(step):
    return [np.full((64, 65), step + 1.0), np.arange(500) + step]


STORES = {
    "host": lambda path, layout: HostStore(layout, SLOTS),
    "host, compressed": lambda path, layout: HostStore(layout, SLOTS, Lossless()),
    "disk": lambda path, layout: DiskStore(path, layout, SLOTS),
    "disk, compressed": lambda path, layout: DiskStore(path, layout, SLOTS, Lossless()),
}


@pytest.fixture(params=STORES)
def make(request, tmp_path):
    """A function that makes the store for states of a function."""
    return lambda state: STORES[request.param](tmp_path / "states", StateLayout.of(state(0)))


def same(found, expected):
    return len(found) == len(expected) and all(
        f.dtype == e.dtype and f.shape == e.shape and f.tobytes() == e.tobytes() for f, e in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("state", [noise, smooth])
@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_calls_gives_back_what_was_written(make, state, seed):
    rng = np.random.default_rng(seed)
    kept = {}
    reads = 0
    with make(state) as store:
        store: Store
        for step in range(150):
            slot = int(rng.integers(SLOTS))
            match rng.choice(["write", "read", "fetch", "free", "kept"], p=[0.35, 0.3, 0.2, 0.1, 0.05]):
                case "write":
                    store.write(slot, step, state(step))
                    kept[slot] = step
                case "read" if slot in kept:
                    assert same(store.read(slot, kept[slot]), state(kept[slot]))
                    reads += 1
                case "fetch" if slot in kept:
                    store.fetch(slot)
                case "free" if slot in kept:
                    store.free(slot)
                    del kept[slot]
                case "kept":
                    assert store.kept() == kept
    assert reads > 20


def test_live_arrays_may_change_after_a_write(make):
    live = smooth(0)
    with make(smooth) as store:
        for step in range(3 * SLOTS):
            live[0][...], live[1][...] = smooth(step)
            store.write(step % SLOTS, step, live)
            live[0][...] = np.nan
        for slot in range(SLOTS):
            assert same(store.read(slot, 2 * SLOTS + slot), smooth(2 * SLOTS + slot))


def test_views_and_other_memory_orders_are_written(make):
    wide = np.random.default_rng(0).standard_normal((68, 69))
    with make(smooth) as store:
        store.write(0, 0, [wide[2:-2, 2:-2], np.arange(1000)[::2]])
        store.write(1, 1, [np.asfortranarray(wide[4:, 4:]), np.arange(500)[::-1]])
        assert same(store.read(0, 0), [wide[2:-2, 2:-2], np.arange(0, 1000, 2)])
        assert same(store.read(1, 1), [wide[4:, 4:], np.arange(500)[::-1]])


def test_what_is_read_stays_until_the_next_read(make):
    with make(noise) as store:
        for slot in range(SLOTS - 1):
            store.write(slot, slot, noise(slot))
        arrays = store.read(0, 0)
        store.fetch(1)
        store.fetch(2)
        for step in range(5):
            store.write(SLOTS - 1, step, noise(step))
        store.fetch(SLOTS - 1)
        store.free(1)
        store.kept()
        assert same(arrays, noise(0))
        with pytest.raises(ValueError, match="read-only"):
            arrays[0][...] = 0.0
        assert same(store.read(2, 2), noise(2))


def test_empty_and_other_slots_are_refused(make):
    with make(smooth) as store:
        store.write(1, 5, smooth(5))
        for call in (lambda: store.read(0, 5), lambda: store.fetch(0), lambda: store.free(0)):
            with pytest.raises(ScheduleError, match="expected a state in slot 0, got none"):
                call()
        with pytest.raises(ScheduleError, match="expected state 4 in slot 1, got state 5"):
            store.read(1, 4)
        for slot in (-1, SLOTS):
            for call in (lambda s=slot: store.write(s, 0, smooth(0)), lambda s=slot: store.read(s, 0), lambda s=slot: store.free(s)):
                with pytest.raises(ScheduleError, match=f"expected a slot from 0 to {SLOTS - 1}, got {slot}"):
                    call()
        with pytest.raises(ScheduleError, match="expected the step of a state, counted from 0, got -1"):
            store.write(0, -1, smooth(0))
        assert store.kept() == {1: 5}


def test_states_of_another_layout_are_refused(make):
    with make(smooth) as store:
        store.write(0, 0, smooth(0))
        good = smooth(1)
        for state in ([good[0].astype("f4"), good[1]], [good[0][1:], good[1]], good[:1], [good[0].astype(">f8"), good[1]]):
            with pytest.raises(ShapeError, match=r"a store keeps states of one layout"):
                store.write(0, 1, state)
        assert same(store.read(0, 0), smooth(0))


def test_closed_stores_are_empty_and_refuse(make):
    store = make(smooth)
    store.write(0, 0, smooth(0))
    store.close()
    store.close()
    assert store.nbytes == 0
    for call in (lambda: store.write(0, 0, smooth(0)), lambda: store.read(0, 0), lambda: store.fetch(0), lambda: store.free(0), store.kept):
        with pytest.raises(StaleValueError, match="expected an open store, got"):
            call()


@pytest.mark.parametrize("slots", [0, -1, 1.5, True])
def test_a_store_has_slots(tmp_path, slots):
    layout = StateLayout.of(smooth(0))
    for make_store in (lambda: HostStore(layout, slots), lambda: DiskStore(tmp_path / "states", layout, slots)):
        with pytest.raises(ScheduleError, match="expected slots to be an integer of at least 1"):
            make_store()


@pytest.mark.parametrize("compression", [None, Lossless()])
@pytest.mark.parametrize("kind", [HostStore, DiskStore])
def test_memory_is_as_planned(tmp_path, kind, compression):
    """States of 4 MB that cannot be compressed, the worst case."""
    states = [[np.random.default_rng(k).standard_normal((500, 1000))] for k in range(2)]
    layout = StateLayout.of(states[0])
    path = () if kind is HostStore else (tmp_path / "states",)
    tracemalloc.start()
    with kind(*path, layout, SLOTS, compression) as store:
        for step in range(3 * SLOTS):
            store.write(step % SLOTS, step, states[step % 2])
        for slot in range(SLOTS):
            store.fetch((slot + 1) % SLOTS)
            store.read(slot, 2 * SLOTS + slot)
        peak = tracemalloc.get_traced_memory()[1]
        held = store.nbytes
    tracemalloc.stop()
    planned = kind.planned_bytes(layout, SLOTS, compression)
    pages = 2**16  # each buffer begins on a page, and Python's own objects
    assert held <= planned and 0.5 * planned < peak < planned + pages


def test_compressed_states_take_less_memory():
    layout = StateLayout.of(smooth(0))
    with HostStore(layout, 50, Lossless()) as store:
        for slot in range(50):
            store.write(slot, slot, smooth(slot))
        assert store.nbytes < 10 * layout.nbytes


def test_states_that_cannot_be_compressed_take_no_more_than_themselves():
    state = [np.frombuffer(np.random.default_rng(0).bytes(100_000), dtype="u1")]
    layout = StateLayout.of(state)
    with HostStore(layout, SLOTS, Lossless()) as store:
        for step in range(2):
            store.write(0, step, state)
            assert store.nbytes == 2 * layout.row_bytes  # the state, and a buffer for reading
            assert same(store.read(0, step), state)
        store.write(0, 2, [np.zeros_like(state[0])])
        assert store.nbytes < 1.01 * layout.row_bytes


def test_layouts_are_of_numbers():
    with pytest.raises(ParameterError, match="expected arrays of numbers in a state, got object"):
        StateLayout.of([np.array([None])])
    with pytest.raises(ParameterError, match="expected a type for each of 1 shapes, got 0"):
        StateLayout(((3,),), ())


def test_a_row_holds_arrays_aligned():
    layout = StateLayout.of(noise(0))
    assert layout.nbytes == sum(array.nbytes for array in noise(0))
    assert all(offset % 64 == 0 for offset in layout.offsets) and layout.nbytes <= layout.row_bytes < layout.nbytes + 64 * len(noise(0))
