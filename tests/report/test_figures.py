"""Contents of the figures: scales, limits, grey cells, places, and units."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from diffsim.plot import gathers, style, units
from diffsim.plot.chart import Chart, place_name, spread
from diffsim.report import crosstalk, instants, maps, setting, tables, traces
from diffsim.report import values as report_values
from diffsim.report.contents import chart_of
from diffsim.report.page import render
from diffsim.scene.disk.fit import Fit
from diffsim.scene.disk.outcome import Outcome

from . import outcomes


def unknown(outcome: Outcome) -> Figure:
    (name, field), *_ = outcome.unknowns.items()
    return maps.unknown(name, field, chart_of(outcome)).figure


def titled(figure: Figure) -> dict[str, Axes]:
    return {ax.get_title(loc="left"): ax for ax in figure.axes if ax.get_title(loc="left")}


@pytest.mark.parametrize("make", [outcomes.coast, outcomes.crosswell, outcomes.image])
def test_truth_start_and_answer_share_their_colours(make) -> None:
    limits = {title: ax.images[0].get_clim() for title, ax in titled(unknown(make())).items()}
    assert limits["truth"] == limits["start"] == limits["answer"]
    assert limits["answer - truth"][0] == -limits["answer - truth"][1]


def test_truth_start_and_answer_share_their_axis_in_1d() -> None:
    limits = {title: ax.get_ylim() for title, ax in titled(unknown(outcomes.line())).items()}
    assert limits["truth"] == limits["start"] == limits["answer"] != limits["answer - truth"]


def test_values_are_drawn_where_they_lie() -> None:
    outcome = outcomes.coast()
    ax = titled(unknown(outcome))["truth"]
    field, land = outcome.unknowns["eta0"], outcome.background["H"] <= 0
    drawn = ax.images[0].get_array()
    np.testing.assert_array_equal(drawn.mask, land)
    np.testing.assert_array_equal(drawn.data[~land], field.truth[~land])
    half = (4 / 29) / 2
    assert ax.images[0].get_extent()[:2] == pytest.approx([234 - half, 238 + half])
    assert ax.images[0].origin == "lower"


def test_histories_are_lines_beside_their_truth() -> None:
    """In seconds or milliseconds, where values may not change on grey."""
    field = outcomes.driven().unknowns["lamp"]
    (ax,) = report_values.unknown("lamp", field).figure.axes
    drawn = {line.get_label(): line.get_xydata() for line in ax.lines}
    for name in ("truth", "start", "answer"):
        np.testing.assert_allclose(drawn[name], np.column_stack([1e3 * field.axes[0].coordinates, getattr(field, name)]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (ms)", "lamp (K/m)")
    (grey,) = ax.collections
    assert grey.get_paths()[0].get_extents().xmax == pytest.approx(0.5 * (200 + 250))
    first, last = report_values.gradient("lamp", field, 7).figure.axes
    factor = float(field.gradient_first[20]) / first.lines[0].get_ydata()[20]
    np.testing.assert_allclose(first.lines[0].get_ydata() * factor, field.gradient_first)
    assert np.abs(last.lines[0].get_ydata()).max() > 0.1


def test_numbers_are_points_and_values_over_two_axes_are_maps() -> None:
    unknowns = outcomes.driven().unknowns
    (ax,) = report_values.unknown("held", unknowns["held"]).figure.axes
    assert [float(line.get_xdata()[0]) for line in ax.lines] == [
        float(getattr(unknowns["held"], n)[0]) for n in ("truth", "start", "answer")
    ]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["truth", "start", "answer"]
    shown = titled(report_values.unknown("air", unknowns["air"]).figure)["truth"]
    np.testing.assert_array_equal(shown.images[0].get_array(), unknowns["air"].truth)
    assert shown.get_ylabel() == "time (ms)"
    assert shown.yaxis_inverted()


@pytest.mark.parametrize("make", [outcomes.coast, outcomes.image])
def test_gradients_are_grey_where_nothing_may_change_and_white_at_zero(make) -> None:
    outcome = make()
    (name, field), *_ = outcome.unknowns.items()
    land = outcome.background["H"] <= 0 if "H" in outcome.background else np.zeros(field.mask.shape, bool)
    figure = maps.gradient(name, field, chart_of(outcome), 7).figure
    shown = titled(figure)
    for title, values in (("at the start (iteration 0)", field.gradient_first), ("at the answer (iteration 7)", field.gradient_last)):
        image = shown[title].images[0]
        np.testing.assert_array_equal(image.get_array().mask, ~field.mask | land)
        low, high = image.get_clim()
        assert low == -high
        free = np.abs(values[field.mask & ~land])
        factor = high / np.quantile(free, maps.ROBUST)
        assert math.log10(factor) == pytest.approx(round(math.log10(factor)))  # a power of ten: the unit's
        assert image.cmap.get_bad() == pytest.approx(to_rgba(style.HIDDEN))
        assert min(image.cmap(0.5)[:3]) > 0.95


def test_one_huge_cell_does_not_blind_a_gradient() -> None:
    outcome = outcomes.crosswell()
    field = outcome.unknowns["c"]
    spiked = field.gradient_first.copy()
    spiked[0, 0] = 1e6
    figure = maps.gradient("c", replace(field, gradient_first=spiked), chart_of(outcome), 7).figure
    image = titled(figure)["at the start (iteration 0)"].images[0]
    assert np.mean(np.abs(image.get_array()) > 0.1 * image.get_clim()[1]) > 0.1


def test_a_gradient_of_zero_is_drawn() -> None:
    outcome = outcomes.crosswell()
    field = outcome.unknowns["c"]
    picture = maps.gradient("c", replace(field, gradient_last=0 * field.start), chart_of(outcome), 7)
    assert picture.png()
    assert "did not shrink" in picture.caption


def test_snapshots_share_their_colours_and_stand_above_each_other() -> None:
    outcome = outcomes.crosswell()
    picture = instants.snapshots("p", outcome.snapshots["p"], outcome, chart_of(outcome))
    shown = titled(picture.figure)
    assert list(shown) == [f"{which}, t = {k} ms" for which in ("start", "answer") for k in (50, 100, 150, 200)]
    assert len({ax.images[0].get_clim() for ax in shown.values()}) == 1
    for which in ("start", "answer"):
        for k, values in enumerate(getattr(outcome.snapshots["p"], which)):
            np.testing.assert_array_equal(shown[f"{which}, t = {50 * (k + 1)} ms"].images[0].get_array(), values)
    assert shown["start, t = 50 ms"].get_subplotspec().colspan == shown["answer, t = 50 ms"].get_subplotspec().colspan
    assert picture.caption.endswith("Shot 1 of 3 is shown.")


def test_snapshots_of_blocks_are_drawn_over_their_cells() -> None:
    outcome = outcomes.coast()
    picture = instants.snapshots("eta", outcome.snapshots["eta"], outcome, chart_of(outcome))
    ax = titled(picture.figure)["answer, t = 0.5 h"]
    drawn, land = ax.images[0].get_array(), outcome.background["H"] <= 0
    np.testing.assert_array_equal(drawn.mask, land)
    expected = np.array([[outcome.snapshots["eta"].answer[0, i // 7, j // 7] for j in range(30)] for i in range(24)])
    np.testing.assert_array_equal(drawn.data[~land], expected[~land])
    assert "a mean over 7 cells" in picture.caption


def test_snapshots_on_a_line_are_curves_of_both() -> None:
    outcome = outcomes.line()
    seen = outcome.snapshots["eta"]
    shown = titled(instants.snapshots("eta", seen, outcome, chart_of(outcome)).figure)
    assert len(shown) == len(seen.times) == 3
    for k, ax in enumerate(shown.values()):
        for line, film in zip(ax.lines, (seen.start, seen.answer), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), film[k][np.arange(400) // 3])
            assert line.get_xdata()[[0, -1]] == pytest.approx([0, 19.95])


def test_snapshots_in_three_dimensions_lie_on_a_plane() -> None:
    outcome = outcomes.block()
    picture = instants.snapshots("p", outcome.snapshots["p"], outcome, chart_of(outcome))
    *_, ax = titled(picture.figure).values()
    assert (ax.get_xlabel(), ax.images[0].get_array().shape) == ("x (m)", (8, 12))
    assert "the plane y = 40 m." in picture.caption


def test_flat_snapshots_stand_in_pairs() -> None:
    outcome = outcomes.crosswell()
    z, x = outcome.axes
    seen = replace(outcome.snapshots["p"], start=np.ones((4, 15, 30)), answer=np.zeros((4, 15, 30)))
    picture = instants.snapshots("p", seen, replace(outcome, axes=(replace(x, name="z"), replace(z, name="x"))), Chart.over((x, z)))
    assert list(titled(picture.figure))[:2] == ["start, t = 50 ms", "answer, t = 50 ms"]
    assert picture.caption.startswith("The field p at 4 instants of the run. Left: as the start predicts it; right:")


def test_degrees_are_as_long_as_they_are() -> None:
    (view,) = chart_of(outcomes.coast()).views
    assert view.aspect == pytest.approx(1 / math.cos(math.radians(49)), rel=1e-12)
    assert chart_of(outcomes.crosswell()).views[0].aspect == 1
    assert chart_of(outcomes.crosswell()).views[0].down
    assert not view.down


def test_receivers_and_sources_lie_where_they_are() -> None:
    outcome = outcomes.crosswell()
    ax = titled(setting.setting(outcome, chart_of(outcome)).figure)["wave speed c at the start"]
    drawn = {line.get_label(): np.stack(line.get_data(), axis=1) for line in ax.lines}
    np.testing.assert_allclose(drawn["receivers of p"], outcome.receivers["p"][:, ::-1])
    np.testing.assert_allclose(drawn["sources of f"], outcome.sources["f"][:, ::-1])
    assert [text.get_text() for text in ax.texts] == ["1", "2", "3"]


def test_large_grids_are_measured_in_kilometres() -> None:
    outcome = outcomes.crosswell()
    z, x = outcome.axes
    large = replace(outcome, axes=(replace(z, coordinates=100 * z.coordinates), replace(x, coordinates=100 * x.coordinates)))
    (view,) = chart_of(large).views
    assert view.labels == ("x (km)", "z (km)")
    assert view.extent == pytest.approx((-1, 29, -1, 59))
    np.testing.assert_allclose(view.points(np.array([[5e4, 2e4]])), [[20], [50]])


def test_middle_planes_of_a_block() -> None:
    outcome = outcomes.block()
    views = chart_of(outcome).views
    truth = outcome.unknowns["c"].truth
    for view, plane in zip(views, (truth[4], truth[:, 5], truth[:, :, 6]), strict=True):
        np.testing.assert_array_equal(view.cut(truth), plane)
    assert [view.where for view in views] == ["z = 40 m", "y = 50 m", "x = 60 m"]
    x, y = views[1].points(outcome.receivers["p"])
    np.testing.assert_array_equal((x, y), ([90.0, 90.0], [30.0, 50.0]))


def test_planes_go_through_the_largest_change() -> None:
    outcome = outcomes.block()
    field = outcome.unknowns["c"]
    truth = np.full_like(field.truth, 1500.0)
    truth[2, 7, 3] = 1300.0
    picture = maps.unknown("c", replace(field, truth=truth), chart_of(outcome))
    shown = [ax.get_title(loc="left") for ax in picture.figure.axes if ax.get_title(loc="left")]
    assert [title.splitlines()[-1] for title in shown[:3]] == ["z = 20 m", "y = 70 m", "x = 30 m"]
    assert "planes go through the largest change of the truth" in picture.caption
    assert chart_of(outcome).through(np.zeros(truth.shape)).views == chart_of(outcome).views


def test_crosstalk_is_a_matrix_of_cosines() -> None:
    """Cosines of the answers (rows) with the truths (columns): with its own, 2 / √5, of both signs, and with the other one's."""
    picture = crosstalk.crosstalk(outcomes.bodies())
    assert picture is not None
    (image,) = picture.figure.axes[0].images
    apart = crosstalk.cosines([outcomes.bodies().unknowns["vp"].truth], [outcomes.bodies().unknowns["vs"].truth])[0, 0]
    assert apart < 1e-2
    np.testing.assert_allclose(image.get_array(), [[2 / math.sqrt(5), 1 / math.sqrt(5)], [0.0, -1.0]], atol=2e-2)
    assert "the largest is 0.45, of vp with the truth of vs" in picture.caption and "vp 0.89, vs -1.00" in picture.caption


