"""The minimum cut, compared with SciPy's flow of random graphs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from diffsim.stepping.passes.cut import FOREVER, _steps_to, minimum_cut


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_smallest_set_of_a_cheapest_cut(seed: int) -> None:
    rng, nodes = np.random.default_rng(seed), 40
    weights = {(a, b): int(rng.choice([1, 2, 3, 7, FOREVER])) for a, b in rng.integers(0, nodes, (160, 2)).tolist() if a != b}
    weights |= {(0, b): int(rng.choice([2, 9, FOREVER])) for b in range(1, 9)} | {(a, nodes - 1): 4 for a in range(20, nodes - 1)}
    rows, columns = np.array(list(weights)).T
    capacity = coo_array((np.array(list(weights.values()), np.int32), (rows, columns)), shape=(nodes, nodes)).tocsr()
    flow = maximum_flow(capacity, 0, nodes - 1)
    left = capacity - flow.flow
    left.eliminate_zeros()
    reached = minimum_cut(weights, 0, nodes - 1)
    assert reached == set(breadth_first_order(left, 0, return_predecessors=False).tolist())
    assert sum(weight for (a, b), weight in weights.items() if a in reached and b not in reached) == flow.flow_value


def test_nodes_without_a_way_to_the_sink_are_on_the_side_of_the_source() -> None:
    assert minimum_cut({(0, 1): 5, (1, 2): 1, (2, 3): 5, (1, 4): 7, (4, 1): 7, (3, 5): 9}, 0, 5) == {0, 1, 4}


def test_a_search_goes_no_farther_than_the_source() -> None:
    """The source has an edge to the sink. The chain of nodes that leads there too is not followed."""
    chain, asked = 50, list[int]()
    weights = {(0, chain + 1): 3, **{(node, node + 1): 1 for node in range(1, chain + 1)}}

    class Asked(list[int]):
        def __getitem__(self, edge: int) -> int:  # type: ignore[override]
            asked.append(edge)
            return super().__getitem__(edge)

    ends: list[int] = []
    left, edges = Asked(), [list[int]() for _ in range(chain + 2)]
    for (start, end), weight in weights.items():
        edges[start].append(len(ends))
        edges[end].append(len(ends) + 1)
        ends += end, start
        left += weight, 0
    steps = _steps_to(chain + 1, 0, ends, left, edges)
    assert steps[0] == 1 and len(asked) < 5 and max(steps) == 1
