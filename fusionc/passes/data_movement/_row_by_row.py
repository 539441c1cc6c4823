"""Row by row: the rows of its inputs from which an operator computes the rows of its result.

The rows of a value are its slices along one axis, counted from the front. An operator works row by
row if it gives the same rows when some inputs (the carriers) are reduced to these rows and the
other inputs stay whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fusionc.model.graph import Edge, Node, Shape
from fusionc.passes._shared.constants import shape_of
from fusionc.passes._shared.elementwise_operators import (
    is_broadcasting_elementwise,
    is_unary_elementwise,
)
from fusionc.passes._shared.reduce_axes import known_axes
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.passes._shared.transpose_and_reshape import axes_of

Carriers = dict[int, int]  # position of each input that carries the rows → its axis of the rows


def carriers(node: Node, axis: int) -> Carriers | None:
    """The inputs that carry the rows along an axis of the first output.

    None if the output is not computed row by row, or not known to be.
    """
    if not _has_one_plain_output(node):
        return None
    if is_unary_elementwise(node):
        return {0: axis}
    shape = shape_of(node.outputs[0])
    if is_broadcasting_elementwise(node):
        return _aligned(node.inputs, axis, shape)
    rule = _RULES.get(node.op)
    first = shape_of(node.inputs[0]) if rule is not None else None
    if rule is None or first is None or shape is None:
        return None
    return rule(node, axis, first, shape)


def _has_one_plain_output(node: Node) -> bool:
    """Whether only the first output of a standard operator is used, and its rank is known."""
    result = node.outputs[0]
    if result is None or result.rank is None or node.has_references or node.domain != "":
        return False
    return not any(value is not None and value.is_used for value in node.outputs[1:])


def _aligned(
    inputs: Sequence[Edge | None], axis: int, shape: Shape | None, trailing: int = 0
) -> Carriers | None:
    """The broadcast inputs that are as long as the result along the axis; None if unknown."""
    aligned: Carriers = {}
    for position, value in enumerate(inputs):
        own = shape_of(value)
        if own is None or shape is None or len(own) < trailing:
            return None
        at = axis - (len(shape) - len(own))
        if at < 0 or own[at] == 1:
            continue
        if own[at] is None or own[at] != shape[axis]:
            return None
        aligned[position] = at
    return aligned or None


def _normalization(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    begin = node.attr("axis") % len(shape)
    parameters = [shape_of(value) for value in node.inputs[1:] if value is not None]
    ranks = [len(shape if own is None else own) for own in parameters]
    is_outside = axis < begin and all(rank <= len(shape) - begin for rank in ranks)
    return {0: axis} if is_outside else None


def _softmax(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    along = node.attr("axis") % len(shape)  # before opset 13, all axes from there on
    return {0: axis} if axis < along or (axis > along and node.graph.opset >= 13) else None


def _reduce(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    axes = known_axes(node, len(x))
    if axes is None:
        return None
    if node.attr("keepdims"):
        return None if axis in axes else {0: axis}
    return {0: [a for a in range(len(x)) if a not in axes][axis]}


def _matmul(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    second = shape_of(node.inputs[1])
    if second is None or len(second) < 2 or len(x) < 2:
        return None
    if axis == len(shape) - 2:
        return {0: len(x) - 2}
    return (
        {1: len(second) - 1}
        if axis == len(shape) - 1
        else _aligned(node.inputs, axis, shape, trailing=2)
    )


def _gemm(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    gemm = {1: int(not node.attr("transB"))} if axis else {0: int(bool(node.attr("transA")))}
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = shape_of(node.inputs[2])
        if bias is None:
            return None
        at = axis - (2 - len(bias))
        if at >= 0 and bias[at] != 1:
            if bias[at] is None or bias[at] != shape[axis]:
                return None
            gemm[2] = at
    return gemm


def _conv(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    weight = shape_of(node.inputs[1])
    if weight is None:
        return None
    if axis == 0:
        return {0: 0}
    if axis == 1:
        return dict.fromkeys(range(1, len(node.inputs)), 0) if node.attr("group") == 1 else None
    return {0: axis} if _is_by_pixel(node, weight) else None


def _is_by_pixel(conv: Node, weight: Shape) -> bool:
    """Whether each pixel of a Conv is computed from the input pixel at the same place."""
    ones = [*weight[2:], *(conv.attr("strides") or ())]
    return all(size == 1 for size in ones) and not any(conv.attr("pads") or ())


def _transpose(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    return {0: (node.attr("perm") or list(range(len(x)))[::-1])[axis]}


def _squeeze(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    axes = axes_of(node)
    return None if axes is None else {0: _others(axes, len(x))[axis]}


def _unsqueeze(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    axes = axes_of(node)
    old = [] if axes is None else _others(axes, len(shape))
    return {0: old.index(axis)} if axis in old else None


def _others(axes: Sequence[int], rank: int) -> list[int]:
    gone = {axis % rank for axis in axes}
    return [axis for axis in range(rank) if axis not in gone]


def _reshape(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    """The axis of x with as many rows, and as many elements in each."""
    target = None if node.inputs[1] is None else node.inputs[1].constant()
    if target is None or target.shape != (len(shape),):
        return None
    if node.attr("allowzero") and 0 in target:
        return None
    own = _same_rows(x, axis, shape)
    if own is None:
        return None
    copies_rows = own != axis and own < len(target) and target[own] == 0
    return None if copies_rows else {0: own}


def _same_rows(x: Shape, axis: int, shape: Shape) -> int | None:
    """The axis of x that has as many rows as this axis of shape, and as many elements in each."""
    rows = shape[axis]
    row_size = _count(shape[axis + 1 :])
    if rows in (None, 0, 1) or not row_size:
        return None
    axes = (own for own in range(len(x)) if x[own] == rows and _count(x[own + 1 :]) == row_size)
    return next(axes, None)


def _count(dims: Shape) -> int:
    """The number of elements; 0 if a dimension is unknown."""
    numbers = [d for d in dims if isinstance(d, int)]
    return math.prod(numbers) if len(numbers) == len(dims) else 0


def _concat(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    return None if axis_of(node, len(x)) == axis else dict.fromkeys(range(len(node.inputs)), axis)


def _gather(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    """The indices carry the rows, as in an embedding."""
    index = node.inputs[1]
    if index is None or index.is_constant or index.rank is None:
        return None
    first = node.attr("axis") % len(x)
    return {1: axis - first} if first <= axis < first + index.rank else None


_RULES: dict[str, Callable[[Node, int, Shape, Shape], Carriers | None]] = {
    "LayerNormalization": _normalization,
    "RMSNormalization": _normalization,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare"),
        _reduce,
    ),
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Concat": _concat,
    "Gather": _gather,
}
