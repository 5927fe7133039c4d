"""The minimum cut of a graph: the cheapest of many choices that depend on one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

FOREVER = 1 << 28
"""A weight that is never cut."""


def minimum_cut(weights: Mapping[tuple[int, int], int], source: int, sink: int) -> set[int]:
    """The nodes on the source's side of the cheapest cut, the smallest such set.

    By Dinic's method, in Python: the graphs of a step have up to some thousand edges, for which SciPy's takes longer to import.

    Args:
        weights: edge (from, to) -> its weight.
        source: a node.
        sink: another node, with the largest number.

    Reference: Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970.
    """
    ends: list[int] = []  # each edge is followed by the edge back
    left: list[int] = []
    edges: list[list[int]] = [[] for _ in range(sink + 1)]
    for (start, end), weight in weights.items():
        edges[start].append(len(ends))
        edges[end].append(len(ends) + 1)
        ends += end, start
        left += weight, 0
    while True:
        steps = _steps_to(sink, source, ends, left, edges)
        if steps[source] < 0:
            break
        _saturate(source, sink, ends, left, edges, steps)
    reached, waiting = {source}, [source]
    for node in waiting:
        for edge in edges[node]:
            if left[edge] and ends[edge] not in reached:
                reached.add(ends[edge])
                waiting.append(ends[edge])
    return reached


def _steps_to(sink: int, source: int, ends: list[int], left: list[int], edges: list[list[int]]) -> list[int]:
    """The least number of edges with something left from each node to the sink; -1: there is no way, or none that is shorter than that from
    the source, so no shortest way from there leads through the node."""
    steps = [-1] * (sink + 1)
    steps[sink] = 0
    waiting = [sink]
    for node in waiting:
        farther = steps[node] + 1
        for edge in edges[node]:
            end = ends[edge]
            if steps[end] < 0 and left[edge ^ 1]:
                if end == source:
                    steps[end] = farther
                    return steps
                steps[end] = farther
                waiting.append(end)
    return steps


def _saturate(source: int, sink: int, ends: list[int], left: list[int], edges: list[list[int]], steps: list[int]) -> None:
    """Send flow along shortest ways until none is left. `left` changes in place, and so does `steps` at nodes without a way."""
    untried: dict[int, Iterator[int]] = {}  # of the nodes that a way led to
    path: list[int] = []
    node = source
    while True:
        if node == sink:
            amount = min(left[edge] for edge in path)
            for edge in path:
                left[edge] -= amount
                left[edge ^ 1] += amount
            full = next(place for place, edge in enumerate(path) if not left[edge])
            node = ends[path[full] ^ 1]
            del path[full:]
        if node not in untried:
            untried[node] = iter(edges[node])
        for edge in untried[node]:
            if left[edge] and steps[ends[edge]] == steps[node] - 1:
                path.append(edge)
                node = ends[edge]
                break
        else:
            if node == source:
                return
            steps[node] = -1
            node = ends[path.pop() ^ 1]
