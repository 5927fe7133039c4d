"""A plan as text: what it measured, what it chose, and what else there is."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from diffsim.checkpoint.planning.memory import grouped, memory_text
from diffsim.checkpoint.schedule import OnlineSchedule, Schedule, tiers_of
from diffsim.checkpoint.schedules.mixed import Mixed
from diffsim.checkpoint.schedules.online import Online
from diffsim.checkpoint.schedules.reversible import Reversible
from diffsim.checkpoint.schedules.store_all import StoreAll

if TYPE_CHECKING:
    from diffsim.checkpoint.planning.plan import Comparison, Plan

WIDTH = 80
"""Letters of a line: what a terminal shows at least."""


def plan_text(plan: Plan) -> str:
    """The ways there are, the one that is taken first, and what they are made of."""
    options = (plan.chosen, *sorted(plan.others, key=lambda o: (not o.fits, o.rank)))
    timed, on_disk = plan.costs is not None, any(option.disk for option in options)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("what is kept", ratio=1)
    for name in ("memory", *(("disk",) if on_disk else ()), "forward runs", *(("time",) if timed else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for option in options:
        cells = {"disk": memory_text(option.disk) if option.disk else "-"} if on_disk else {}
        table.add_row(
            ">" if option is plan.chosen else "" if option.fits else "+",
            name_of(option.schedule),
            memory_text(option.peak),
            *cells.values(),
            f"{option.forward / plan.steps:.2f}",
            *(() if option.seconds is None else (seconds_text(option.seconds),)),
        )
    head = f"Gradient of {grouped(plan.steps)} steps, {_limit(plan)}"
    return "\n".join([head, "", _rendered(table), "", *_key(plan, on_disk), "", *_parts(plan)])


def comparison_text(comparison: Comparison) -> str:
    """A prediction beside what was measured, a row each."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("predicted", "measured", "difference"):
        table.add_column(name, justify="right")
    predicted, measured, ratio = comparison.predicted, comparison.measured, comparison.time_ratio
    table.add_row(
        "memory of a gradient, at its most", memory_text(predicted.peak), memory_text(measured.peak), _apart(comparison.memory_ratio)
    )
    if predicted.seconds is not None and ratio is not None:
        table.add_row("time of a gradient", seconds_text(predicted.seconds), seconds_text(measured.seconds), _apart(ratio))
    if measured.first is not None:
        table.add_row("time of the first, compiling included", "-", seconds_text(measured.first), "-")
    return _rendered(table)


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


def _limit(plan: Plan) -> str:
    """What was asked for."""
    if plan.budget is not None:
        return f"at most {memory_text(plan.budget)} of memory"
    slots = plan.policy.slots
    return "by the schedule that was given" if slots is None else f"at most {slots} state{'' if slots == 1 else 's'} in memory"


def _key(plan: Plan, on_disk: bool) -> list[str]:
    """What the marks and the columns mean."""
    rows = [(">", "is taken")]
    if any(not option.fits for option in plan.others):
        rows.append(("+", "needs more memory than it may have"))
    hosted = any(tier.name == "host" for option in (plan.chosen, *plan.others) for tier in tiers_of(option.schedule))
    rows.append(("memory", "all that the gradient allocates, at its most" + ("; on the host, too" if hosted else "")))
    if on_disk:
        rows.append(("disk", "the file of states"))
    rows.append(("forward runs", "how often each step is run forward, on the mean"))
    if plan.costs is not None:
        rows.append(("time", "of the whole gradient, once kernels are compiled; predicted"))
    return _columns(rows)


def _parts(plan: Plan) -> list[str]:
    """Bytes and seconds that the options are made of."""
    sizes, costs = plan.sizes, plan.costs
    streams = f", {memory_text(sizes.streams)} of it traces and amplitudes" if sizes.streams else ""
    record = memory_text(sizes.record) if sizes.record else "nothing: its adjoint needs no values of the run"
    rows = [
        ("a state", f"{memory_text(sizes.state)}; steps can be run again from it"),
        ("record of a step", record if not sizes.record else f"{record}; its adjoint can be run from it"),
        ("needed anyway", f"{memory_text(sizes.fixed)}, whatever is kept{streams}"),
    ]
    if sizes.strips:
        rows.append(("damped cells", f"{memory_text(sizes.strips)}, kept of all steps if they are run backwards"))
    if costs is None:
        return ["Counted, times were not measured:", *_columns(rows)]
    rows += [
        ("a step forward", f"{seconds_text(costs.advance)}, or {seconds_text(costs.record)} with its record"),
        ("adjoint of a step", f"{seconds_text(costs.reverse)}, or {seconds_text(costs.reverse_recorded)} from its record"),
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
