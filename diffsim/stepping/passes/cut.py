"""The minimum cut of a graph: the cheapest of many choices that depend on one another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

FOREVER = 1 << 28
"""A weight that is never cut."""


def minimum_cut(weights: Mapping[tuple[int, int], int], source: int, sink: int) -> set[int]:
    """The nodes on the source's side of the cheapest cut, the smallest such set.

    Args:
        weights: edge (from, to) -> its weight, below 2^31.
        source: a node.
        sink: another node, with the largest number.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    rows, columns = np.array(list(weights)).T
    capacity = coo_array((np.array(list(weights.values()), np.int32), (rows, columns)), shape=(sink + 1, sink + 1)).tocsr()
    left = capacity - maximum_flow(capacity, source, sink).flow
    left.eliminate_zeros()
    return set(breadth_first_order(left, source, return_predecessors=False).tolist())
