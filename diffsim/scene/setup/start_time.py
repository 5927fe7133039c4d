"""Times of records and series after the start of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffsim.errors import DataError
from diffsim.records.conventions.clock import SECOND, date_of
from diffsim.records.conventions.records import Records
from diffsim.typing import Array


def after_start(records: Records, start: float | str) -> Array:
    """The times of records after the start of the run, s.

    Args:
        records: of a file.
        start: time of the file at which the run starts, s, or a date.

    Raises:
        DataError: a date, and the file has none.
    """
    return times_after(records.times, records.epoch, start, records.where)


def times_after(times: Array, epoch: np.datetime64 | None, start: float | str, where: str) -> Array:
    """Times of a file after the start of the run, s.

    Args:
        times: s.
        epoch: the date of time 0; None: the file has no dates.
        start: time of the file at which the run starts, s, or a date.
        where: the file, for messages.

    Raises:
        DataError: a date, and the file has none.
    """
    if not isinstance(start, str):
        return times - start
    date = date_of(start, "start")
    if epoch is None:
        raise DataError(
            f"{where}: expected dates for start = {start}, found times without one, or in a calendar other than the Gregorian one; give "
            "start in s after time 0 of the file, or write dates"
        )
    return times - float((date - epoch) / SECOND)


def with_time_of(records: Records, first: Records) -> Records:
    """Records with times after the time 0 of others, which lie in another file.

    Raises:
        DataError: only one of the files has dates.
    """
    if (records.epoch is None) != (first.epoch is None):
        raise DataError(
            f"{records.where}: expected dates in all files of a shot or in none, found others in {first.where}; write all alike"
        )
    if records.epoch is None or first.epoch is None:
        return records
    return replace(records, times=records.times + float((records.epoch - first.epoch) / SECOND), epoch=first.epoch)
