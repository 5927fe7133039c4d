"""Draw a schedule: the step in progress and the stored states, over the work done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from os import PathLike

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from diffsim.checkpoint.actions import Action, Advance, Free, Keep, Record, Reverse, Save, Undo
from diffsim.checkpoint.clock import REVERSE_WEIGHT
from diffsim.checkpoint.planning.costs import Costs
from diffsim.checkpoint.planning.memory import grouped, memory_text
from diffsim.checkpoint.planning.table import name_of, seconds_text
from diffsim.checkpoint.schedule import AnySchedule

SIZE, DPI = (10.0, 5.8), 150
FORWARD, RECORDED, REVERSED, UNDONE = "#0072b2", "#56b4e9", "#d55e00", "#cc79a7"
KEPT = {"device": "#8c8c8c", "host": "#009e73", "disk": "#e6a700"}
ACROSS, UP = 1200, 640
"""Resolution along the axes. Smaller parts are drawn together."""
LEAST = 4
"""The smallest visible size, in units of the resolution."""
WIDEST = 4.0
"""The largest width of an adjoint step, or a step backwards, in steps forward. Otherwise the forward run would be invisible."""
LABELS = {"device": "state kept in memory", "host": "state kept in the host's memory", "disk": "state kept on disk"}
WORK = {
    FORWARD: "steps run forward",
    RECORDED: "steps run forward and recorded",
    UNDONE: "steps run backwards",
    REVERSED: "adjoint of the steps",
}
"""Meaning of the lines, in drawing order: later ones cover earlier ones."""
WIDTHS = {UNDONE: 4.5}
"""Line widths in points; others have 1.2. The adjoint is so close to the steps backwards that it would hide a line of its own width."""

Segment = list[tuple[float, float]]


@dataclass
class _Drawing:
    """A schedule as lines, by kind, and areas. Parts too small to see are joined to the part before them.

    Attributes:
        across: work that is too small to see.
        up: the number of steps that is too small to see.
    """

    across: float
    up: float
    lines: dict[str, list[Segment]] = field(default_factory=dict)
    bars: dict[str, list[Segment]] = field(default_factory=dict)
    residuals: list[Segment] = field(default_factory=list)
    end: float = 0.0
    last: float = 0.0  # work done at the final state
    _slopes: dict[str, tuple[float, float]] = field(default_factory=dict)  # allowed slopes of the newest line of a colour

    def line(self, colour: str, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw work on a row of steps. Consecutive rows become one line, which misses their ends by at most `up`."""
        segments = self.lines.setdefault(colour, [])
        (x0, y0), (x1, y1) = segments[-1] if segments else (begin, begin)
        if not segments or begin[0] - x1 > self.across or abs(begin[1] - y1) > self.up:
            x0, y0, low, high = *begin, -inf, inf
        else:
            low, high = self._slopes[colour]
            if not low <= (end[1] - y0) / (end[0] - x0) <= high:
                x0, y0, low, high = *begin, -inf, inf
            else:
                segments.pop()
        width, rise = end[0] - x0, end[1] - y0
        if width > self.across or abs(rise) > self.up:
            low, high = max(low, (rise - self.up) / width), min(high, (rise + self.up) / width)
        self._slopes[colour] = low, high
        segments.append([(x0, y0), end])

    def bar(self, tier: str, step: int, begin: float, end: float) -> None:
        """Draw a stored state."""
        segments = self.bars.setdefault(tier, [])
        if (
            end - begin >= self.across
            or not segments
            or begin - segments[-1][1][0] > self.across
            or abs(step - segments[-1][0][1]) > self.up
        ):
            segments.append([(begin, step), (end, step)])


