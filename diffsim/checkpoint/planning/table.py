"""A plan as text: its measurements, the choice, and the alternatives."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from diffsim.base.arguments import plural
from diffsim.checkpoint.planning.costs import Costs, Sizes
from diffsim.checkpoint.planning.memory import grouped, memory_text
from diffsim.checkpoint.planning.option import Measured, Option
from diffsim.checkpoint.schedule import AnySchedule
from diffsim.checkpoint.schedules.mixed import Mixed
from diffsim.checkpoint.schedules.partly_recorded import PartlyRecorded
from diffsim.checkpoint.schedules.store_all import StoreAll

WIDTH = 80
"""Characters in a line, the smallest usual width of a terminal."""


def plan_text(steps: int, limit: str, options: Sequence[Option], sizes: Sizes, costs: Costs | None) -> str:
    """A plan as text. The first option is the chosen one."""
    on_disk = any(option.disk for option in options)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("what is kept", ratio=1)
    for name in ("memory", *(("disk",) if on_disk else ()), "forward runs", *(("time",) if costs is not None else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for option in options:
        cells = {"disk": memory_text(option.disk) if option.disk else "-"} if on_disk else {}
        table.add_row(
            ">" if option is options[0] else "" if option.fits else "+",
            name_of(option.schedule),
            memory_text(option.peak),
            *cells.values(),
            f"{option.forward / steps:.2f}",
            *(() if option.seconds is None else (seconds_text(option.seconds),)),
        )
    head = f"Gradient of {grouped(steps)} steps, {limit}"
    return "\n".join([head, "", _rendered(table), "", *_key(options, on_disk), "", *_parts(sizes, costs)])


def comparison_text(predicted: Option, measured: Measured, memory_ratio: float, time_ratio: float | None) -> str:
    """A table of predicted and measured figures, with the ratios of measured to predicted."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("predicted", "measured", "difference"):
        table.add_column(name, justify="right")
    table.add_row("memory of a gradient, at its most", memory_text(predicted.peak), memory_text(measured.peak), _apart(memory_ratio))
    if predicted.seconds is not None and time_ratio is not None:
        table.add_row("time of a gradient", seconds_text(predicted.seconds), seconds_text(measured.seconds), _apart(time_ratio))
    if measured.first is not None:
        table.add_row("time of the first, compiling included", "-", seconds_text(measured.first), "-")
    return _rendered(table)


def name_of(schedule: AnySchedule) -> str:
    """A schedule in a few words."""
    states = plural(schedule.slots, "state")
    slower = [f"{tier.slots} {'in the host memory' if tier.name == 'host' else 'on disk'}" for tier in schedule.slow_tiers]
    where = ", ".join([f"{states} in memory", *slower]) if slower else states
    if isinstance(schedule, StoreAll):
        return "every step (store all)"
    if isinstance(schedule, (Mixed, PartlyRecorded)):
        return f"{states} and {plural(schedule.recorded, 'recorded step')} ({_spaced(type(schedule).__name__)})"
    return f"{where} ({_spaced(type(schedule).__name__)})"


def seconds_text(seconds: float) -> str:
    """A time with its unit, to three figures."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= (2 * size if size > 1 else size):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _key(options: Sequence[Option], on_disk: bool) -> list[str]:
    """The meaning of the marks and the columns."""
    rows = [(">", "is taken")]
    if any(not option.fits for option in options):
        rows.append(("+", "needs more memory than it may have"))
    hosted = any(tier.name == "host" for option in options for tier in option.schedule.slow_tiers)
    rows.append(("memory", "peak of all that the gradient allocates" + ("; on the host, too" if hosted else "")))
    if on_disk:
        rows.append(("disk", "the file of states"))
    rows.append(("forward runs", "how often each step is run forward, on average"))
    if options[0].seconds is not None:
        rows.append(("time", "of the whole gradient with compiled kernels; predicted"))
    return _columns(rows)


def _parts(sizes: Sizes, costs: Costs | None) -> list[str]:
    """Bytes and seconds of the parts of the options."""
    streams = f", {memory_text(sizes.streams)} of it traces and amplitudes" if sizes.streams else ""
    residuals = memory_text(sizes.record) if sizes.record else "nothing: its adjoint needs no values of the run"
    rows = [
        ("a state", f"{memory_text(sizes.state)}; steps can be run again from it"),
        ("residuals of a step", residuals if not sizes.record else f"{residuals}; its adjoint can be run from them"),
        ("always needed", f"{memory_text(sizes.fixed)} by every schedule{streams}"),
    ]
    if sizes.strips:
        rows.append(("damped cells", f"{memory_text(sizes.strips)}, kept of all steps if they are run backwards"))
    if costs is None:
        return ["Counted, times were not measured:", *_columns(rows)]
    rows += [
        ("a step forward", f"{seconds_text(costs.advance)}, or {seconds_text(costs.record)} with its residuals kept"),
        ("adjoint of a step", f"{seconds_text(costs.reverse)}, or {seconds_text(costs.reverse_recorded)} from its residuals"),
    ]
    if costs.undo is not None:
        rows.append(("a step backwards", seconds_text(costs.undo)))
    if costs.call:
        rows.append(("a start", f"{seconds_text(costs.call)} more, whenever a run of steps or an adjoint begins"))
    for name, place in (("disk", "a state on disk"), ("host", "a state on the host")):
        write, read = getattr(costs, f"{name}_write"), getattr(costs, f"{name}_read")
        if write or read:
            rows.append((place, f"{seconds_text(write)} to write, {seconds_text(read)} to read"))
    return ["Counted and measured:", *_columns(rows)]


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name:{width}}  {text}" for name, text in rows]


def _apart(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"


def _spaced(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _rendered(table: Table) -> str:
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False, markup=False, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines())
