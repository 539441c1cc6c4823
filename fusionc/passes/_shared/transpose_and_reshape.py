"""Transpose, Reshape, Squeeze and Unsqueeze: their axes, how to join two of them, and how to
create one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Node, Shape
from fusionc.model.tensors import Array
from fusionc.rewrite import Match, Result, Tape, refuse, unknown
from fusionc.shapes.elements import dimension, elements

_MAY_COPY = "the second shape may copy dimensions of the first"


def order_of(node: Node) -> list[int]:
    """The permutation of a Transpose; empty if neither the permutation nor the rank is known."""
    perm = node.attr("perm")
    if perm:
        return [int(axis) for axis in perm]
    rank = None if node.inputs[0] is None else node.inputs[0].rank
    return list(range(rank or 0))[::-1]


def swaps_last_axes(transpose: Node) -> bool:
    """Whether a Transpose exchanges the last two axes and keeps all others in place."""
    order = order_of(transpose)
    rank = len(order)
    return rank > 1 and order == [*range(rank - 2), rank - 1, rank - 2]


def transposed(new: Tape, x: Edge, order: Sequence[int]) -> Edge:
    """x with its axes in this order. A Transpose is added unless the order is the identity."""
    return x if list(order) == sorted(order) else new.Transpose(x, perm=list(order))


def axes_of(node: Node) -> list[int] | None:
    """The axes of a Squeeze, Unsqueeze or Reduce as written in its attribute or its input; None if
    they are omitted or unknown.
    """
    written = node.attr("axes")
    if written is not None:
        return [int(axis) for axis in written]
    vector = node.inputs[1] if len(node.inputs) > 1 else None
    array = None if vector is None else vector.constant()
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def new_unsqueeze(new: Tape, x: Edge, axes: Sequence[int], op: str = "Unsqueeze") -> Edge:
    """A new Unsqueeze (or Squeeze). The axes are an attribute or an input, depending on the graph's
    opset.
    """
    if new.graph.opset < 13:
        return new.node(op, [x], axes=list(axes))
    return new.node(op, [x, new.const(np.array(axes, np.int64))])


def transpose_transpose(m: Match, new: Tape) -> Result:
    """One Transpose (or none) in place of two in a row. Refuses an unknown rank.

    If y = T₂(T₁(x)), axis i of y is axis p₂[i] of T₁(x), which is axis p₁[p₂[i]] of x.
    """
    first = m.first.attr("perm")
    second = m.second.attr("perm")
    rank = len(first or second or ()) or m.x.rank
    if not rank:
        refuse(unknown("the rank"))
    first = first or range(rank)[::-1]
    second = second or range(rank)[::-1]
    order = [first[axis] for axis in second]
    return m.x if order == sorted(order) else new.Transpose(m.x, like=m.second, perm=order)


def reshape_reshape(m: Match, new: Tape) -> Result:
    """One Reshape in place of two in a row. Refuses if a 0 in the second shape may copy a dimension
    that x does not have at that axis, and no number can replace the 0.
    """
    middle = m.second.inputs[0]
    target = m.shape.constant()
    others = [
        index for index in _possibly_copied(m) if not _have_same_dimension(m.x, middle, index)
    ]
    if not others:
        return new.Reshape(m.x, m.shape, like=m.second)
    if target is None:
        refuse(_MAY_COPY)
    return new.Reshape(
        m.x, new.const(_without_copies(target, others, middle.shape), like=m.shape), like=m.second
    )


def _possibly_copied(m: Match) -> list[int]:
    """The axes at which the second shape may be 0. At such an axis, the second Reshape copies a
    dimension of the first result.
    """
    sizes = elements(m.shape)
    rank = m.second.outputs[0].rank
    if m.second.attr("allowzero"):
        return []
    if sizes is None and rank is None:
        refuse(_MAY_COPY)
    known = dict(enumerate(sizes or ()))
    return [
        index
        for index in range(rank or len(known))
        if known.get(index) == 0 or not isinstance(known.get(index), int)
    ]


def _without_copies(target: Array, copied: Sequence[int], shape: Shape | None) -> Array:
    """The target shape with numbers in place of the zeros at the axes `copied`. `shape` is the
    shape that they copy. An unknown dimension becomes −1; refuses if the target then has a 0 or
    another −1.
    """
    known = dict(enumerate(shape or ()))
    sizes = {
        index: size if isinstance(size := known.get(index), int) and size > 0 else -1
        for index in copied
    }
    wanted = target.reshape(-1).copy()
    for index, size in sizes.items():
        wanted[index] = size
    if -1 in sizes.values() and (wanted <= 0).sum() > 1:
        refuse(_MAY_COPY)
    return wanted


def _have_same_dimension(x: Edge, middle: Edge | None, axis: int) -> bool:
    """Whether two values have the same dimension at this axis in every run of the model."""
    if middle is None or x.rank is None or middle.rank is None or axis >= min(x.rank, middle.rank):
        return False
    return dimension(x, axis) == dimension(middle, axis)