def test_truths_that_look_alike_have_no_crosstalk() -> None:
    outcome = outcomes.bodies()
    same = {name: replace(field, truth=outcome.unknowns["vp"].truth) for name, field in outcome.unknowns.items()}
    assert crosstalk.crosstalk(replace(outcome, unknowns=same)) is None
    assert crosstalk.crosstalk(replace(outcome, unknowns={"vp": outcome.unknowns["vp"]})) is None


def test_monitors_of_a_design_are_lines() -> None:
    outcome = outcomes.design()
    picture = setting.setting(outcome, chart_of(outcome))
    drawn = {line.get_label(): line.get_xydata() for line in picture.figure.axes[0].lines}
    np.testing.assert_allclose(drawn["monitor out"], [[0.0, 1.2], [1.5, 1.2]])
    assert "Lines: mode of Jz, monitor out." in picture.caption and "no receivers" not in picture.caption
    drawing = maps.unknown("eps", outcome.unknowns["eps"], chart_of(outcome), design=True)
    assert "the design that it found" in drawing.caption and "records" not in drawing.caption


def test_traces_are_those_of_the_middle_shot_in_good_units() -> None:
    outcome = outcomes.crosswell()
    pair = outcome.traces["p"]
    figure = traces.close_up("p", pair, outcome, chart_of(outcome)).figure
    ax = figure.axes[1]
    assert ax.get_title(loc="left") == "2: z = 300 m, x = 260 m"
    lines = {line.get_label(): line.get_data() for line in ax.lines}
    np.testing.assert_allclose(lines["data"][0], outcome.times * 1e3)  # ms
    np.testing.assert_allclose(lines["data"][1], pair.data[1, :, 1] * 1e6)  # µPa
    np.testing.assert_allclose(lines["start"][1], pair.start[1, :, 1] * 1e6)
    np.testing.assert_allclose(lines["answer"][1], pair.end[1, :, 1] * 1e6)


