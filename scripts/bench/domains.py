"""Costs of domains: `python scripts/bench/domains.py --cuts 2x1x1`.

Two ranks of one thread (or as many as there are boxes) take turns with one process of as many threads, so that both see the same machine:
the medians of a step forward, or of one of a gradient by 4 slots (`--gradient`), and their ratio. With `--weak` the process has one thread
and the grid of one box. As many such processes, which know nothing of each other, then run at once: so much the machine loses by itself. A
rank that waits for its turn sleeps.

`--alone` runs rank 0 of the cuts without any other, in turns with one process of one thread: their times of the processor are those of
computing and copying, without waiting; the results of the rank are wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

import diffsim as ds
from diffsim.domains import Domains, mpi
from diffsim.domains.ranks import Alone
from diffsim.engine import BoundKernel

PATIENCE = 300.0
"""Most seconds until a process has compiled its simulation."""


def equation(name: str, shape: tuple[int, ...]) -> tuple[ds.Equation, dict[str, float], str]:
    """An equation, its homogeneous medium, and the state that is recorded."""
    grid, half = ds.Grid(shape, 10.0), len(shape) * ((10, 10),)
    if name == "acoustic":
        layer = {"layer": half, "layer_speed": 2000.0, "layer_frequency": 15.0}
        return ds.solvers.Acoustic(grid, 1e-3, 8, **layer), {"c": 2000.0}, "p"
    if name == "elastic":
        layer = {"layer": half, "layer_speed": 2500.0, "layer_frequency": 15.0}
        return ds.solvers.Elastic(grid, 1e-3, 4, **layer), {"vp": 2500.0, "vs": 1400.0, "rho": 2200.0}, "vx"
    return ds.solvers.Heat(grid, 1.0), {"kappa": 1.0}, "T"


launches: list[float] = []
"""Seconds of each launch of a kernel."""
launch = BoundKernel.__call__


def timed(kernel: BoundKernel, *numbers: int) -> None:
    """Launch a kernel, and note how long it takes."""
    began = time.perf_counter()
    launch(kernel, *numbers)
    launches.append(time.perf_counter() - began)


class Unheard(Alone):
    """Rank 0 of several, the others of which are not there."""

    launched = True

    def __init__(self, size: int) -> None:
        self.size = size

    def gathered(self, value: Any) -> list[Any]:
        return [value] * self.size

    def exchanged(self, outgoing: Mapping[int, Sequence[np.ndarray]], incoming: Mapping[int, Sequence[np.ndarray]]) -> None:
        for each in incoming.values():
            for values in each:
                values[...] = 0


class Measured:
    """A simulation whose run, or gradient, is measured several times. The first time, which compiles, does not count."""

    def __init__(self, options: argparse.Namespace, shape: tuple[int, ...], cuts: tuple[int, ...], threads: int) -> None:
        ds.init(threads=threads, precision="f32")
        step, medium, seen = equation(options.equation, shape)
        middle = [[0.5 * (step.grid.coordinates(axis)[0] + step.grid.coordinates(axis)[-1]) for axis in range(len(shape))]]
        domains = None if math.prod(cuts) == 1 else Domains(cuts, options.between or None, gathered=False)
        run = ds.Simulation(step, receivers={seen: middle}, wrt=list(medium)[:1], domains=domains)
        inputs = {name: np.full(shape, value, np.float32) for name, value in medium.items()}
        self.compiled, self.steps = run._compiled, options.steps
        fields = self.compiled.checked(inputs, options.steps)

        def forward() -> None:
            self.compiled.stepper.advance(0, options.steps)

        def gradient() -> None:
            run.value_and_grad(lambda solution: (solution.traces[seen] ** 2).sum(), inputs, options.steps, checkpoint=4)

        self._start: Callable[[], object] = (
            (lambda: None) if options.gradient else lambda: self.compiled.start(fields, options.steps) and None
        )
        self._run = gradient if options.gradient else forward
        self()

    def __call__(self) -> dict[str, float]:
        """Milliseconds of a step, by the clock and of the processor, and of these those of exchanges and of launches."""
        self._start()
        self.compiled.domain.every(None)  # a rank that started first would wait for the other one in its first exchange
        launches.clear()
        spent, began, used = self.compiled.domain.spent, time.perf_counter(), time.process_time()
        self._run()
        now = self.compiled.domain.spent
        seconds = time.perf_counter() - began, time.process_time() - used, now[1] - spent[1]
        scale = 1e3 / self.steps
        names = ("clock", "processor", "exchange")
        out = {name: scale * each for name, each in zip(names, seconds, strict=True)}
        return out | {"exchanges": now[0] - spent[0], "launches": scale * sum(launches)}


def obey(options: argparse.Namespace) -> None:
    """Measure when the other end of a socket says so, as one process or as a rank."""
    BoundKernel.__call__ = timed  # type: ignore[method-assign]
    shape, cuts = sizes(options.shape), sizes(options.cuts)
    if options.role != "ranks":
        shape = tuple(n // part for n, part in zip(shape, cuts, strict=True)) if options.weak else shape
        measured = Measured(options, shape, (1,) * len(shape), 1 if options.weak else math.prod(cuts))
    else:
        measured = Measured(options, shape, cuts, 1)
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(os.environ["BENCH_SOCKET"])
        with end.makefile("rw") as pipe:
            say(pipe, [options.role, measured.compiled.domain.ghost_share])
            while pipe.readline():
                say(pipe, measured())


def say(pipe: IO[str], message: object) -> None:
    pipe.write(json.dumps(message) + "\n")
    pipe.flush()


def take_turns(options: argparse.Namespace) -> dict[str, list[list[dict[str, float]]]]:
    """Start both, and let them measure in turns: role -> turns -> what each of its processes measured."""
    count = math.prod(sizes(options.cuts))
    command, beside = [sys.executable, *sys.argv, "--role"], Path(sys.executable).parent / "mpiexec"
    launcher = [str(beside) if beside.exists() else "mpiexec", "-n", str(count)]
    apart = count if options.weak else 0
    results: dict[str, list[list[dict[str, float]]]] = {"one": [], "ranks": []} | ({"apart": []} if apart else {})
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory()) + "/turns"
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.settimeout(PATIENCE)
        server.bind(place)
        server.listen()
        environment = {**os.environ, "BENCH_SOCKET": place}
        for each in ([*command, "one"], [*launcher, *command, "ranks"], *apart * [[*command, "apart"]]):
            stack.callback(subprocess.Popen(each, env=environment).wait)
        pipes: dict[str, list[IO[str]]] = {role: [] for role in results}
        for _ in range(1 + count + apart):
            end = stack.enter_context(server.accept()[0])
            pipe: IO[str] = stack.enter_context(end.makefile("rw"))
            pipes[json.loads(pipe.readline())[0]].append(pipe)
        for _ in range(options.turns):
            for role, members in pipes.items():
                for member in members:
                    say(member, "measure")
                results[role].append([json.loads(member.readline()) for member in members])
    return results


def report(options: argparse.Namespace, results: dict[str, list[list[dict[str, float]]]]) -> str:
    """The medians of both, and their ratio."""
    clocks = {role: [max(each["clock"] for each in turn) for turn in turns] for role, turns in results.items()}
    one, many = (statistics.median(clocks[role]) for role in ("one", "ranks"))
    exchange, exchanges = (
        statistics.median(min(each[key] for each in turn) for turn in results["ranks"]) for key in ("exchange", "exchanges")
    )
    faster, slower = (statistics.median(of(each["launches"] for each in turn) for turn in results["ranks"]) for of in (min, max))
    used = statistics.median(turn[0]["processor"] / turn[0]["clock"] for turn in results["one"])
    what = "a step of a gradient by 4 slots" if options.gradient else "a step forward"
    other = "in one process with the grid of one box" if options.weak else "in one process"
    apart = [f"{statistics.median(clocks['apart']) / one:.2f} for as many such processes at once"] if options.weak else []
    return "; ".join(
        [
            f"{options.equation} {options.shape} in {options.cuts}, {what}: {one:.1f} ms {other}, {many:.1f} ms in ranks",
            f"ratio of medians {many / one:.2f}, of the fastest {min(clocks['ranks']) / min(clocks['one']):.2f}",
            *apart,
            f"{exchanges:.0f} exchanges, {exchange:.2f} ms a step on the rank that waits least",
            f"launches {faster:.2f} ms on the rank that computes faster, {slower:.2f} ms on the slower one",
            f"{used:.2f} cores used by one process",
        ]
    )


def sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equation", choices=("acoustic", "elastic", "heat"), default="acoustic")
    parser.add_argument("--shape", default="160x160x320")
    parser.add_argument("--cuts", default="2x1x1")
    parser.add_argument("--between", type=int, default=0, help="steps between exchanges; 0: as chosen")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--gradient", action="store_true", help="time gradients by 4 slots")
    parser.add_argument("--weak", action="store_true", help="one process has one thread and the grid of one box")
    parser.add_argument("--alone", action="store_true", help="one rank without others, by the time of the processor")
    parser.add_argument("--role", choices=("one", "ranks", "apart"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        obey(options)
    elif options.alone:
        shape, cuts = sizes(options.shape), sizes(options.cuts)
        mpi._known[:] = [Alone()]
        whole = Measured(options, shape, (1,) * len(shape), 1)
        mpi._known[:] = [Unheard(math.prod(cuts))]
        rank = Measured(options, shape, cuts, 1)
        turns = [(whole(), rank()) for _ in range(options.turns)]
        share, alone = ([turn[which]["processor"] for turn in turns] for which in (0, 1))
        share = [each / math.prod(cuts) for each in share]
        exchange = statistics.median(turn[1]["exchange"] for turn in turns)
        sys.stdout.write(
            f"{options.equation} {options.shape} in {options.cuts}, ms of the processor a step: {statistics.median(alone):.1f} of rank 0 "
            f"alone, of which exchanges {exchange:.2f} by the clock; {statistics.median(share):.1f} of one process of one thread over "
            f"the boxes; ratio of medians {statistics.median(alone) / statistics.median(share):.3f}, of the least "
            f"{min(alone) / min(share):.3f}\n"
        )
    else:
        sys.stdout.write(report(options, take_turns(options)) + "\n")


if __name__ == "__main__":
    main()
