import math

import numpy as np

from fusionc.model.graph import Edge, Shape
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, op, refuse, var
from fusionc.shapes.expressions import is_static

_MIN_ELEMENTS = 100  # with fewer elements, the two Reshapes cost more time than they save


def _axis(m: Match) -> int:
    """The axis of the Softmax, counted from the front; −1 if the rank is unknown."""
    return -1 if m.x.rank is None else m.softmax.attr("axis", -1) % m.x.rank


def _has_axes_after(m: Match) -> bool:
    """Whether at least two axes are known to follow the axis of the Softmax, at opset 13 or later.

    Before opset 13, Softmax normalizes over its axis and all later ones.
    """
    return m.opset >= 13 and m.x.rank is not None and _axis(m) < m.x.rank - 2


def _constant_shapes(shape: Shape, axis: int) -> tuple[list[int] | None, list[int] | None]:
    """The target shapes of two Reshapes: the first joins the axes after `axis` into one, the second
    separates them again.

    In a target shape, a 0 keeps the dimension, and −1 becomes the number that fits the number of
    elements. A target shape is None if no constant can express it for every run: only one dimension
    may be −1, and only if no other dimension can be 0.
    """
    leading = shape[: axis + 1]
    trailing = shape[axis + 1 :]
    kept = [0] * len(leading)
    known = [dim for dim in trailing if isinstance(dim, int)]
    if len(known) == len(trailing):
        return [*kept, math.prod(known)], [*kept, *known]
    if not all(isinstance(dim, int) and dim > 0 for dim in leading):
        return None, None
    if len(known) < len(trailing) - 1:
        return [*kept, -1], None
    return [*kept, -1], [*kept, *(dim if isinstance(dim, int) else -1 for dim in trailing)]


def _joined_shape(m: Match, new: Tape, axis: int) -> Edge:
    """A shape that is computed when the model runs: the sizes of m.x up to `axis`, then the product
    of its later sizes.
    """
    trailing = new_reduce(new, "ReduceProd", new.Shape(m.x, start=axis + 1), [0], keepdims=True)
    return new.Concat(new.Shape(m.x, end=axis + 1), trailing, axis=0)


def _allow_computed_zeros(sizes: Edge) -> dict[str, int]:
    """The attribute that makes a Reshape read a 0 among computed sizes as a size. Without this
    attribute, a 0 copies a dimension.
    """
    return {} if sizes.is_constant else {"allowzero": 1}


class SoftmaxReshapePass(UBFusionPass):
    """The axes after the axis of a Softmax, such as the rows and columns of an image, are joined
    into one axis, which onnxruntime transposes faster.

    before   Softmax(x, axis) or LogSoftmax(x, axis), with two or more axes after `axis`
    after    Reshape(Softmax(Reshape(x, [.., size, rest]), axis), shape of x)
    refuses  later axes whose sizes are all 1, or one of whose sizes is 0; fewer than 100 elements;
             below opset 15, sizes that constant shapes cannot express
    algebra  Softmax normalizes along one axis, so the other axes may be joined
    source   measured: onnxruntime exchanges the axis of the Softmax with the last axis, computes
             along the last axis, and exchanges them again. With only one later axis, each exchange
             transposes a matrix: the Softmax takes 0.15 to 0.7 of the time, for 500 to 4 million
             elements
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
            refuse("fewer than two axes follow the axis of the Softmax")
        if is_static(shape) and math.prod(shape) < _MIN_ELEMENTS:
            refuse("the Softmax has few elements")
        joined, separate = _constant_shapes(shape, axis)
        if separate is None:
            m.require_opset(15, "Shape lacks start and end")
        rows_shape = (
            _joined_shape(m, new, axis) if joined is None else new.const(np.array(joined, np.int64))
        )
        shape_of_x = new.Shape(m.x) if separate is None else new.const(np.array(separate, np.int64))
        rows = new.Reshape(m.x, rows_shape, **_allow_computed_zeros(rows_shape))
        softmax = new.node(m.softmax.op, [rows], like=m.softmax, axis=axis)
        return new.Reshape(softmax, shape_of_x, **_allow_computed_zeros(shape_of_x))