def test_figures_of_traces_have_the_unit_of_time_of_the_equation() -> None:
    """Microwaves in lengths over c are no seconds."""
    outcome = replace(outcomes.crosswell(), time_unit="lengths / c")
    pair, chart = outcome.traces["p"], chart_of(outcome)
    labels = {
        "time (lengths / c)": [traces.close_up("p", pair, outcome, chart), traces.gather("p", pair, outcome)],
        "1 / (lengths / c)": [traces.spectra("p", pair, outcome)],
        "t = 0.05 lengths / c": [instants.snapshots("p", outcome.snapshots["p"], outcome, chart)],
    }
    for label, pictures in labels.items():
        for picture in pictures:
            assert picture is not None
            texts = [text for ax in picture.figure.axes for text in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title(loc="left"))]
            assert any(label in text for text in texts), texts
            assert not any(f"({unit})" in text for text in texts for unit in ("s", "ms", "Hz"))


def test_a_gather_shows_residuals_on_the_scale_of_the_data() -> None:
    outcome = outcomes.coast()
    pair = outcome.traces["eta"]
    shown = titled(traces.gather("eta", pair, outcome).figure)
    assert len({ax.images[0].get_clim() for ax in shown.values()}) == 1
    columns = shown["residual, answer"].images[0].get_array()[:, :: gathers.BROADER]
    np.testing.assert_allclose(columns, 1e3 * (pair.data - pair.end)[0])


