"""What the passes about Reduce operators and normalizations have in common."""

from __future__ import annotations

from fusionc.model.graph import Edge, Node
from fusionc.rewrite import refuse


def reduced_axes(node: Node, rank: int | None) -> list[int]:
    """The axes that a Reduce operator reduces, counted from the front, in order; attribute or input by opset.

    Refuses where they are not known before the model runs.
    """
    if rank is None:
        refuse("the rank is unknown")
    axes = node.attr("axes")
    if not axes and len(node.inputs) > 1 and node.inputs[1] is not None:
        given = node.inputs[1].constant()
        if given is None:
            refuse("the axes are not known before the model runs")
        axes = [int(axis) for axis in given.reshape(-1)]
    if not axes:
        return [] if node.attr("noop_with_empty_axes") else list(range(rank))
    return sorted(axis % rank for axis in axes)


def trailing_axis(node: Node, x: Edge) -> int:
    """The first axis of a Reduce operator that keeps its dimensions and reduces all axes from there to the last.

    Refuses other Reduce operators.
    """
    axes, rank = reduced_axes(node, x.rank), x.rank or 0
    if not axes or axes != list(range(axes[0], rank)):
        refuse("not the last axes are reduced")
    if not node.attr("keepdims"):
        refuse("the reduced axes are dropped")
    return axes[0]


def one_axis(node: Node, x: Edge) -> int:
    """The only axis of a Reduce operator that keeps its dimensions, as written where the rank of x is unknown.

    Refuses other Reduce operators.
    """
    if x.rank is None:
        given = node.inputs[1].constant() if len(node.inputs) > 1 and node.inputs[1] is not None else None
        axes = [int(axis) for axis in (node.attr("axes") or []) if given is None]
        axes = axes if given is None else [int(axis) for axis in given.reshape(-1)]
    else:
        axes = reduced_axes(node, x.rank)
    if len(axes) != 1:
        refuse("not exactly one axis is reduced")
    if not node.attr("keepdims"):
        refuse("the reduced axes are dropped")
    return axes[0]
