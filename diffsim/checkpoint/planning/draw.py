"""The picture of a schedule: which step is worked on, and which states are kept, as the work goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from diffsim.checkpoint.actions import Action, Advance, Free, Record, Reverse, Save, Undo
from diffsim.checkpoint.clock import REVERSE_WEIGHT
from diffsim.checkpoint.planning.costs import Costs, forward_steps
from diffsim.checkpoint.planning.table import name_of
from diffsim.checkpoint.schedule import OnlineSchedule, Schedule, tiers_of

SIZE, DPI = (10.0, 5.5), 150
FORWARD, RECORDED, REVERSED, UNDONE = "#0072b2", "#56b4e9", "#d55e00", "#cc79a7"
KEPT = {"device": "#8c8c8c", "host": "#009e73", "disk": "#e6a700"}
ACROSS, UP = 1200, 640
"""Places along the axes that can be told apart; what is smaller is drawn together."""
LABELS = {"device": "state in memory", "host": "state in the host's memory", "disk": "state on disk"}

Segment = list[tuple[float, float]]


@dataclass
class _Drawing:
    """A schedule as lines, by kind, and areas; parts too small to see are joined to what was drawn just before.

    Attributes:
        across: work that is too little to see.
        up: steps that are too few to see.
    """

    across: float
    up: float
    lines: dict[str, list[Segment]] = field(default_factory=dict)
    bars: dict[str, list[Segment]] = field(default_factory=dict)
    records: list[Segment] = field(default_factory=list)
    end: float = 0.0
    last: float = 0.0  # work when the final state was reached

    def line(self, colour: str, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Work on a row of steps."""
        found = self.lines.setdefault(colour, [])
        if found and begin[0] - found[-1][1][0] <= self.across and abs(begin[1] - found[-1][1][1]) <= self.up:
            (x0, y0), (x1, y1) = found[-1]
            small = end[0] - x0 <= self.across and abs(end[1] - y0) <= self.up
            straight = abs((y1 - y0) * (end[0] - x0) - (end[1] - y0) * (x1 - x0)) <= self.up * max(x1 - x0, self.across)
            if small or straight:
                found[-1] = [(x0, y0), end]
                return
        found.append([begin, end])

    def bar(self, tier: str, step: int, begin: float, end: float) -> None:
        """A state that was kept."""
        found = self.bars.setdefault(tier, [])
        if end - begin >= self.across or not found or begin - found[-1][1][0] > self.across or abs(step - found[-1][0][1]) > self.up:
            found.append([(begin, step), (end, step)])


def draw(schedule: Schedule | OnlineSchedule, steps: int, path: str | PathLike[str], costs: Costs | None = None) -> None:
    """Write a picture, in the format that the path's ending names.

    Args:
        schedule: what is drawn.
        steps: of the run.
        path: of the picture.
        costs: what the work is weighed by; None: a reversed step as three forward ones.
    """
    figure = figure_of(schedule, steps, costs)
    figure.savefig(path, dpi=DPI)


def figure_of(schedule: Schedule | OnlineSchedule, steps: int, costs: Costs | None = None) -> Figure:
    """The picture, as a figure of Matplotlib."""
    drawing = _drawn(schedule, steps, costs)
    figure = Figure(SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    handles = _paint(axes, drawing, tiers=[tier.name for tier in tiers_of(schedule)])
    axes.axvline(drawing.last, color="#1a1a1a", linewidth=0.8, linestyle=":")
    axes.text(drawing.last, steps * 1.015, " final state, loss", fontsize=9, ha="left" if drawing.last < 0.8 * drawing.end else "right")
    axes.set(xlim=(0, drawing.end), ylim=(0, steps * 1.06), xlabel="work done, in steps forward", ylabel="time step")
    axes.set_title(f"{name_of(schedule)}: {forward_steps(schedule, steps) / steps:.2f} forward runs for {steps} steps", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return figure


def _paint(axes: Axes, drawing: _Drawing, tiers: list[str]) -> list[Line2D]:
    """Areas, bars and lines, and what the legend says of them."""
    handles = []
    if drawing.records:
        axes.add_collection(PolyCollection([list(area) for area in drawing.records], facecolors=RECORDED, alpha=0.25, linewidths=0))
    for tier in tiers:
        bars = drawing.bars.get(tier)
        if bars:
            width = min(max(120 / len(bars), 0.35), 1.6)
            axes.add_collection(LineCollection(bars, colors=KEPT.get(tier, "#8c8c8c"), linewidths=width))
            handles.append(Line2D([], [], color=KEPT.get(tier, "#8c8c8c"), linewidth=1.6, label=LABELS.get(tier, f"state in {tier}")))
    for colour, label in ((FORWARD, "forward"), (RECORDED, "forward, recorded"), (UNDONE, "backwards"), (REVERSED, "adjoint")):
        lines = drawing.lines.get(colour)
        if lines:
            axes.add_collection(LineCollection(lines, colors=colour, linewidths=1.1, capstyle="round"))
            handles.append(Line2D([], [], color=colour, linewidth=1.6, label=label))
    return handles


def _drawn(schedule: Schedule | OnlineSchedule, steps: int, costs: Costs | None) -> _Drawing:
    weight = REVERSE_WEIGHT if costs is None else costs.reverse / costs.advance
    total = forward_steps(schedule, steps) + weight * steps + float(getattr(schedule, "undone", 0))
    drawing = _Drawing(total / ACROSS, steps / UP)
    names = [tier.name for tier in tiers_of(schedule)]
    kept: dict[tuple[int, int], tuple[int, float]] = {}
    records: list[tuple[int, int, float, float]] = []
    work = 0.0
    for action in _actions(schedule, steps):
        begin = work
        match action:
            case Advance(start, stop) | Record(start, stop):
                stop = min(stop, steps)
                work += stop - start
                recorded = isinstance(action, Record)
                drawing.line(RECORDED if recorded else FORWARD, (begin, start), (work, stop))
                if recorded:
                    records.append((start, stop, begin, work))
                drawing.last = work if stop == steps else drawing.last
            case Undo(start, stop):
                work += stop - start
                drawing.line(UNDONE, (begin, stop), (work, start))
            case Reverse(start, stop):
                work += weight * (stop - start)
                drawing.line(REVERSED, (begin, stop), (work, start))
                if records and records[-1][:2] == (start, stop):
                    *_, x0, x1 = records.pop()
                    if stop - start > drawing.up:
                        drawing.records.append([(x0, start), (x1, stop), (begin, stop), (work, start)])
            case Save(step, slot, tier):
                kept[tier, slot] = step, work
            case Free(slot, tier):
                step, since = kept.pop((tier, slot))
                drawing.bar(names[tier], step, since, work)
    for (tier, _), (step, since) in kept.items():
        drawing.bar(names[tier], step, since, work)
    drawing.end = work
    return drawing


def _actions(schedule: Schedule | OnlineSchedule, steps: int) -> Iterator[Action]:
    """The actions, of a run that ends after so many steps."""
    if not isinstance(schedule, OnlineSchedule):
        yield from schedule.actions()
        return
    reached = 0

    def ended() -> int | None:
        return steps if reached >= steps else None

    for action in schedule.online_actions(ended):
        if isinstance(action, Advance):
            reached = max(reached, action.stop)
        yield action
