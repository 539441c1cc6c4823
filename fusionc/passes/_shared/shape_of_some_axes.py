"""Shape of some axes only."""

from __future__ import annotations

from fusionc.model.graph import Graph

_OF_SOME_AXES = 15  # the first opset in which Shape has a start and an end


def can_take_some_axes(graph: Graph) -> bool:
    """Whether Shape has a start and an end at the graph's opset."""
    return graph.opset >= _OF_SOME_AXES
