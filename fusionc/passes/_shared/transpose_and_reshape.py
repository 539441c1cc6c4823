"""What the passes about Transpose and Reshape have in common."""

from __future__ import annotations

from fusionc.model.graph import Node, Shape
from fusionc.rewrite import Match, Result, Tape, refuse
from fusionc.shapes.equality import same_shape


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


def transpose_of_groups(m: Match, new: Tape) -> Result:
    """Reshape(Transpose(Reshape(x))), where the first Reshape joins axes and the second one parts them again."""
    whole, joint, made = (value.shape for value in (m.x, m.turn.inputs[0], m.second.outputs[0]))
    if whole is None or joint is None or made is None:
        refuse("the ranks are unknown")
    for groups in _groups(whole, joint):
        order = [axis for group in order_of(m.turn) for axis in groups[group]]
        if same_shape(made, [whole[axis] for axis in order]):
            return new.Transpose(m.x, like=m.turn, perm=order)
    refuse("the axes are not known to be joined and parted again")


def _groups(whole: Shape, joint: Shape) -> list[list[list[int]]]:
    """The axes of the whole that each axis of the joint shape can have: one each, but for one that has several."""
    several = len(whole) - len(joint) + 1
    found = []
    for at in range(len(joint) if several > 1 else 0):
        if same_shape(joint[:at], whole[:at]) and same_shape(joint[at + 1 :], whole[at + several :]):
            axes = list(range(len(whole)))
            found.append([*([a] for a in axes[:at]), axes[at : at + several], *([a] for a in axes[at + several :])])
    return found
