"""Times that do not rise: the message says which are wrong, and its remedy mends them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diffsim.errors import DataError
from diffsim.records import read_field, read_records
from diffsim.records.conventions.rising import out_of_order, require_rising

Times = np.ndarray


def clock(rng: np.random.Generator) -> Times:
    return np.cumsum(rng.uniform(0.5, 1.5, int(rng.integers(12, 60)))) + rng.choice([0.0, 1.3e9])


def wrong_stamp(times: Times, rng: np.random.Generator) -> Times:
    """One of them is that of another day, or of a sample far from it."""
    k = int(rng.integers(1, len(times) - 1))
    out = times.copy()
    early, late = times[max(k - 5, 0)] - rng.uniform(0.1, 9e4), times[min(k + 5, len(times) - 1)] + rng.uniform(0.1, 9e4)
    out[k] = rng.choice([early, late])
    return out


def twice(times: Times, rng: np.random.Generator) -> Times:
    k = int(rng.integers(0, len(times)))
    return np.insert(times, k, times[k])


def again(times: Times, rng: np.random.Generator) -> Times:
    """Two files behind one another, whose clocks start alike."""
    return np.concatenate([times, times[: len(times) // 2] + rng.uniform(-0.4, 0.4)])


def shuffled(times: Times, rng: np.random.Generator) -> Times:
    return np.concatenate([times[len(times) // 2 :], times[: len(times) // 2]]) if rng.random() < 0.5 else rng.permutation(times)


def falling(times: Times, rng: np.random.Generator) -> Times:
    return times[::-1].copy()


def number(pattern: str, message: str) -> int:
    match = re.search(pattern, message)
    assert match, message
    return int(match[1])


REMEDIES: dict[str, tuple[Callable[[Times, np.random.Generator], Times], str, Callable[[Times, str], list[Times]]]] = {
    "a wrong stamp": (
        wrong_stamp,
        "correct it, or delete the sample",
        lambda times, text: [np.delete(times, number(r" at sample (\d+)", text))],
    ),
    "a stamp twice": (twice, "delete one of each pair", lambda times, text: [np.delete(times, number(r" at the samples (\d+) and", text))]),
    "two files": (again, "cut the file there", lambda times, text: np.split(times, [number(r" at sample (\d+), where", text)])),
    "no order": (shuffled, "sort them", lambda times, text: [np.sort(times)]),
    "the last one first": (falling, "reverse them", lambda times, text: [times[::-1]]),
}
"""How times are broken, the remedy of the message, and what follows it: times, or the parts of a file."""


@pytest.mark.parametrize("way", REMEDIES)
def test_the_remedy_of_the_message_mends_the_times(way: str) -> None:
    broken, remedy, follow = REMEDIES[way]
    rng = np.random.default_rng(0)
    for _ in range(50):
        times = broken(clock(rng), rng)
        with pytest.raises(DataError) as refused:
            require_rising(times, "a.npz")
        message = str(refused.value)
        assert remedy in message and "\n" not in message, message
        one, other = re.findall(r"found (?:the other way, )?(\S+) (?:and then|at the samples|after|before) (\S+)", message)[0]
        assert one != other or way == "a stamp twice", message  # digits enough to tell them apart
        for part in follow(times, message):
            require_rising(part, "mended")


def test_one_remedy_after_the_other_mends_two_mistakes() -> None:
    """A stamp that stands twice is not sorted away; the next message names the wrong one."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        times = np.cumsum(rng.uniform(0.5, 1.5, 10))
        times = wrong_stamp(np.insert(times, 1, times[1]), rng)
        for _ in range(3):
            if np.all(np.diff(times) > 0):
                break
            with pytest.raises(DataError) as refused:
                require_rising(times, "a.npz")
            message = str(refused.value)
            if "delete" in message:
                times = np.delete(times, number(r" at (?:the )?samples? (\d+)", message))
            else:
                first, second = re.findall(r"found (\S+) and then (\S+)", message)[0]
                assert "sort them" in message and first != second, message
                times = np.sort(times)
        require_rising(times, "mended")


def test_the_fewest_entries_are_out_of_order() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        values = rng.integers(0, 9, int(rng.integers(1, 9))).astype(float)
        wrong = out_of_order(values)
        assert np.all(np.diff(np.delete(values, wrong)) > 0)
        masks = ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1).astype(bool)
        assert len(values) - len(wrong) == max(mask.sum() for mask in masks if np.all(np.diff(values[mask]) > 0))


def test_a_wrong_stamp_of_a_file_is_named(tmp_path: Path) -> None:
    """A million samples, one of which is a day late: its place, and its neighbours."""
    times = 0.5 * np.arange(1_000_000)
    times[700_000] += 86400.0
    np.savez(tmp_path / "a.npz", values=np.zeros((len(times), 1)), times=times)
    with pytest.raises(
        DataError, match=r"a.npz.*: .* rise, found 436400 after 349999.5 and before 350000.5 at sample 700000; correct it, or"
    ):
        read_records(tmp_path / "a.npz")


def test_coordinates_that_fall_but_for_one_are_those_of_a_file_that_falls(tmp_path: Path) -> None:
    """Latitudes from north to south with one wrong: it is named, whichever end it is at."""
    for wrong in (0, 4, 9):
        latitude = np.linspace(45.0, 36.0, 10)
        latitude[wrong] = -999.0 if wrong < 9 else 999.0  # lower than all that follow, or higher than all before
        np.savez(tmp_path / "a.npz", depth=np.arange(30.0).reshape(10, 3), lat=latitude, lon=np.arange(3.0))
        with pytest.raises(DataError, match=rf"axis 0: expected coordinates that fall, found {latitude[wrong]:g} .* at place {wrong};"):
            read_field(tmp_path / "a.npz", "depth", ("lat", "lon"), ("lat", "lon"))
