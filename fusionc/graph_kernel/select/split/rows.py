"""Rows: the elements that a reduction or normalization visits before it begins the next result.

Only rows along the last axes are considered.
"""

from __future__ import annotations

from fusionc.graph_kernel.select.area_values import symbol
from fusionc.model.graph import Node
from fusionc.operators.facts import Trait, names_with

Row = tuple[int | str, ...]  # the sizes of the last axes
_ROW_NORMS = names_with(Trait.ROW_NORM)
_SOFTMAX = names_with(Trait.SOFTMAX)
_ROWS_OF_SOFTMAX = 13  # before this opset, Softmax normalizes over its axis and all later axes


def row_of(node: Node) -> Row | None:
    """The row of an operator. `None` if it has no row, if the axes of its row are not the last
    axes, or if they are unknown.
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
    """The axes of the row, in order. Empty if the operator has no row or its axes are unknown."""
    if not rank:
        return []
    if node.op in _ROW_NORMS:
        return list(range(node.attr("axis") % rank, rank))
    if node.op in _SOFTMAX:
        axis = node.attr("axis", -1) % rank
        return [axis] if node.graph.opset >= _ROWS_OF_SOFTMAX else list(range(axis, rank))
    return _reduced_axes(node, rank) if node.op.startswith("Reduce") else []


def _reduced_axes(node: Node, rank: int) -> list[int]:
    axes = node.attr("axes")
    operand = node.inputs[1] if len(node.inputs) > 1 else None
    if operand is not None:
        array = operand.constant()
        if array is None:
            return []
        axes = [int(axis) for axis in array.reshape(-1)]
    if not axes:
        return [] if node.attr("noop_with_empty_axes") else list(range(rank))
    return sorted(axis % rank for axis in axes)
