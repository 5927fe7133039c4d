"""Prints a digest of a run and its gradient by an engine: `python translated.py ENGINE STEP [by_itself]`."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

import diffsim
from diffsim.engine import translation
from tests.steps import STEPS


class Nothing(dict[str, Any]):
    """Forgets its entries, so that the engine reads and translates all sources itself."""

    def __setitem__(self, key: str, value: Any) -> None:
        pass


def main() -> None:
    engine, name, *by_itself = sys.argv[1:]
    if by_itself:
        translation._trees = Nothing()
    step = next(step for step in STEPS if step.name == name)
    diffsim.init(precision="f32", threads=1, engine=engine)
    solution, pullback = step.simulation("f32").vjp(step.all_inputs(), step.steps)
    results = {**solution.final, **{f"{name} bar": value for name, value in pullback(solution).items()}}
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in results.values())).hexdigest()
    print(sum(value.size for value in results.values() if np.any(value)), digest)


if __name__ == "__main__":
    main()
