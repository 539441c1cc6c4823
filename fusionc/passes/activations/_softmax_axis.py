"""The axis of a Softmax that is written out."""

from __future__ import annotations

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.reduce_axes import one_axis
from fusionc.rewrite import refuse


def softmax_axis(x: Edge, *reductions: Node) -> int:
    """The axis of x along which all these nodes reduce, and a Softmax of x will. Refuses what
    Softmax cannot do.
    """
    axes = {one_axis(node, x) for node in reductions}
    if len(axes) != 1:
        refuse("not the same axes are reduced")
    (axis,) = axes
    opset = reductions[0].graph.opset
    rank = x.rank
    if opset < 13 and (axis != rank - 1 if rank is not None else axis != -1 or opset < 11):
        refuse("before opset 13 Softmax takes all axes from the given one on", opset=13)
    return axis
