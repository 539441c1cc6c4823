import math

import numpy as np

from fusionc.model.graph import Edge, Shape
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, op, refuse, var
from fusionc.shapes.expressions import is_static

_FEWEST = 100  # elements; with fewer, the two Reshapes take longer than they save


def _axis(m: Match) -> int:
    """The axis, counted from the first one; −1 if the rank is unknown."""
    return -1 if m.x.rank is None else m.softmax.attr("axis", -1) % m.x.rank


def _has_axes_after(m: Match) -> bool:
    """Whether two or more axes are known to follow its axis. Below opset 13 Softmax reads along
    all of them.
    """
    return m.opset >= 13 and m.x.rank is not None and _axis(m) < m.x.rank - 2


def _numbers(shape: Shape, axis: int) -> tuple[list[int] | None, list[int] | None]:
    """The shapes by which Reshape joins the axes after `axis` into one, and separates them again.

    A 0 means that an axis stays. None if numbers cannot express it for every run: −1 cannot replace
    two dimensions, and not one if another may be 0.
    """
    leading = shape[: axis + 1]
    trailing = shape[axis + 1 :]
    stay = [0] * len(leading)
    known = [dim for dim in trailing if isinstance(dim, int)]
    if len(known) == len(trailing):
        return [*stay, math.prod(known)], [*stay, *known]
    if not all(isinstance(dim, int) and dim > 0 for dim in leading):
        return None, None
    if len(known) < len(trailing) - 1:
        return [*stay, -1], None
    return [*stay, -1], [*stay, *(dim if isinstance(dim, int) else -1 for dim in trailing)]


def _joined_shape(m: Match, new: Tape, axis: int) -> Edge:
    """The sizes up to the axis and the product of the later ones, computed when the model runs."""
    trailing = new_reduce(new, "ReduceProd", new.Shape(m.x, start=axis + 1), [0], keepdims=True)
    return new.Concat(new.Shape(m.x, end=axis + 1), trailing, axis=0)


def _zero_options(sizes: Edge) -> dict[str, int]:
    """The attribute of a Reshape by which computed zeros are sizes."""
    return {} if sizes.is_constant else {"allowzero": 1}


class SoftmaxReshapePass(UBFusionPass):
    """Softmax over the channels of an image: the axes after them become one, so that onnxruntime
    transposes faster.

    before   Softmax(x, axis), with two or more axes after it, and LogSoftmax
    after    Reshape(Softmax(Reshape(x, [.., size, rest]), axis), shape of x)
    refuses  later axes that are known to have one element together, or none; fewer than 100
             elements; below opset 15, sizes that numbers cannot express
    algebra  Softmax reads along one axis, so it does not matter how the others are cut
    source   onnxruntime exchanges the axis with the last one, reads along that, and exchanges them
             again: with one later axis, that is a copy of a matrix; 0.15 to 0.7 of the time of
             Softmax, from 500 to 4 million elements
    """

    patterns = (
        Pattern(
            "Softmax",
            op[("Softmax", "LogSoftmax")](var("x"), _as="softmax"),
            where=_has_axes_after,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        axis = _axis(m)
        shape = m.x.shape
        trailing = shape[axis + 1 :]
        if 0 in trailing or set(trailing) == {1}:
            refuse("nothing is transposed")
        if is_static(shape) and math.prod(shape) < _FEWEST:
            refuse("there are few elements")
        joined, separate = _numbers(shape, axis)
        if separate is None:
            m.require_opset(15, "Shape cannot tell the sizes before and after the axis")
        rows_shape = (
            _joined_shape(m, new, axis) if joined is None else new.const(np.array(joined, np.int64))
        )
        shape_of_x = new.Shape(m.x) if separate is None else new.const(np.array(separate, np.int64))
        rows = new.Reshape(m.x, rows_shape, **_zero_options(rows_shape))
        softmax = new.node(m.softmax.op, [rows], like=m.softmax, axis=axis)
        return new.Reshape(softmax, shape_of_x, **_zero_options(shape_of_x))
