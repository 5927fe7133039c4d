"""Programs as functions of a larger CPU kernel, which one worker runs."""

from __future__ import annotations

from collections.abc import Iterable

from diffsim.expr.graph import Graph
from diffsim.expr.shapes import Shape
from diffsim.stepping.ir.program import Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.source.alike import Function
from diffsim.stepping.source.kernel import BEGIN
from diffsim.stepping.source.workers import WorkerKernel

RUN = "run"


class InnerKernel(WorkerKernel):
    """The steps of a program as functions, the last of which runs them. The arguments are those of `TileKernel`."""

    def __init__(self, program: Program, graph: Graph, fields: StoredFields, common: set[tuple[Shape, ...]] | None = None) -> None:
        super().__init__(program, graph, fields, 1, common=common)

    def _write(self) -> None:
        def run() -> None:
            self.text(f"begin = control[{BEGIN}]")
            self._time_loop()

        self.call(RUN, run)
        self.finish()


def joined(kernels: Iterable[InnerKernel]) -> tuple[list[Function], list[tuple[Function, str]]]:
    """The functions of some kernels, of which those that are alike are one, and of each kernel the last function with its name there."""
    functions, runs, known = list[Function](), list[tuple[Function, str]](), dict[tuple[object, ...], str]()
    for kernel in kernels:
        names: dict[str, str] = {}
        for function in kernel.functions():
            renamed = function.renamed(names)
            key = (*renamed.kinds.items(), *renamed.body)
            if key not in known:
                known[key] = f"{function.name}_of_{len(known)}"
                functions.append(Function(known[key], renamed.kinds, renamed.body))
            names[function.name] = known[key]
        runs.append((kernel.functions()[-1], names[RUN]))
    return functions, runs
