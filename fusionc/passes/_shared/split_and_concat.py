"""What the passes about Split and Concat have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Node, Value
from fusionc.rewrite import Tape


def axis_of(node: Node, rank: int | None) -> int | None:
    """The axis of a Split or Concat, counted from the front; None where that needs an unknown rank."""
    axis = int(node.attr("axis", 0))
    if axis >= 0:
        return axis
    return None if rank is None else axis + rank


def sizes_of(split: Node) -> list[int] | None:
    """The sizes of the pieces, or None where they are not known before the model runs."""
    written = split.attr("split")
    if written:
        return [int(size) for size in written]
    if len(split.inputs) > 1 and split.inputs[1] is not None:
        given = split.inputs[1].constant()
        return None if given is None else [int(size) for size in given]
    whole = split.inputs[0]
    shape = None if whole is None else whole.shape
    axis = axis_of(split, None if shape is None else len(shape))
    count = len(split.outputs)
    total = None if shape is None or axis is None else shape[axis]
    if not isinstance(total, int):
        return None
    piece = -(-total // count)  # opset 18: the last piece is smaller where it does not divide
    last = total - piece * (count - 1)
    return None if last < 0 else [piece] * (count - 1) + [last]


def new_split(new: Tape, x: Edge, sizes: Sequence[int], axis: int) -> tuple[Value, ...]:
    """A Split of these sizes as the opset writes it; returns its outputs."""
    if new.graph.opset < 13:
        return new.node("Split", [x], outputs=len(sizes), axis=axis, split=list(sizes))
    return new.node("Split", [x, new.const(np.array(sizes, np.int64))], outputs=len(sizes), axis=axis)


def are_all_pieces(pieces: Sequence[Edge | None], split: Node) -> bool:
    """Whether these are all outputs of the Split, in their order."""
    return len(pieces) == len(split.outputs) and all(p is o for p, o in zip(pieces, split.outputs, strict=True))
