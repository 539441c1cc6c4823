"""The attributes start and end of Shape."""

from __future__ import annotations

from fusionc.model.graph import Graph

_START_END_OPSET = 15  # the first opset in which Shape has a start and an end


def can_take_some_axes(graph: Graph) -> bool:
    """Whether Shape has the attributes start and end at the graph's opset."""
    return graph.opset >= _START_END_OPSET