def test_a_final_field_and_its_residual() -> None:
    outcome = outcomes.image()
    pair = outcome.finals["T"]
    picture = maps.final("T", pair, chart_of(outcome))
    shown = titled(picture.figure)
    np.testing.assert_allclose(shown["data - prediction"].images[0].get_array(), (pair.data - pair.end)[0])
    assert shown["data"].images[0].get_clim() == shown["prediction of the answer"].images[0].get_clim()
    assert "0.1 K" in picture.caption


def test_spread_takes_the_ends_and_the_middle_and_no_point_twice() -> None:
    row = np.stack([np.zeros(21), np.linspace(0, 1, 21)], axis=1)
    assert spread(row, 3) == [0, 10, 20]
    assert spread(row, 99) == list(range(21))
    assert spread(np.zeros((5, 2)), 3) == [0, 1, 2]


def test_places_in_words() -> None:
    assert place_name(outcomes.coast().axes, np.array([48.123, 235.0])) == "48.12° N, 235.00° E"


@pytest.mark.parametrize(
    ("values", "rest", "centred"),
    [([-1.0, 2.0], False, True), ([-0.01, 2.0], False, False), ([0.0, 2.0], True, True), ([1500.0, 2000.0], False, False)],
)
def test_signed_fields_are_centred(values, rest, centred) -> None:
    assert style.common("m", np.array(values), zero_is_rest=rest).centred == centred


