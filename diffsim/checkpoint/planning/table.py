"""A plan as text: what it measured, what it chose, and what else there is."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from diffsim.checkpoint.planning.memory import memory_text
from diffsim.checkpoint.schedule import OnlineSchedule, Schedule, tiers_of
from diffsim.checkpoint.schedules.mixed import Mixed
from diffsim.checkpoint.schedules.online import Online
from diffsim.checkpoint.schedules.reversible import Reversible
from diffsim.checkpoint.schedules.store_all import StoreAll

if TYPE_CHECKING:
    from diffsim.checkpoint.planning.plan import Comparison, Option, Plan

WIDTH = 112


def plan_text(plan: Plan) -> str:
    """The plan as a head, a table and a legend."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("what is kept")
    for name in ("memory", "disk", "forward steps", "time"):
        table.add_column(name, justify="right")
    table.add_column("")
    for option in (plan.chosen, *sorted(plan.others, key=lambda o: (not o.fits, o.rank))):
        table.add_row(*_row(plan, option))
    limit = "no limit on memory" if plan.budget is None else f"at most {memory_text(plan.budget)} of memory"
    head = f"Gradient of {plan.steps} steps, {limit}"
    lines = [head, _sizes_line(plan), *_cost_lines(plan), "", _rendered(table).rstrip()]
    return "\n".join(lines)


def comparison_text(comparison: Comparison) -> str:
    """A prediction beside what happened, a row each."""
    table = Table("", "predicted", "measured", "", box=None, pad_edge=False)
    predicted, happened, ratio = comparison.predicted, comparison.happened, comparison.time_ratio
    table.add_row("peak memory", memory_text(predicted.peak), memory_text(happened.peak), _apart(comparison.memory_ratio))
    if predicted.seconds is not None and ratio is not None:
        table.add_row("time of a gradient", seconds_text(predicted.seconds), seconds_text(happened.seconds), _apart(ratio))
    if happened.first is not None:
        table.add_row("the first, which compiles", "", seconds_text(happened.first), "")
    return _rendered(table).rstrip()


def name_of(schedule: Schedule | OnlineSchedule) -> str:
    """A schedule in a few words."""
    states = "1 state" if schedule.slots == 1 else f"{schedule.slots} states"
    slower = [f"{tier.slots} {'in the host memory' if tier.name == 'host' else 'on disk'}" for tier in tiers_of(schedule)[1:]]
    where = ", ".join([f"{states} in memory", *slower]) if slower else states
    if isinstance(schedule, StoreAll):
        return "every step (store all)"
    if isinstance(schedule, Mixed):
        return f"{states} and {schedule.recorded} recorded steps (mixed)"
    kind = {Online: "online", Reversible: "reversible"}.get(type(schedule), _spaced(type(schedule).__name__))
    return f"{where} ({kind})"


def seconds_text(seconds: float) -> str:
    """A time with its unit, to three figures."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= (2 * size if size > 1 else size):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _row(plan: Plan, option: Option) -> tuple[str, ...]:
    return (
        ">" if option is plan.chosen else "",
        name_of(option.schedule),
        memory_text(option.peak),
        memory_text(option.disk) if option.disk else "",
        f"{option.forward / plan.steps:.2f} x",
        "" if option.seconds is None else seconds_text(option.seconds),
        "" if option.fits else "more memory",
    )


def _sizes_line(plan: Plan) -> str:
    sizes = plan.sizes
    return (
        f"a state {memory_text(sizes.state)}, the record of a step {memory_text(sizes.record)}; whatever is kept, "
        f"{memory_text(sizes.fixed)}, of which traces and amplitudes {memory_text(sizes.streams)}"
    )


def _cost_lines(plan: Plan) -> list[str]:
    costs = plan.costs
    if costs is None:
        return ["times were not measured"]
    parts = [
        f"a step {seconds_text(costs.advance)}, recorded {seconds_text(costs.record)}",
        f"its adjoint {seconds_text(costs.reverse)}, from a record {seconds_text(costs.reverse_recorded)}",
    ]
    if costs.call:
        parts.append(f"{seconds_text(costs.call)} for each start")
    lines = ["; ".join(parts)]
    for name in ("disk", "host"):
        write, read = getattr(costs, f"{name}_write"), getattr(costs, f"{name}_read")
        if write or read:
            place = "to disk" if name == "disk" else "to the host"
            lines.append(f"a state {place} {seconds_text(write)}, back {seconds_text(read)}")
    return lines


def _apart(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"


def _spaced(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _rendered(table: Table) -> str:
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False, markup=False, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
