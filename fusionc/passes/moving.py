"""What the passes about Transpose and Reshape have in common."""

from __future__ import annotations

from fusionc.model.graph import Node
from fusionc.rewrite import Match, Result, Tape, refuse


def order_of(node: Node) -> list[int]:
    """The order of axes of a Transpose; empty where it is not known."""
    perm = node.attr("perm")
    if perm:
        return [int(axis) for axis in perm]
    rank = None if node.inputs[0] is None else node.inputs[0].rank
    return list(range(rank or 0))[::-1]


def swaps_last_axes(transpose: Node) -> bool:
    """Whether a Transpose exchanges the last two axes, and no others."""
    order = order_of(transpose)
    rank = len(order)
    return rank > 1 and order == [*range(rank - 2), rank - 1, rank - 2]


def transpose_transpose(m: Match, new: Tape) -> Result:
    """y = T₂(T₁(x)): axis i of y is axis p₂[i] of T₁(x), which is axis p₁[p₂[i]] of x."""
    first, second = m.first.attr("perm"), m.second.attr("perm")
    rank = len(first or second or ()) or m.x.rank
    if not rank:
        refuse("the rank is unknown")
    first, second = first or range(rank)[::-1], second or range(rank)[::-1]
    order = [first[axis] for axis in second]
    return m.x if order == sorted(order) else new.Transpose(m.x, like=m.second, perm=order)


def reshape_reshape(m: Match, new: Tape) -> Result:
    """Only the second shape counts, unless a zero in it copies a dimension of what the first one made."""
    target = m.shape.constant()
    if target is None or (not m.second.attr("allowzero") and (target == 0).any()):
        refuse("the second shape may copy dimensions of the first")
    return new.Reshape(m.x, m.shape, like=m.second)
