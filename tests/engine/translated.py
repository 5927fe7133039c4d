"""Prints a digest of all that an engine makes of a step's kernels: `python translated.py ENGINE STEP [by_itself]`."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from typing import Any

import diffsim
from diffsim.engine import language, translation
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
    language().lang.impl.current_cfg().print_ir = True
    with tempfile.TemporaryFile() as out:
        stdout = os.dup(1)
        os.dup2(out.fileno(), 1)  # engines print past Python
        solution, pullback = step.simulation("f32").vjp(step.all_inputs(), step.steps)
        pullback(solution)
        os.dup2(stdout, 1)
        out.seek(0)
        lines = [line for line in out if line.startswith((b" ", b"$", b"<", b"kernel"))]
    print(len(lines), hashlib.sha256(b"".join(lines)).hexdigest())


if __name__ == "__main__":
    main()
