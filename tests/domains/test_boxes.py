"""Boxes and points in them, without MPI: each cell has one owner, and each ghost cell comes from it."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.domains.boxes import Cuts
from diffsim.domains.points import overhang, points_in
from diffsim.errors import ShapeError
from diffsim.stepping.declare.points import PointTable

DIVISIONS = [
    Cuts((7,), (3,), (2,), (1,)),
    Cuts((13, 11), (2, 3), (3, 4), (1, 1)),
    Cuts((13, 11), (1, 5), (3, 2), (1, 2)),
    Cuts((5, 7, 11), (2, 1, 4), (1, 3, 5), (1, 1, 1)),
]


@pytest.mark.parametrize("cuts", DIVISIONS, ids=lambda cuts: f"{cuts.grid} in {cuts.parts}")
def test_ghost_cells_come_from_their_owners(cuts: Cuts) -> None:
    """The numbers of all cells are handed out, ghost cells are forgotten, and an exchange by the pieces brings them back."""
    numbers = np.arange(np.prod(cuts.grid)).reshape(cuts.grid)
    boxes = [cuts.box(rank) for rank in range(cuts.count)]
    owned = np.zeros(cuts.grid, int)
    for box in boxes:
        owned[box.owned] += 1
    assert (owned == 1).all()
    held = []
    for box in boxes:
        cells = np.full(box.shape, -1)
        cells[box.inner] = box.cut(numbers)[box.inner]
        held.append(cells)
    sent = [[(piece.here, held[piece.owner][piece.there].copy()) for piece in cuts.pieces(box.rank)] for box in boxes]
    for box, cells, pieces in zip(boxes, held, sent, strict=True):
        for here, values in pieces:
            assert (values >= 0).all()  # owners send what they own
            cells[here] = values
        assert np.array_equal(cells, box.cut(numbers))


def test_boxes_differ_by_one_cell_and_ghost_cells_end_at_the_sides() -> None:
    cuts = Cuts((11, 4), (3, 1), (5, 5), (1, 1))
    assert [cuts.box(rank).own for rank in range(3)] == [((0, 3), (0, 4)), ((3, 7), (0, 4)), ((7, 11), (0, 4))]
    assert [cuts.box(rank).wide[0] for rank in range(3)] == [(0, 8), (0, 11), (2, 11)]
    assert [cuts.box(rank).real(0) for rank in range(3)] == [(True, False), (True, True), (False, True)]
    assert np.isclose(cuts.box(0).ghost_share, 5 / 8)


@pytest.mark.parametrize(("parts", "least", "most"), [((4, 1), 4, 3), ((14, 1), 1, 13)])
def test_a_box_thinner_than_a_step_reads_is_refused(parts: tuple[int, int], least: int, most: int) -> None:
    with pytest.raises(ShapeError, match=f"expected at least {least}, .*into at most {most} part"):
        Cuts((13, 9), parts, (4, 4), (least, 1))
    Cuts((13, 9), (most, 1), (4, 4), (least, 1))


def test_points_are_sampled_by_their_owner_and_act_in_each_box_that_has_their_cells() -> None:
    cuts = Cuts((10, 6), (2, 1), (3, 3), (1, 1))
    first = np.array([0, 3, 4, 5, 6, 9])  # each point has a cell and the next one, also across the cut at 5
    cells = np.array([[row, 2] for start in first for row in (start, min(start + 1, 9))])
    weights = np.tile([0.25, 0.75], len(first))
    table = PointTable(cells, weights, np.arange(0, 2 * len(first) + 1, 2))
    assert overhang(cuts, table).tolist() == [1, 0]
    values = np.random.default_rng(0).random(cuts.grid)
    amplitudes = np.random.default_rng(1).random(len(first))
    sampled, density = np.full(len(first), np.nan), np.zeros(cuts.grid)
    table.scatter(amplitudes, density)
    for rank in range(2):
        box = cuts.box(rank)
        here = points_in(box, cuts, table, (1, 1), "points")
        local = here.table.gather(np.ascontiguousarray(box.cut(values)))
        sampled[here.owned_numbers] = here.owned(local[None])[0]
        acted = np.zeros(box.shape)
        here.table.scatter(here.columns(amplitudes[None])[0], acted)
        assert np.array_equal(acted, box.cut(density))
    assert np.array_equal(sampled, table.gather(values))
    assert sorted(np.concatenate([points_in(cuts.box(r), cuts, table, (1, 1), "points").owned_numbers for r in range(2)])) == [*range(6)]


def test_a_box_without_points_has_one_of_weight_zero() -> None:
    cuts = Cuts((12,), (2,), (1,), (1,))
    table = PointTable(np.array([[1]]), np.ones(1), np.array([0, 1]))
    here = points_in(cuts.box(1), cuts, table, (1,), "points")
    assert here.table.count == 1 and not here.table.weights.any() and not len(here.owned_numbers)
    assert np.array_equal(here.columns(np.ones((3, 1))), np.zeros((3, 1)))


def test_a_point_that_reaches_too_far_is_refused() -> None:
    cuts = Cuts((12,), (2,), (3,), (1,))
    wide = PointTable(np.array([[5], [7]]), np.ones(2), np.array([0, 2]))
    assert overhang(cuts, wide).tolist() == [2]
    with pytest.raises(ShapeError, match="number 0 of the points has cells more than 1 outside of its domain"):
        points_in(cuts.box(0), cuts, wide, (1,), "points")


def test_random_divisions() -> None:
    """Random divisions of small grids, in which boxes may be thinner than their ghost cells."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        grid = tuple(int(n) for n in rng.integers(3, 12, rng.integers(1, 4)))
        parts = tuple(int(rng.integers(1, n + 1)) for n in grid)
        cuts = Cuts(grid, parts, tuple(int(g) for g in rng.integers(0, 6, len(grid))), (1,) * len(grid))
        numbers = np.arange(np.prod(grid)).reshape(grid)
        for box in map(cuts.box, range(min(cuts.count, 8))):
            cells = np.full(box.shape, -1)
            cells[box.inner] = numbers[box.owned]
            for piece in cuts.pieces(box.rank):
                cells[piece.here] = cuts.box(piece.owner).cut(numbers)[piece.there]
            assert np.array_equal(cells, box.cut(numbers))
