"""`mpiexec -n N python -m tests.domains.compare FOLDER CLAIM LEFT_OUT NARROWER NAME ...`: cases in domains against those of one process.

CLAIM ghost cells more than there are count as right, LEFT_OUT of those that are computed are not, and NARROWER more from each
step after an exchange to the next are not: with one or more of any, the results must differ.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from mpi4py import MPI

import diffsim as ds
from diffsim.domains import stepper
from diffsim.domains.domain import InBox
from diffsim.domains.reach import Reach
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir.program import Nest, Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.source.wavefront import Wavefront
from diffsim.typing import IntArray
from tests.domains.drawn import named
from tests.domains.generator import DEEP, NIGHTLY, QUICK


def differences(one: dict[str, np.ndarray], many: dict[str, np.ndarray]) -> list[str]:
    """The results that differ in a bit."""
    return [name for name, values in many.items() if not np.array_equal(values, one[name])]


def fewer_rows(program: Program, rows: int, n: int) -> Program:
    """A program in a box of n rows whose windows, where they are narrowest, have so many rows less at each cut."""
    operations = [
        replace(each, narrowest=(each.narrowest[0] + rows * (each.narrowest[0] > 0), each.narrowest[1] - rows * (each.narrowest[1] < n)))
        if isinstance(each, Nest) and each.narrowest is not None
        else each
        for each in program.operations
    ]
    return replace(program, operations=tuple(operations))


def main(folder: str, claim: str, left_out: str, narrower: str, *names: str) -> None:
    ds.init(threads=1)
    true_widths, true_windows, true_pays, true_narrowing = InBox.widths, stepper.in_windows, Wavefront.pays, stepper.Narrowing.of

    def widths(box: InBox, reach: Reach) -> IntArray:
        return true_widths(box, reach) + int(claim)

    def windows(
        programs: Programs,
        reach: Reach,
        inner: Sequence[slice],
        room: IntArray,
        points: IntArray,
        lasting: tuple[bool, bool],
        deep: IntArray,
    ) -> tuple[dict[str, Program], dict[str, IntArray]]:
        changed, computed = true_windows(programs, reach, inner, room - int(left_out), points, lasting, deep)
        n = programs.step.grid.shape[0]
        fewer = {name: fewer_rows(program, int(left_out), n) for name, program in changed.items()}
        return fewer, {name: far + int(left_out) for name, far in computed.items()}

    def narrowing(unused: Sequence[int]) -> stepper.Narrowing:
        right = true_narrowing(unused)
        return replace(right, more=right.more + int(narrower))

    def pays(wave: Wavefront, program: Program, fields: StoredFields, workers: int) -> bool:
        return case.together or true_pays(wave, program, fields, workers)

    InBox.widths = widths  # type: ignore[method-assign]
    stepper.Narrowing.of = narrowing  # type: ignore[method-assign, assignment]
    Wavefront.pays = pays  # type: ignore[method-assign]
    stepper.in_windows = windows
    known = {case.name: case for case in [*QUICK, *NIGHTLY, *DEEP]}
    for chosen in (named(name) or known[name] for name in names):
        wrong = int(claim) + int(left_out) + int(narrower)
        case = replace(chosen, checkpoints=("auto",)) if wrong else chosen  # a repeated wrong step would be noticed
        one = pickle.loads((Path(folder) / f"{case.name}.pickle").read_bytes())
        for parts in case.cuts:
            every = MPI.COMM_WORLD.gather(differences(one, case.results(parts)))
            if every is not None:
                different = sorted(set().union(*every))
                sys.stdout.write(f"{case.name} {parts}: {'; '.join(different) or 'same bits'}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
