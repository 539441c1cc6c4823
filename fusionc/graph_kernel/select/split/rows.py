"""Rows: what reductions and normalizations go over, element by element, before the next row."""

from __future__ import annotations

from fusionc.graph_kernel.select.area_values import symbol
from fusionc.model.graph import Node
from fusionc.operators.facts import Trait, names_with

Row = tuple[int | str, ...]  # the sizes of the last axes
_ROW_NORMS = names_with(Trait.ROW_NORM)
_SOFTMAX = names_with(Trait.SOFTMAX)
_ROWS_OF_SOFTMAX = 13  # before this opset, Softmax took all axes behind the first one it was told


def row_of(node: Node) -> Row | None:
    """The row that this operator goes over; None where it goes over none, or not over the last
    axes.
    """
    x = node.inputs[0] if node.inputs else None
    if x is None or x.shape is None or node.domain != "":
        return None
    axes = _axes(node, len(x.shape))
    sizes = x.shape[len(x.shape) - len(axes) :] if axes else ()
    if not axes or axes != list(range(len(x.shape) - len(axes), len(x.shape))):
        return None
    return tuple(symbol(x, axis, size) for axis, size in zip(axes, sizes, strict=True))


def _axes(node: Node, rank: int) -> list[int]:
    """The axes that are gone over, in order; none where they are not known."""
    if node.op in _ROW_NORMS:
        return list(range(node.attr("axis") % rank, rank)) if rank else []
    if node.op in _SOFTMAX:
        axis = node.attr("axis", -1) % rank if rank else 0
        return [axis] if node.graph.opset >= _ROWS_OF_SOFTMAX else list(range(axis, rank))
    if not node.op.startswith("Reduce"):
        return []
    axes = node.attr("axes")
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is not None:
        array = given.constant()
        if array is None:
            return []
        axes = [int(axis) for axis in array.reshape(-1)]
    if not axes:
        return [] if node.attr("noop_with_empty_axes") else list(range(rank))
    return sorted(axis % rank for axis in axes) if rank else []
