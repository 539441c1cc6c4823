import numpy as np

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var
from fusionc.shapes.elements import dimension, elements

x = var("x")
shape = var("shape")


def _reshape_target(m: Match) -> list[int] | None:
    """The shape in numbers: 0 for a dimension that is the one of x at that place, −1 for one
    other.
    """
    wanted = elements(m.shape)
    rank = m.x.rank
    if wanted is None or m.shape.is_constant or rank is None:
        return None
    target: list[int] = []
    for axis, element in enumerate(wanted):
        is_own = axis < rank and element == dimension(m.x, axis)
        target.append(element if isinstance(element, int) else 0 if is_own else -1)
    # With allowzero a 0 is a size. A −1 in place of another one would not do where that is 0.
    pairs = zip(wanted, target, strict=True) if m.node.attr("allowzero") else ()
    is_same = all(element != 0 and (made != -1 or element == -1) for element, made in pairs)
    return target if is_same and target.count(-1) <= 1 else None


def _expand_target(m: Match) -> list[int] | None:
    """The shape in numbers: 1 for a dimension that is the one of x, which Expand leaves as it
    is.
    """
    wanted = elements(m.shape)
    rank = m.x.rank
    if wanted is None or m.shape.is_constant or rank is None:
        return None
    offset = len(wanted) - rank
    target: list[int] = []
    for axis, element in enumerate(wanted):
        if axis >= offset and element == dimension(m.x, axis - offset):
            target.append(1)
        elif isinstance(element, int):
            target.append(element)
        else:
            return None
    return target


def _expand(m: Match, new: Tape) -> Result:
    return new.Expand(m.x, new.const(np.array(_expand_target(m), np.int64)), like=m.node)


def _can_reshape(m: Match) -> bool:
    """Whether the shape is made of numbers and dimensions of x at their places, and at most one
    other.
    """
    return _reshape_target(m) is not None


def _can_expand(m: Match) -> bool:
    """Whether the shape is made of numbers and dimensions of x at their places."""
    return _expand_target(m) is not None


class ShapeReshapePass(Pass):
    """A shape that is computed from dimensions becomes a constant.

    before   Reshape(x, s) with s made of Shape, Gather, Slice, Concat … and constants; Expand(x, s)
             likewise
    after    Reshape(x, [0, 12, −1, 64]): 0 where s has the dimension that x has there, −1 in at
             most one other place; Expand(x, [1, 8]): 1 where s has the dimension of x
    refuses  nothing of its own
    never    two dimensions that are not those of x at that place, or one with allowzero; a tensor
             without elements can be reshaped only where no −1 is needed, as in the model that
             onnxruntime makes itself
    algebra  the product of the dimensions stays, so that one of them follows from the others
    source   MindSpore's shape_reshape; onnxruntime's ReshapeFusion finds part of these
    """

    aliases = ("shape_reshape",)
    patterns = (
        Pattern("ShapeReshape", op.Reshape(x, shape, _as="node"), where=_can_reshape),
        Pattern("ShapeExpand", op.Expand(x, shape, _as="node"), _expand, where=_can_expand),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Reshape(
            m.x, new.const(np.array(_reshape_target(m), np.int64)), like=m.node, allowzero=None
        )
