"""Statements of a user beside a file: headers of SEG-Y that they replace, and parts that mean nothing in a format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import segyio

import diffsim as ds
from diffsim.errors import DataError, SceneError
from diffsim.records import Layout, read_records
from diffsim.scene import field_on_grid
from tests.records.test_conventions import GRID, SAMPLES, STATIONS, TIMES, VALUES, X, Y, traces, truth, write_other

WORD = segyio.TraceField


def dead_headers() -> Iterator[tuple[str, dict[int, Any]]]:
    """Headers of a dead trace that would count for another one."""
    for name, words in {
        "delay": {WORD.DelayRecordingTime: 999},
        "source": {WORD.SourceX: 7, WORD.SourceDepth: 3},
        "unit": {WORD.TraceValueMeasurementUnit: 1},
        "step": {WORD.TRACE_SAMPLE_INTERVAL: 999},
        "unit of places": {WORD.CoordinateUnits: 4},
    }.items():
        for dead in (0, 2):
            yield (
                f"{name} {dead}",
                {word: np.where(np.arange(STATIONS) == dead, value, 0) for word, value in words.items()}
                | {WORD.TraceIdentificationCode: np.where(np.arange(STATIONS) == dead, 2, 1)},
            )


@pytest.mark.parametrize(("name", "head"), list(dead_headers()))
def test_headers_of_dead_traces_say_nothing(name: str, head: dict[int, Any], tmp_path: Path) -> None:
    """Neither the first one's, from which the shot's source and delay are, nor another one's, which would contradict it."""
    dead = int(name[-1])
    live = np.arange(STATIONS) != dead
    usual = {WORD.GroupX: 100 + np.arange(STATIONS), WORD.SourceX: 40 * live, WORD.DelayRecordingTime: 500 * live}
    usual |= {WORD.TraceValueMeasurementUnit: 5 * live, WORD.TraceIdentificationCode: np.where(live, 1, 2)}
    traces(tmp_path / "a.sgy", VALUES, {**usual, **{word: usual.get(word, 0) * live + values * ~live for word, values in head.items()}})
    (records,) = read_records(tmp_path / "a.sgy", Layout(axes=("x",)))
    assert records.unit == "m" and records.dead == (str(dead),)
    np.testing.assert_allclose(records.times, 0.5 + 0.03 * np.arange(SAMPLES))
    np.testing.assert_array_equal(records.source, [40.0])
    np.testing.assert_array_equal(np.isnan(records.values).any(axis=0), ~live)


def test_a_shot_of_dead_traces_alone(tmp_path: Path) -> None:
    traces(
        tmp_path / "a.sgy", VALUES, {WORD.TraceIdentificationCode: np.full(STATIONS, 2), WORD.DelayRecordingTime: np.full(STATIONS, 500)}
    )
    (records,) = read_records(tmp_path / "a.sgy", Layout(axes=("x",)))
    assert np.isnan(records.values).all() and records.coordinates is None and records.source is None and records.times[0] == 0.5


def test_a_time_between_samples_beside_that_of_headers_is_noted(tmp_path: Path) -> None:
    traces(tmp_path / "a.sgy", VALUES, {WORD.TRACE_SAMPLE_INTERVAL: np.full(STATIONS, 30000)})
    for dt, notes in ((None, 0), (0.03, 0), (0.03 * (1 + 1e-9), 0), (0.004, 1)):
        (records,) = read_records(tmp_path / "a.sgy", Layout(dt=dt))
        assert len(records.notes) == notes and records.times[1] == (dt or 0.03)
    (note,) = records.notes
    assert note.endswith("a.sgy: dt = 4 ms is taken, where the headers have 30 ms between samples")
    traces(tmp_path / "b.sgy", VALUES, {WORD.TRACE_SAMPLE_INTERVAL: np.full(STATIONS, 2000)})
    (note,) = read_records(tmp_path / "b.sgy", Layout(dt=0.03))[0].notes  # the headers contradict each other
    assert note.endswith("where the headers have 2 ms between samples")


def test_heights_of_receivers_in_segy(tmp_path: Path) -> None:
    head = {WORD.ReceiverGroupElevation: 10 + np.arange(STATIONS), WORD.SourceSurfaceElevation: np.full(STATIONS, 7)}
    traces(tmp_path / "a.sgy", VALUES, head)
    for axis, sign in (("z", -1), ("depth", -1), ("height", 1)):
        (records,) = read_records(tmp_path / "a.sgy", Layout(axes=(axis,)))
        np.testing.assert_array_equal(records.coordinates[:, 0], sign * (10 + np.arange(STATIONS)))
        np.testing.assert_array_equal(records.source, [sign * 7])


UNUSED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "a.sgy": (
        ("values", "times", "receiver", "deviations", "weights", "stations", "order", "shape", "time_unit"),
        {"stations": Path("s.csv"), "order": ("time", "receiver"), "shape": (12, 5)},
    ),
    "a.csv": (("order", "shape"), {"order": ("time", "receiver"), "shape": (12, 5)}),
    "a.npz": (("shape",), {"shape": (12, 5)}),
    "a.npy": (("time_unit",), {"dt": 1.0}),
}
"""File -> the parts of a layout that mean nothing in it, and values of some."""


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, (keys, _) in UNUSED.items() for key in keys])
def test_parts_of_a_layout_that_mean_nothing_are_refused(name: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "a.sgy":
        traces(path, VALUES, None)
    elif name == "a.csv":
        path.write_text("time,a\n0,1\n1,2\n")
    elif name == "a.npz":
        np.savez(path, values=VALUES, times=TIMES)
    else:
        np.save(path, VALUES)
    values = UNUSED[name][1]
    layout = Layout(**{key: values.get(key, "ms"), **({"dt": 1.0} if name == "a.npy" else {})})
    with pytest.raises(DataError, match=rf"{name}.*: expected no {key} .*; drop"):
        read_records(path, layout)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        *(("sgy", *each) for each in (("key", "vp"), ("coordinates", ["y", "x"]), ("shape", [21, 22]))),
        *(("tif", *each) for each in (("coordinates", ["y", "x"]), ("shape", [21, 22]))),
        *(("asc", *each) for each in (("key", "1"), ("coordinates", ["y", "x"]), ("shape", [21, 22]))),
        *(("bin", *each) for each in (("key", "vp"), ("coordinates", ["y", "x"]))),
        *(("npy", *each) for each in (("key", "vp"), ("shape", [21, 22]))),
        *(("h5", *each) for each in (("shape", [21, 22]),)),
    ],
)
def test_keys_of_a_field_that_mean_nothing_are_refused(kind: str, key: str, value: Any, tmp_path: Path) -> None:
    path, keys, _ = write_other(tmp_path, kind, False, "m")
    field_on_grid(path, GRID, "m", **keys)
    keys = {name: more for name, more in keys.items() if key != "coordinates" or name not in ("spacing", "origin")}
    with pytest.raises(SceneError, match=rf"{key}: expected none|expected no {key} .*; drop|variables values, found no vp; name one"):
        field_on_grid(path, GRID, "m", **keys | {key: value})


def test_the_order_of_a_file_without_names(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", truth(Y, X).T)
    field = ds.records.read_field(tmp_path / "a.npy", order=("x", "y"))
    assert field.axes == ("x", "y") and field.values.shape == (len(X), len(Y))
    assert ds.records.read_field(tmp_path / "a.npy", order=("x", "y"), axes=("y", "x")).values.shape == (len(Y), len(X))
