"""Split a cluster into regions (groups of operators that become one kernel). Each split pattern
runs once over all regions, in topological order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from fusionc.graph_kernel.select.split.regions import Region, Regions
from fusionc.graph_kernel.select.split.split_patterns import PATTERNS, SplitPattern
from fusionc.graph_kernel.select.split.stitch import STITCH
from fusionc.model.graph import Graph, Node
from fusionc.rewrite.log import PatternCount

SPLITTER = "graph_kernel_splitter"
SPLIT_PATTERNS = (*PATTERNS, STITCH)  # in the order in which they run
_TOO_LARGE = "the area would have too many operators"


def split(
    graph: Graph,
    patterns: Sequence[SplitPattern],
    why_unsupported: Callable[[Node], str | None],
    most: int,
    graph_id: int = 0,
) -> tuple[list[Region], list[PatternCount]]:
    """The regions of a cluster, and one count for each pattern.

    `why_unsupported` gives the reason why a kernel cannot contain an operator, or None. `most` is
    the largest number of operators that a region may have.
    """
    regions = Regions(graph, why_unsupported)
    counts = [PatternCount(graph_id, "GraphKernel", SPLITTER, pattern.name) for pattern in patterns]
    for pattern, count in zip(patterns, counts, strict=True):
        start = perf_counter()
        for region in regions:
            current = region
            while (
                current in regions
                and current.reason is None
                and (found := pattern.find(current, regions))
            ):
                fitting = _fitting(current, found, most)
                if not fitting:
                    count.refused[_TOO_LARGE] = count.refused.get(_TOO_LARGE, 0) + 1
                    break
                count.effected += 1
                for neighbour in fitting:
                    current = regions.fuse(current, neighbour)
        count.seconds = perf_counter() - start
    return sorted(regions, key=lambda region: min(node.position for node in region.nodes)), counts


def _fitting(region: Region, found: Sequence[Region], most: int) -> list[Region]:
    """The regions of `found` that `region` can take without having more than `most` operators. If
    it cannot take all of them, it takes the smallest ones.
    """
    room = most - len(region.nodes)
    if sum(len(neighbour.nodes) for neighbour in found) <= room:
        return list(found)
    fitting = []
    for neighbour in sorted(found, key=lambda r: len(r.nodes)):
        room -= len(neighbour.nodes)
        if room < 0:
            break
        fitting.append(neighbour)
    return fitting
