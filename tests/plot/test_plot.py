"""Figures show their numbers at the right places, and refuse arguments that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import diffsim as ds
from diffsim import plot
from diffsim.plot import animation
from diffsim.plot.residuals import amplitudes, by_receiver
from diffsim.typing import Array

RNG = np.random.default_rng(3)
PLANE = ds.Grid((6, 9), spacing=(2.0, 3.0), origin=(10.0, -5.0), axes=("depth", "x"))
RECORDS = RNG.normal(size=(50, 5))


def maps(figure: Figure) -> list[Axes]:
    return [ax for ax in figure.axes if ax.images or (ax.collections and ax.get_label() != "<colorbar>")]


def test_a_map_shows_each_cell_at_its_place() -> None:
    values = RNG.normal(size=PLANE.shape)
    figure = plot.field(values, PLANE, "p", "Pa", receivers=[[12.0, 4.0]], sources={"f": [[14.0, 1.0]]})
    (ax,) = maps(figure)
    image = ax.images[0]
    assert np.allclose(image.get_array(), values)
    assert np.allclose(image.get_extent(), [-6.5, 20.5, 9.0, 21.0])
    assert ax.yaxis_inverted()  # depth points down
    points = {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines}
    assert points == {"receivers": (4.0, 12.0), "sources of f": (1.0, 14.0)}
    low, high = image.get_clim()
    assert low == -high  # both signs: white is zero


def test_a_map_has_the_unit_of_the_grid() -> None:
    (ax,) = maps(plot.field(RECORDS[:6, :4], ds.Grid((6, 4), 0.5, origin=(40.0, -125.0), axes=("lat", "lon")), "eta", "m"))
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("lat (degrees north)", "lon (degrees east)")
    assert np.isclose(ax.get_aspect(), 1 / np.cos(np.radians(41.25)), rtol=1e-2)  # a degree of longitude is shorter
    (ax,) = maps(plot.field(RECORDS[:6, :4], ds.Grid((6, 4), 0.5, unit="feet"), "eta", "m"))
    assert ax.get_xlabel() == "x (feet)"


def test_several_fields_share_a_scale_and_large_numbers_have_a_prefix() -> None:
    a, b = np.full(PLANE.shape, 2e6), np.full(PLANE.shape, 5e6)
    b[0, 0] = np.nan
    figure = plot.field({"one": a, "two": b}, PLANE, "E", "Pa")
    first, second = maps(figure)
    assert first.images[0].get_clim() == second.images[0].get_clim() == (2.0, 5.0)  # MPa
    assert second.images[0].get_array().mask.sum() == 1
    assert [ax.get_title(loc="left") for ax in (first, second)] == ["one", "two"]


def test_masked_cells_are_grey() -> None:
    mask = np.ones(PLANE.shape, bool)
    mask[2, 3] = False
    (ax,) = maps(plot.field(np.arange(54.0).reshape(PLANE.shape), PLANE, mask=mask))
    assert np.array_equal(ax.images[0].get_array().mask, ~mask)


def test_a_line_and_the_planes_of_a_block() -> None:
    line = ds.Grid((7,), spacing=0.5)
    values = RNG.normal(size=7)
    (ax,) = plot.field(values, line).axes
    assert np.allclose(ax.lines[0].get_xdata(), line.coordinates(0)) and np.allclose(ax.lines[0].get_ydata(), values)
    block = ds.Grid((4, 5, 6), spacing=1.0)
    values = RNG.normal(size=block.shape)
    planes = maps(plot.field(values, block, at=(3.0, 1.2, 4.0)))
    shown = [np.asarray(ax.images[0].get_array()) for ax in planes]
    assert [np.allclose(a, b) for a, b in zip(shown, (values[3], values[:, 1], values[:, :, 4]), strict=True)] == [True] * 3


def test_cells_of_different_sizes() -> None:
    faces = np.array([0.0, 1.0, 3.0, 7.0])
    grid = ds.Grid.from_faces([np.linspace(0, 1, 5), faces])
    values = RNG.normal(size=grid.shape)
    (ax,) = maps(plot.field(values, grid))
    mesh = ax.collections[0]
    assert np.allclose(mesh.get_array(), values)
    centres = grid.coordinates(1)
    assert np.allclose(mesh.get_coordinates()[0, 1:-1, 0], 0.5 * (centres[1:] + centres[:-1]))


def test_a_gradient_lies_over_its_model_and_ends_where_most_cells_do() -> None:
    values = RNG.uniform(-1, 1, size=PLANE.shape)
    values[0, 0] = 1000.0
    model = RNG.uniform(1, 2, size=PLANE.shape)
    (ax,) = maps(plot.gradient(values, PLANE, "c", over=model))
    below, above = ax.images
    assert np.allclose(below.get_array(), model)
    assert above.get_clim()[1] < 1000
    assert np.asarray(above.get_alpha())[0, 0] == 1.0 and np.asarray(above.get_alpha()).min() < 0.3


def test_traces_are_those_of_the_receivers() -> None:
    figure = plot.traces({"observed": RECORDS, "predicted": 0.5 * RECORDS}, 0.1, "p", "Pa", numbers=[4, 1])
    for ax, k in zip(figure.axes, (4, 1), strict=True):
        assert np.allclose(ax.lines[0].get_ydata(), RECORDS[:, k]) and np.allclose(ax.lines[1].get_ydata(), 0.5 * RECORDS[:, k])
        assert np.allclose(ax.lines[0].get_xdata(), 0.1 * np.arange(50))
        assert ax.get_title(loc="left") == str(k + 1)


def test_gaps_are_no_samples() -> None:
    gaps = RECORDS.copy()
    gaps[10:20, 2] = np.nan
    (ax,) = plot.traces(gaps, np.linspace(0, 1, 50) ** 2, numbers=[2]).axes
    assert len(ax.lines[0].get_xdata()) == 40 and ax.lines[0].get_marker() == "."
    image = maps(plot.gather(gaps, 0.1))[0].images[0].get_array()
    filled = np.asarray(image)[:, 2 * 8]
    assert np.allclose(filled[9:21], np.linspace(gaps[9, 2], gaps[20, 2], 12))


@pytest.mark.parametrize("turned", [False, True])
def test_a_gather_has_each_receiver_at_its_coordinate(turned: bool) -> None:
    at = 100.0 * np.arange(5)[:: -1 if turned else 1]
    image = maps(plot.gather(RECORDS, 0.1, at=at))[0].images[0]
    assert np.allclose(image.get_extent()[:2], (-50.0, 450.0))
    assert np.allclose(np.asarray(image.get_array())[:, 0], RECORDS[:, np.argmin(at)])
    (ax,) = plot.gather(RECORDS, 0.1, at=at, wiggles=True).axes
    for place, line, trace in zip(at, ax.lines, RECORDS.T, strict=True):
        assert np.allclose((np.asarray(line.get_xdata()) - place) / 90.0 * np.abs(RECORDS).max(), trace)


def test_a_sine_has_its_amplitude() -> None:
    t = 0.01 * np.arange(200)[:, None]
    tone = 3.0 * np.sin(2 * np.pi * 10 * t) + 0.5
    spectrum = amplitudes(np.hstack([tone, -tone, np.full_like(tone, np.nan)]))
    assert np.isclose(spectrum[20], 3.0) and np.isclose(spectrum[0], 0.5)
    assert np.isclose((spectrum**2)[1:-1].sum() / 2 + spectrum[0] ** 2 + spectrum[-1] ** 2, np.mean(tone**2))  # Parseval


def test_residuals_by_receiver() -> None:
    gaps = RECORDS.copy()
    gaps[:40, 0] = np.nan
    expected = [np.sqrt(np.mean(RECORDS[40:, 0] ** 2)), *np.sqrt(np.mean(RECORDS[:, 1:] ** 2, axis=0))]
    assert np.allclose(by_receiver(gaps), expected)
    figure = plot.misfit(gaps, {"start": 0 * RECORDS, "answer": 0.5 * RECORDS}, deviation=0.5)
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert np.allclose(heights[:5], 2 * np.array(expected)) and np.allclose(heights[5:], expected)


def test_a_loss_that_reaches_zero_has_a_linear_axis() -> None:
    assert plot.loss([2.0, 1.0, 0.5]).axes[0].get_yscale() == "log"
    assert plot.loss([2.0, 1.0, 0.0]).axes[0].get_yscale() == "linear"


def test_a_notebook_shows_a_figure() -> None:
    assert plot.loss([2.0, 1.0])._repr_png_().startswith(b"\x89PNG")


FIELD, GRID = np.zeros((6, 9)), PLANE


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: plot.field(np.zeros((9, 6)), GRID), "shape (9, 6), expected (6, 9)"),
        (lambda: plot.field(FIELD, (6, 9)), "expected a diffsim.Grid"),
        (lambda: plot.field({}, GRID), "expected an array, or arrays by title"),
        (lambda: plot.field(FIELD, GRID, units=("m",)), "expected a text, or 2 of them"),
        (lambda: plot.field(FIELD, GRID, receivers=[1.0, 2.0]), "expected (points, 2)"),
        (lambda: plot.field(FIELD, GRID, mask=[True]), "mask has shape (1,)"),
        (lambda: plot.field(FIELD, GRID, at=(1.0, 2.0, 3.0)), "expected three coordinates on a grid of three axes"),
        (lambda: plot.traces(RECORDS[:, 0], 0.1), "expected an array of 2 axes"),
        (lambda: plot.traces(RECORDS, -0.1), "expected a positive number of seconds"),
        (lambda: plot.traces(RECORDS, [0.0, 1.0]), "50 times that rise"),
        (lambda: plot.traces(RECORDS, 0.1, numbers=[5]), "numbers = 5"),
        (lambda: plot.traces({"a": RECORDS, "b": RECORDS[1:]}, 0.1), "values b has shape (49, 5), expected (50, 5)"),
        (lambda: plot.gather(RECORDS, 0.1, at=[0, 1, 2, 3, 5]), "equal distances"),
        (lambda: plot.gather(RECORDS, 0.1, at=[0, 1]), "expected (5,)"),
        (lambda: plot.misfit(RECORDS, RECORDS[1:]), "expected (50, 5)"),
        (lambda: plot.spectrum(RECORDS * np.nan, 0.1), "got gaps in each"),
        (lambda: plot.loss([]), "no entries"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ds.DiffsimError) as caught:
        call()
    assert text in str(caught.value)


@pytest.fixture(scope="module")
def rod() -> tuple[ds.Simulation, dict[str, Array]]:
    grid = ds.Grid((12,), spacing=0.1)
    simulation = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), receivers={"T": [[0.5]]}, wrt=["kappa"])
    return simulation, {"kappa": np.full(12, 5e-3), "T": np.linspace(0.0, 1.0, 12)}


def test_a_film_has_its_frames(rod: tuple[ds.Simulation, dict[str, Array]], tmp_path: Path) -> None:
    simulation, inputs = rod
    path = plot.animate(simulation, inputs, 20, tmp_path / "rod.gif", loss=lambda solution: (solution.traces["T"] ** 2).sum(), frames=5)
    with Image.open(path) as film:
        assert film.n_frames == 5
        first = np.asarray(film.convert("L"), float)
        film.seek(4)
        assert np.abs(np.asarray(film.convert("L"), float) - first).max() > 50


def test_the_first_frame_is_the_state_that_the_inputs_give() -> None:
    """Its initial field has another name than the state."""
    sea = ds.Simulation(ds.solvers.LongWave(ds.Grid((20,), 1000.0), dt=0.5), wrt=["eta0"])
    hump = np.exp(-((np.arange(20.0) - 8) ** 2))
    frames = animation._fields(sea, {"H": np.full(20, 100.0), "eta0": hump}, 4, "eta", 2)
    assert list(frames) == [0, 2, 4] and np.allclose(frames[0], hump)


def test_films_that_cannot_be_written(rod: tuple[ds.Simulation, dict[str, Array]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matplotlib.animation.FFMpegWriter.isAvailable", lambda: False)
    for name, text in (("a.avi", "expected an ending of .mp4, .gif"), ("a.mp4", "expected ffmpeg")):
        with pytest.raises(ds.DiffsimError, match=text):
            plot.animate(*rod, 20, tmp_path / name)
    assert plot.animate(*rod, 4, tmp_path / "film", frames=2).suffix == ".gif"
