"""Types of processors whose kernels NumPy's OpenBLAS has besides those that it chose here: python scripts/fuzz/openblas.py

One type a line, of those that this processor can run. `OPENBLAS_CORETYPE=TYPE` chooses its kernels. OpenBLAS says nothing where it lacks a
type, and takes another one: the wheels of NumPy have no kernels of their own for Zen. So each type is asked for, and counts if the library
then names it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

NEEDED = {"Nehalem": "sse4_2", "Sandybridge": "avx", "Haswell": "avx2", "SkylakeX": "avx512vl"}
"""The types of the wheels, and an instruction set of their kernels as Linux names it. NumPy itself needs a processor like the first one."""


def chosen() -> str:
    """The type whose kernels this process has; "" if its BLAS is no OpenBLAS of a wheel."""
    for library in (Path(np.__file__).parents[1] / "numpy.libs").glob("*openblas*"):
        for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
            function = getattr(ctypes.CDLL(str(library)), name, None)
            if function is not None:
                function.restype = ctypes.c_char_p
                return function().decode()
    return ""


def chosen_with(kind: str) -> str:
    """The same in a process that asks for this type."""
    command = [sys.executable, __file__, "--chosen"]
    environment = {**os.environ, "OPENBLAS_CORETYPE": kind}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def others() -> list[str]:
    """Types with kernels that differ from those of this process."""
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    here = chosen()
    return [kind for kind, flag in NEEDED.items() if kind != here and flag in flags and chosen_with(kind) == kind]


if __name__ == "__main__":
    print(chosen() if "--chosen" in sys.argv else "\n".join(others()))
