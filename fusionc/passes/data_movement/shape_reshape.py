from collections.abc import Sequence

import numpy as np

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var
from fusionc.shapes.elements import Element, dimension, elements

x = var("x")
shape = var("shape")


def _reshape_target(m: Match) -> list[int] | None:
    """The shape in numbers: 0 for a dimension that x has on the same axis, −1 for at most one other
    dimension. None if that is impossible.
    """
    wanted = elements(m.shape)
    rank = m.x.rank
    if wanted is None or m.shape.is_constant or rank is None:
        return None
    target: list[int] = []
    for axis, element in enumerate(wanted):
        is_own = axis < rank and element == dimension(m.x, axis)
        target.append(element if isinstance(element, int) else 0 if is_own else -1)
    if target.count(-1) > 1 or (m.node.attr("allowzero") and not _is_same(wanted, target)):
        return None
    return target


def _is_same(wanted: Sequence[Element], target: list[int]) -> bool:
    """Whether the target means the same if allowzero is set. In that case a 0 is a size instead of
    a copied dimension, and −1 cannot replace a dimension that is 0.
    """
    pairs = zip(wanted, target, strict=True)
    return all(element != 0 and (size != -1 or element == -1) for element, size in pairs)


def _expand_target(m: Match) -> list[int] | None:
    """The shape in numbers: 1 for a dimension that x has on the same axis, because Expand then
    keeps the dimension of x. None if that is impossible.
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
    """Whether the shape has only numbers, dimensions of x on the same axes, and at most one other
    dimension.
    """
    return _reshape_target(m) is not None


def _can_expand(m: Match) -> bool:
    """Whether the shape has only numbers and dimensions of x on the same axes."""
    return _expand_target(m) is not None


class ShapeReshapePass(Pass):
    """A shape that is computed from dimensions becomes a constant.

    before   Reshape(x, s) or Expand(x, s), where s is computed by Shape, Gather, Slice, Concat …
             and constants
    after    Reshape(x, [0, 12, −1, 64]), with 0 for a dimension of x on the same axis, and −1 for
             at most one other; Expand(x, [1, 8]), with 1 for a dimension of x on the same axis
    refuses  only what every pass refuses
    never    a shape with two dimensions that x does not have on the same axis, or with one such
             dimension if allowzero is set. If the new shape has a −1, Reshape rejects an empty
             tensor; onnxruntime's own optimizer has the same limit
    algebra  the product of the dimensions is constant, so one of them follows from the others
    source   MindSpore's shape_reshape; onnxruntime's ReshapeFusion finds some of these
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