def test_limits_leave_out_values_that_are_not_finite() -> None:
    assert style.diverging(np.array([np.nan, 0.0, -3.0, np.inf])).high == 3
    assert style.sequential(2.0, 2.0).low < 2 < style.sequential(2.0, 2.0).high


@pytest.mark.parametrize(
    ("last", "unit", "shown"), [(7200.0, "h", 2.0), (1800.0, "min", 30.0), (90.0, "s", 90.0), (0.5, "ms", 500.0), (1e-3, "µs", 1e3)]
)
def test_times_have_a_readable_unit(last, unit, shown) -> None:
    scale = units.time_scale(np.array([0.0, last]))
    assert (scale.unit, scale.factor * last) == (unit, pytest.approx(shown))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.02, "m", "20 mm"), (1437.0, "m", "1437 m"), (25e3, "m", "25 km"), (1.5e-7, "m²/s", "150 × 10⁻⁹ m²/s"), (0.0, "K", "0 K")],
)
def test_quantities(value, unit, text) -> None:
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(128.0, "128"), (0.95123, "0.9512"), (3.21e-15, "3.21 × 10⁻¹⁵"), (math.inf, "∞"), (math.nan, "no figure"), (0.0, "0")],
)
def test_numbers(value, text) -> None:
    assert units.number(value) == text


def test_durations_and_sizes() -> None:
    assert [units.duration(s) for s in (0.25, 59.0, 75.0, 3720.0)] == ["0.25 s", "59 s", "1 min 15 s", "1 h 2 min"]
    assert [units.size(n) for n in (12, 4096, 999_600, 182_400_000, 1_612_000_000)] == ["12 B", "4.1 kB", "1 MB", "182 MB", "1.61 GB"]


def without_truth(outcome: Outcome) -> Outcome:
    """As of records: nobody knows the truth."""
    return replace(outcome, unknowns={name: replace(field, truth=None) for name, field in outcome.unknowns.items()})


@pytest.mark.parametrize("make", [outcomes.coast, outcomes.line])
def test_without_a_truth_the_answer_is_shown_beside_the_start(make) -> None:
    outcome = without_truth(make())
    axes = titled(unknown(outcome))
    assert [*axes] == ["start", "answer", "answer - start"]
    (name, field), *_ = outcome.unknowns.items()
    picture = maps.unknown(name, field, chart_of(outcome))
    assert "truth" not in picture.title and "nobody knows the truth" in picture.caption