@dataclass(frozen=True)
class _Weights:
    """The width of work in the picture, in steps forward.

    Attributes:
        reverse: the adjoint of a step.
        undo: a step backwards.
        words: the measured costs of both, as text.
    """

    reverse: float
    undo: float
    words: str

    @classmethod
    def of(cls, schedule: AnySchedule, costs: Costs | None) -> _Weights:
        """Use the measured costs, limited so that they do not hide the rest."""
        reverse, undo = REVERSE_WEIGHT, 1.0
        if costs is not None:
            reverse = (costs.reverse_recorded if schedule.recorded > 1 else costs.reverse) / costs.advance
            undo = 1.0 if costs.undo is None else costs.undo / costs.advance
        parts = [(f"the adjoint of a step {'counts' if costs is None else 'takes as long'} as", reverse)]
        if schedule.undone:
            parts.append(("a step backwards as", undo))
        words = ", ".join(f"{what} {weight:.2g}" + (f", drawn as {WIDEST:g}" if weight > WIDEST else "") for what, weight in parts)
        return cls(min(reverse, WIDEST), min(undo, WIDEST), words)


def draw(
    schedule: AnySchedule,
    steps: int,
    path: str | PathLike[str],
    costs: Costs | None = None,
    memory: int | None = None,
    disk: int = 0,
) -> None:
    """Write a picture, in the format of the path's suffix.

    Args:
        schedule: the schedule to draw.
        steps: time steps.
        path: file of the picture.
        costs: weights of the work; None: the adjoint of a step counts as three steps forward.
        memory: bytes of a gradient by the schedule; None: unknown.
        disk: bytes on disk.
    """
    figure = figure_of(schedule, steps, costs, memory, disk)
    figure.savefig(path, dpi=DPI)


def figure_of(schedule: AnySchedule, steps: int, costs: Costs | None = None, memory: int | None = None, disk: int = 0) -> Figure:
    """The picture, as a figure of Matplotlib; see `draw`."""
    weights = _Weights.of(schedule, costs)
    drawing = _drawn(schedule, steps, weights)
    figure = Figure(SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    handles = _paint(axes, drawing, tiers=[tier.name for tier in schedule.all_tiers])
    axes.axvline(drawing.last, color="#1a1a1a", linewidth=1.0, linestyle=":", zorder=4)  # over lines that run along it
    left = drawing.last < 0.8 * drawing.end
    axes.text(drawing.last, steps * 1.03, " final state: the loss is evaluated ", ha="left" if left else "right")
    unit = "" if costs is None else f" of {seconds_text(costs.advance)}"
    axes.set(
        xlim=(0, drawing.end),
        ylim=(-0.02 * steps, 1.09 * steps),  # the first state is seen above the axis
        xlabel=f"work done, in steps forward{unit} ({weights.words})",
        ylabel="time step of the run",
    )
    for axis, end in ((axes.xaxis, drawing.end), (axes.yaxis, float(steps))):
        ticks = MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]).tick_values(0.0, end)
        axis.set_ticks([tick for tick in ticks if 0 <= tick <= end])
        axis.set_major_formatter(FuncFormatter(lambda value, _: grouped(round(value))))
    axes.set_title(_title(schedule, steps, costs, memory, disk), fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    length = sum(len(str(handle.get_label())) + 8 for handle in handles)  # in characters
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles) if length < 150 else 3, frameon=False, fontsize=9)
    return figure


def _title(schedule: AnySchedule, steps: int, costs: Costs | None, memory: int | None, disk: int) -> str:
    """The name of the schedule, and below it the cost."""
    runs = f"{schedule.forward_of(steps) / steps:.3g}"
    takes = [f"{runs} forward run{'' if runs == '1' else 's'}{', one backwards' if schedule.undone else ''} and one adjoint"]
    if memory is not None:
        takes.append(f"{memory_text(memory)} of memory")
    if disk:
        takes.append(f"{memory_text(disk)} on disk")
    if costs is not None:
        takes.append(f"{seconds_text(costs.seconds(schedule, steps))} predicted")
    return f"Gradient of {grouped(steps)} steps, keeping {name_of(schedule)}\n{', '.join(takes)}"


