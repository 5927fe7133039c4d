"""`mpiexec -n N python -m tests.domains.compare FOLDER CLAIM NAME ...`: compare cases in domains with the results of one process.

CLAIM ghost cells more than there are count as right: with one or more, the results must differ.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from mpi4py import MPI

import diffsim as ds
from diffsim.domains.domain import InBox
from diffsim.domains.reach import Reach
from diffsim.typing import IntArray
from tests.domains.generator import NIGHTLY, QUICK


def differences(one: dict[str, np.ndarray], many: dict[str, np.ndarray]) -> list[str]:
    """The results that differ in a bit."""
    return [name for name, values in many.items() if not np.array_equal(values, one[name])]


def main(folder: str, claim: str, *names: str) -> None:
    ds.init(threads=1)
    true_widths = InBox.widths

    def widths(box: InBox, reach: Reach) -> IntArray:
        return true_widths(box, reach) + int(claim)

    InBox.widths = widths  # type: ignore[method-assign]
    for chosen in (case for case in [*QUICK, *NIGHTLY] if case.name in names):
        case = replace(chosen, checkpoints=("auto",)) if int(claim) else chosen  # steps of wrong cells that are repeated would be noticed
        one = pickle.loads((Path(folder) / f"{case.name}.pickle").read_bytes())
        for parts in case.cuts:
            every = MPI.COMM_WORLD.gather(differences(one, case.results(parts)))
            if every is not None:
                different = sorted(set().union(*every))
                sys.stdout.write(f"{case.name} {parts}: {'; '.join(different) or 'same bits'}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
