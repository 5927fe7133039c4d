"""Functions that workers of a cluster run in tests, in place of shots."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diffsim.errors import StabilityError


class Kept:
    """Something that is sent once."""


def places(kept: Kept, factor: int, shots: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The number of the shot times a factor, its process and its kept arguments. Later shots are done first."""
    for shot in shots:
        time.sleep(0.2 / (1 + shot))
        yield factor * shot, os.getpid(), id(kept)


def deadly(kept: Kept, folder: Path, times: int, shots: Sequence[int]) -> Iterator[int]:
    """Shot 1 kills its worker this number of times."""
    for shot in shots:
        if shot == 1:
            died = len(list(folder.iterdir()))
            if died < times:
                (folder / str(died)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        yield 10 * shot


def failing(kept: Kept, shots: Sequence[int]) -> Iterator[int]:
    """All shots from 1 on fail, the later ones first."""
    for shot in shots:
        if shot:
            time.sleep(0.5 / shot)
            raise StabilityError(f"shot {shot}: expected a smaller dt; lower it")
        yield shot


def folders(policy: Any, shots: Sequence[int]) -> Iterator[tuple[bool, float]]:
    """True if the folder of a policy is there, and the seconds between copies."""
    for _ in shots:
        yield policy.folder.is_dir(), policy.resume
