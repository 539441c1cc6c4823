"""Which operators work row by row, and from which inputs they read the rows.

The rows of a value are its slices along one axis. An operator works row by row if selected rows of
its result depend only on the same rows of some inputs (the carriers), and on all of the other
inputs.
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

Carriers = dict[int, int]  # position of each input that carries the rows → the axis of its rows


def carriers(node: Node, axis: int) -> Carriers | None:
    """The inputs that carry the rows of the first output along `axis`, each with the axis of its
    rows. None if the operator is not known to work row by row.
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
    """Whether a node is a standard operator whose only used output is the first one, with a known
    rank.
    """
    result = node.outputs[0]
    if result is None or result.rank is None or node.has_references or node.domain != "":
        return False
    return not any(value is not None and value.is_used for value in node.outputs[1:])


def _aligned(
    inputs: Sequence[Edge | None], axis: int, shape: Shape | None, trailing: int = 0
) -> Carriers | None:
    """The broadcast inputs that have the length of the result along the axis; None if unknown."""
    aligned: Carriers = {}
    for position, value in enumerate(inputs):
        input_shape = shape_of(value)
        if input_shape is None or shape is None or len(input_shape) < trailing:
            return None
        operand_axis = axis - (len(shape) - len(input_shape))
        if operand_axis < 0 or input_shape[operand_axis] == 1:
            continue
        if input_shape[operand_axis] is None or input_shape[operand_axis] != shape[axis]:
            return None
        aligned[position] = operand_axis
    return aligned or None


def _normalization(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    begin = node.attr("axis") % len(shape)
    parameters = [shape_of(value) for value in node.inputs[1:] if value is not None]
    ranks = [len(shape if input_shape is None else input_shape) for input_shape in parameters]
    is_outside = axis < begin and all(rank <= len(shape) - begin for rank in ranks)
    return {0: axis} if is_outside else None


def _softmax(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    softmax_axis = node.attr("axis") % len(shape)  # before opset 13, all later axes are included
    return (
        {0: axis}
        if axis < softmax_axis or (axis > softmax_axis and node.graph.opset >= 13)
        else None
    )


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
        operand_axis = axis - (2 - len(bias))
        if operand_axis >= 0 and bias[operand_axis] != 1:
            if bias[operand_axis] is None or bias[operand_axis] != shape[axis]:
                return None
            gemm[2] = operand_axis
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
    """Whether each pixel of a Conv depends only on the input pixel at the same position."""
    ones = [*weight[2:], *(conv.attr("strides") or ())]
    return all(size == 1 for size in ones) and not any(conv.attr("pads") or ())


def _transpose(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    return {0: (node.attr("perm") or list(range(len(x)))[::-1])[axis]}


def _squeeze(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    axes = axes_of(node)
    return None if axes is None else {0: _remaining_axes(axes, len(x))[axis]}


def _unsqueeze(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    axes = axes_of(node)
    remaining = [] if axes is None else _remaining_axes(axes, len(shape))
    return {0: remaining.index(axis)} if axis in remaining else None


def _remaining_axes(axes: Sequence[int], rank: int) -> list[int]:
    removed = {axis % rank for axis in axes}
    return [axis for axis in range(rank) if axis not in removed]


def _reshape(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    """The axis of x with as many rows as the result has along `axis`, and with as many elements in
    each row.
    """
    target = None if node.inputs[1] is None else node.inputs[1].constant()
    if target is None or target.shape != (len(shape),):
        return None
    if node.attr("allowzero") and 0 in target:
        return None
    input_shape = _same_rows(x, axis, shape)
    if input_shape is None:
        return None
    copies_rows = input_shape != axis and input_shape < len(target) and target[input_shape] == 0
    return None if copies_rows else {0: input_shape}


def _same_rows(x: Shape, axis: int, shape: Shape) -> int | None:
    """The axis of x with as many rows as `axis` of `shape`, and as many elements in each row."""
    rows = shape[axis]
    row_size = _count(shape[axis + 1 :])
    if rows in (None, 0, 1) or not row_size:
        return None
    axes = (
        input_shape
        for input_shape in range(len(x))
        if x[input_shape] == rows and _count(x[input_shape + 1 :]) == row_size
    )
    return next(axes, None)


def _count(dims: Shape) -> int:
    """The number of elements; 0 if a dimension is unknown."""
    numbers = [d for d in dims if isinstance(d, int)]
    return math.prod(numbers) if len(numbers) == len(dims) else 0


def _concat(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    return None if axis_of(node, len(x)) == axis else dict.fromkeys(range(len(node.inputs)), axis)


def _gather(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    """The indices carry the rows, as in the lookup of an embedding."""
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
