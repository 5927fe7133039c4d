"""Sums over the shots of one evaluation, saved in a file so that a killed run resumes with the next shot."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from diffsim.checkpoint import Policy, SweepFile
from diffsim.domains import Ranks
from diffsim.scene.setup.setup import Where
from diffsim.scene.shots.shot_runs import ShotGradient
from diffsim.typing import Array

DIGITS = 12
"""Digits of a key in the name of its file."""


def digest_of(texts: Iterable[str], arrays: Mapping[str, Array]) -> str:
    """A digest of texts and named arrays, including their lengths."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(f"{len(text)} {text}".encode())
    for name, values in arrays.items():
        digest.update(f"{len(name)} {name} {values.dtype.str} {values.shape}".encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


class ShotSums:
    """Misfits, predictions and gradients of finished shots.

    Args:
        labels: labels of the misfits.
        places: the predicted quantities.
        unknowns: unknown -> shape of its gradient.
    """

    def __init__(self, labels: Collection[str], places: Collection[Where], unknowns: Mapping[str, tuple[int, ...]]) -> None:
        self.done = 0
        self.parts = dict.fromkeys(labels, 0.0)
        self.by_cell: dict[str, Array] = {name: np.zeros(shape) for name, shape in unknowns.items()}
        self._rows: dict[Where, list[Array]] = {where: [] for where in places}

    @property
    def predicted(self) -> dict[Where, Array]:
        """Predictions, shots first."""
        return {where: np.stack(rows) for where, rows in self._rows.items()}

    def add(self, shot: ShotGradient) -> None:
        """Add a shot."""
        self.done += 1
        for label, value in shot.values.items():
            self.parts[label] += value
        for where, rows in self._rows.items():
            rows.append(shot.predicted[where])
        for name, bar in shot.by_cell.items():
            self.by_cell[name] += bar.reshape(self.by_cell[name].shape)

    def stand_for(self, factor: float) -> None:
        """Multiply all sums, which then stand for more shots."""
        self.parts = {label: factor * value for label, value in self.parts.items()}
        self.by_cell = {name: factor * values for name, values in self.by_cell.items()}

    def arrays(self) -> dict[str, Array]:
        """All sums as named arrays."""
        parts = {f"part {label}": np.array(value) for label, value in self.parts.items()}
        by_cell = {f"gradient {name}": value for name, value in self.by_cell.items()}
        return parts | by_cell | {f"predicted {kind} {state}": np.stack(rows) for (kind, state), rows in self._rows.items()}

    def restore(self, done: int, arrays: Mapping[str, Array]) -> None:
        """Restore sums from `arrays`."""
        self.done = done
        self.parts = {label: float(arrays[f"part {label}"]) for label in self.parts}
        self.by_cell = {name: arrays[f"gradient {name}"].copy() for name in self.by_cell}
        self._rows = {(kind, state): list(arrays[f"predicted {kind} {state}"]) for kind, state in self._rows}


class ShotFile:
    """Saves the sums of one evaluation between its shots, now and then. Of several ranks, rank 0 has the file, and all get what it holds.

    Args:
        policy: its folder, and seconds between copies.
        loss: a digest of the scene, the machine and the data, which identifies the loss.
        fields: the unknown fields, which identify the evaluation.
        ranks: the processes, which have the same sums.
    """

    def __init__(self, policy: Policy, loss: str, fields: Mapping[str, Array], ranks: Ranks) -> None:
        self._ranks = ranks
        key = digest_of([loss], fields)
        self._file = SweepFile(policy.file(f"shots-{key[:DIGITS]}"), key)
        self._seconds, self._last = policy.resume, time.monotonic()

    def restore(self, sums: ShotSums) -> None:
        """Restore the sums that a killed run left of this evaluation."""
        saved = self._ranks.gathered(None if self._ranks.rank else self._file.load())[0]
        if saved is not None:
            sums.restore(*saved)

    def keep(self, sums: ShotSums) -> None:
        """Write the sums, if it is time."""
        if self._ranks.rank == 0 and time.monotonic() - self._last >= self._seconds:
            self._file.save(sums.done, sums.arrays())
            self._last = time.monotonic()

    def remove(self) -> None:
        """Delete the file after the evaluation."""
        if self._ranks.rank == 0:
            self._file.remove()
