"""The axis of a Softmax that is written out."""

from __future__ import annotations

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.reduce_axes import one_axis
from fusionc.rewrite import refuse


def softmax_axis(x: Edge, *reductions: Node) -> int:
    """The one axis of x along which all the given Reduce nodes work, for a Softmax of x.

    Refuses nodes with different axes, and an axis that Softmax does not support in the model's
    opset.
    """
    axes = {one_axis(node, x) for node in reductions}
    if len(axes) != 1:
        refuse("the reductions have different axes")
    (axis,) = axes
    opset = reductions[0].graph.opset
    rank = x.rank
    if opset < 13 and (axis != rank - 1 if rank is not None else axis != -1 or opset < 11):
        refuse("before opset 13, Softmax normalizes over its axis and all later ones", opset=13)
    return axis