def test_without_a_truth_there_is_no_curve_of_it() -> None:
    field = without_truth(outcomes.driven()).unknowns["lamp"]
    picture = report_values.unknown("lamp", field)
    labels = {text.get_text() for legend in picture.figure.legends for text in legend.get_texts()}
    assert labels and "truth" not in labels and "nobody knows the truth" in picture.caption


def recorded_at_times_of_their_own() -> Outcome:
    """Receiver k has a sample at every third time, from the k-th on; the last has none."""
    outcome = outcomes.coast()
    pair = outcome.traces["eta"]
    times = np.linspace(0, outcome.times[-1], len(outcome.times)) ** 2 / outcome.times[-1]
    data = np.full(pair.data.shape, np.nan)
    for k in range(data.shape[2] - 1):
        data[:, k % 3 :: 3, k] = pair.data[:, k % 3 :: 3, k]
    deviation = np.broadcast_to(0.001 * (1 + np.arange(data.shape[2])), data.shape)
    return replace(outcome, traces={"eta": replace(pair, data=data, times=times, deviation=deviation)})


def test_records_are_dots_at_their_own_times() -> None:
    outcome = recorded_at_times_of_their_own()
    pair, chart = outcome.traces["eta"], chart_of(outcome)
    figure = traces.close_up("eta", pair, outcome, chart).figure
    for k, ax in zip(chart.close["eta"], figure.axes, strict=False):
        dots, start, answer = ax.lines
        there = np.isfinite(pair.data[0, :, k])
        assert pair.times is not None
        assert dots.get_linestyle() == "None" and dots.get_marker() == "."
        np.testing.assert_allclose(dots.get_xdata(), pair.times[there] / 3600)
        assert len(start.get_xdata()) == len(answer.get_xdata()) == there.sum()
    gather = traces.gather("eta", pair, outcome).figure
    shown = gather.axes[0].images[0].get_array()
    assert shown is not None and shown.shape[0] == len(outcome.times)
    assert np.ma.getmaskarray(shown)[:, -1].all() and not np.ma.getmaskarray(shown)[10:-10, 0].any()


def test_an_absorbing_layer_is_drawn() -> None:
    outcome = outcomes.crosswell()
    outcome = replace(outcome, settings={**outcome.settings, "equation": {"type": "acoustic", "sponge": 3}})
    picture = setting.setting(outcome, chart_of(outcome))
    (ax,) = titled(picture.figure).values()
    left, right, bottom, top = ax.images[0].get_extent()
    cells = ax.images[0].get_array().shape
    patch = ax.patches[0]
    assert np.isclose(patch.get_x() - left, 3 * (right - left) / cells[1]) and np.isclose(
        patch.get_height(), (top - bottom) * (1 - 6 / cells[0])
    )
    assert "The 3 cells at every edge absorb." in picture.caption


def test_an_absorbing_layer_of_some_sides_is_drawn_there() -> None:
    """None at the surface, which is at the low side of an axis that points down."""
    outcome = outcomes.crosswell()
    outcome = replace(outcome, settings={**outcome.settings, "equation": {"type": "acoustic", "layer": [[0, 4], 3]}})
    picture = setting.setting(outcome, chart_of(outcome))
    (ax,) = titled(picture.figure).values()
    left, right, bottom, top = ax.images[0].get_extent()
    rows, columns = ax.images[0].get_array().shape
    patch, deep = ax.patches[0], max(bottom, top)
    assert np.isclose(patch.get_x() - left, 3 * (right - left) / columns) and np.isclose(
        patch.get_width(), (right - left) * (1 - 6 / columns)
    )
    inner = sorted((patch.get_y(), patch.get_y() + patch.get_height()))
    assert np.allclose(inner, [min(bottom, top), deep - 4 * abs(top - bottom) / rows])
    assert "Cells along some edges absorb." in picture.caption