def _paint(axes: Axes, drawing: _Drawing, tiers: list[str]) -> list[Line2D | Patch]:
    """Draw areas, bars and lines, and return the entries of the legend."""
    kept: list[Line2D | Patch] = []
    if drawing.residuals:
        axes.add_collection(PolyCollection([list(area) for area in drawing.residuals], facecolors=RECORDED, alpha=0.25, linewidths=0))
        kept.append(Patch(facecolor=RECORDED, alpha=0.25, label="residuals kept"))
    for tier in tiers:
        bars = drawing.bars.get(tier)
        if bars:
            width = min(max(120 / len(bars), 0.35), 1.6)
            axes.add_collection(LineCollection(bars, colors=KEPT.get(tier, "#8c8c8c"), linewidths=width))
            seen = max(end - begin for (begin, _), (end, _) in bars) > LEAST * drawing.across
            label = LABELS.get(tier, f"state kept in {tier}") + ("" if seen else " (too briefly to be seen)")
            kept.append(Line2D([], [], color=KEPT.get(tier, "#8c8c8c"), linewidth=1.6, label=label))
    done: list[Line2D | Patch] = []
    for colour, label in WORK.items():
        lines = drawing.lines.get(colour)
        if lines:
            width = WIDTHS.get(colour, 1.2)
            axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, capstyle="butt" if width > 2 else "round"))
            done.append(Line2D([], [], color=colour, linewidth=max(width, 1.6), label=label))
    return done + kept


def _drawn(schedule: AnySchedule, steps: int, weights: _Weights) -> _Drawing:
    total = schedule.forward_of(steps) + weights.reverse * steps + weights.undo * schedule.undone
    drawing = _Drawing(total / ACROSS, steps / UP)
    tells = schedule.recorded > max(1.0, LEAST * drawing.up)  # a single recorded step is the last one
    names = [tier.name for tier in schedule.all_tiers]
    kept: dict[tuple[int, int], tuple[int, float]] = {}
    held: list[tuple[int, int, float, float]] = []
    runs: list[tuple[int, int, float]] = []
    work = 0.0
    for action in _actions(schedule, steps):
        begin = work
        match action:
            case Advance(start, stop) | Record(start, stop) | Keep(start, stop):
                stop = min(stop, steps)
                work += stop - start
                recorded = isinstance(action, Record) and tells
                drawing.line(RECORDED if recorded else FORWARD, (begin, start), (work, stop))
                if recorded:
                    held.append((start, stop, begin, work))
                if isinstance(action, Keep):
                    runs.append((start, stop, begin))
                drawing.last = work if stop == steps else drawing.last
            case Undo(start, stop):
                work += weights.undo * (stop - start)
                drawing.line(UNDONE, (begin, stop), (work, start))
            case Reverse(start, stop):
                work += weights.reverse * (stop - start)
                drawing.line(REVERSED, (begin, stop), (work, start))
                if held and held[-1][:2] == (start, stop):
                    *_, x0, x1 = held.pop()
                    if stop - start > drawing.up:
                        drawing.residuals.append([(x0, start), (x1, stop), (begin, stop), (work, start)])
                elif runs and runs[-1][0] == start:
                    _, end, since = runs.pop()
                    for step in range(start, end):
                        drawing.bar(names[0], step, since + step - start, work - weights.reverse * (step + 1 - start))
            case Save(step, slot, tier):
                kept[tier, slot] = step, work
            case Free(slot, tier):
                step, since = kept.pop((tier, slot))
                drawing.bar(names[tier], step, since, work)
    for (tier, _), (step, since) in kept.items():
        drawing.bar(names[tier], step, since, work)
    drawing.end = work
    return drawing


def _actions(schedule: AnySchedule, steps: int) -> Iterator[Action]:
    """The actions of a run that ends after `steps` steps."""
    reached = 0

    def ended() -> int | None:
        return steps if reached >= steps else None

    for action in schedule.actions_until(ended):
        if isinstance(action, Advance):
            reached = max(reached, action.stop)
        yield action