def test_each_panel_of_an_uncertainty_has_its_own_labelled_scale() -> None:
    outcome = outcomes.coast()
    prior = np.full((24, 30), 150.0)
    known = replace(outcome.unknowns["eta0"], prior_deviation=prior, deviation=0.01 * prior * np.linspace(0.5, 1, 30))
    picture = maps.uncertainty("eta0", known, chart_of(outcome), np.array([3.0, 0.01]))
    images = [ax.images[0] for ax in picture.figure.axes if ax.images]
    assert images[0].get_clim() != images[1].get_clim()
    bars = [bar for ax in picture.figure.axes for bar in ax.child_axes]
    labels = [" ".join((bar.get_ylabel() + bar.get_xlabel() + bar.get_title()).split()) for bar in bars]
    assert all(any(f"deviation of eta0, {when}" in label for label in labels) for when in ("before", "after"))
    assert "where the search had another penalty" in picture.caption


def test_receivers_have_the_names_of_their_files() -> None:
    """After a drop too, when the numbers on the map are not those of the file."""
    outcome = outcomes.crosswell()
    pair, chart = outcome.traces["p"], chart_of(outcome)
    for names, expected in ((("north", "mid", "south"), "2, mid: "), (("0", "2", "3"), "2, trace 2: "), (None, "2: ")):
        named = replace(outcome, names={} if names is None else {"p": names})
        figure = traces.close_up("p", pair, named, chart).figure
        assert figure.axes[1].get_title(loc="left").startswith(expected)
    assert "explains number" in traces.residuals("p", pair, named).caption


def test_curves_break_off_in_gaps_of_the_data() -> None:
    """But not where a receiver only has times of its own, which are NaN at the times of others."""
    times = np.arange(40.0)
    data = np.sin(times)[:, None] * np.ones(2)
    data[15:25, 0] = np.nan
    data[1::2, 1] = np.nan
    there = np.isfinite(data)
    figure = gathers.traces({"data": data, "answer": np.where(there, 0.5, np.nan)}, times, "p")
    gap, own = (ax.lines[1].get_ydata() for ax in figure.axes[:2])
    assert np.isnan(gap).sum() == 1 and np.isnan(gap[15]) and not np.isnan(own).any()


def test_a_caption_has_the_noise_of_each_receiver_that_is_drawn() -> None:
    """One number where all are alike, else each its own; gaps have none."""
    times = np.linspace(0.0, 10.0, 21)
    pair = outcomes.recorded(1, times, 3, 2.0, "m")
    alike = replace(pair, deviation=np.full(pair.data.shape, 0.04))
    assert traces._widths(pair, 0, [0, 1]) == traces._widths(alike, 0, [0, 1]) == "40 mm to either side"
    own = replace(pair, deviation=np.ones(pair.data.shape) * np.array([0.04, 0.5, 0.1]))
    own.data[0, :, 2] = np.nan
    assert traces._widths(own, 0, [0, 1, 2]) == "to either side, of each receiver its own (1: 40 mm, 2: 0.5 m)"


def test_the_page_has_the_fit_of_each_record_and_the_numbers_behind_an_answer() -> None:
    base = outcomes.coast()
    fit = (Fit("north", 0.875, -12.5, 1.25), Fit("south", 0.5, float("nan"), 0.75))
    name, field = next(iter(base.unknowns.items()))
    behind = {**base.unknowns, name: replace(field, values={"slip": np.array([3.25, 6.5])})}
    page = render(replace(base, fits={"eta": fit}, unknowns=behind), [])
    assert "Fit of each record of eta" in page and "0.875" in page and "-12.5 s" in page and "north" in page
    assert f"Numbers behind {name}" in page and "3.25, 6.5" in page
    number = replace(field, start=np.array(1.5), answer=np.array(2.5), truth=np.array(2.75), unit="m")
    rows = dict(tables.numbers_behind(replace(base, unknowns={name: number}))[0][1])
    assert rows == {"start, m": "1.5", "answer, m": "2.5", "truth, m": "2.75"}
    assert not tables.numbers_behind(base)  # a field of many cells
    regions = {name: replace(field, values={"by region": np.arange(21.0)})}
    assert tables.numbers_behind(replace(base, unknowns=regions)) and not tables.numbers_behind(replace(base, unknowns=regions), tables.FEW)
