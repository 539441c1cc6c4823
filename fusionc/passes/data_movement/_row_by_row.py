"""Row by row: from which rows of its inputs an operator computes the rows of its result.

The rows of a value are what lies along one of its axes, counted from the front. An operator that
works row by row gives the same rows when it gets only these rows of some inputs (which carry them)
and all of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fusionc.model.graph import Edge, Node, Shape
from fusionc.passes._shared.constants import shape_of
from fusionc.passes._shared.elementwise_operators import is_of_one, is_of_several
from fusionc.passes._shared.reduce_axes import known_axes
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.passes._shared.transpose_and_reshape import axes_of

Carriers = dict[int, int]  # which inputs bring the rows, by position, and along which of their axes


def carriers(node: Node, axis: int) -> Carriers | None:
    """Which inputs bring the rows along an axis of the first output; None where it is not computed
    row by row, or that is not known.
    """
    result = node.outputs[0]
    if result is None or result.rank is None or node.has_references or node.domain != "":
        return None
    if any(value is not None and value.is_used for value in node.outputs[1:]):
        return None
    if is_of_one(node):
        return {0: axis}
    if is_of_several(node):
        return _aligned(node.inputs, axis, result.shape)
    rule = _RULES.get(node.op)
    first = shape_of(node.inputs[0]) if rule is not None else None
    if rule is None or first is None or result.shape is None:
        return None
    return rule(node, axis, first, result.shape)


def _aligned(
    inputs: Sequence[Edge | None], axis: int, shape: Shape | None, trailing: int = 0
) -> Carriers | None:
    """Of values that are broadcast: those that are as long as the result along the axis. None where
    that is unknown.
    """
    found: Carriers = {}
    for position, value in enumerate(inputs):
        own = shape_of(value)
        if own is None or shape is None or len(own) < trailing:
            return None
        at = axis - (len(shape) - len(own))
        if at < 0 or own[at] == 1:
            continue
        if own[at] is None or own[at] != shape[axis]:
            return None
        found[position] = at
    return found or None


def _normalization(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    begin = node.attr("axis") % len(shape)
    others = [shape if own is None else own for own in map(shape_of, node.inputs[1:])]
    given = [own for own, value in zip(others, node.inputs[1:], strict=True) if value is not None]
    return (
        {0: axis} if axis < begin and all(len(own) <= len(shape) - begin for own in given) else None
    )


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
    found = {1: int(not node.attr("transB"))} if axis else {0: int(bool(node.attr("transA")))}
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = shape_of(node.inputs[2])
        if bias is None:
            return None
        at = axis - (2 - len(bias))
        if at >= 0 and bias[at] != 1:
            if bias[at] is None or bias[at] != shape[axis]:
                return None
            found[2] = at
    return found


def _conv(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    weight = shape_of(node.inputs[1])
    if weight is None or axis == 0:
        return None if weight is None else {0: 0}
    if axis == 1:
        return dict.fromkeys(range(1, len(node.inputs)), 0) if node.attr("group") == 1 else None
    is_one = all(d == 1 for d in weight[2:]) and not any(node.attr("pads") or [0])
    return (
        {0: axis} if is_one and all(stride == 1 for stride in node.attr("strides") or [1]) else None
    )


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
    """The axis of x that has as many rows, and as many elements in each."""
    target = None if node.inputs[1] is None else node.inputs[1].constant()
    rows = shape[axis]
    behind = _count(shape[axis + 1 :])
    if (
        target is None
        or target.shape != (len(shape),)
        or rows in (None, 0, 1)
        or not behind
        or (node.attr("allowzero") and 0 in target)
    ):
        return None
    for own in range(len(x)):
        if x[own] == rows and _count(x[own + 1 :]) == behind:
            copies_rows = own != axis and own < len(target) and target[own] == 0
            return None if copies_rows else {0: own}
    return None


def _count(dims: Shape) -> int:
    numbers = [d for d in dims if isinstance(d, int)]
    return math.prod(numbers) if len(numbers) == len(dims) else 0


def _concat(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    return None if axis_of(node, len(x)) == axis else dict.fromkeys(range(len(node.inputs)), axis)


def _gather(node: Node, axis: int, x: Shape, shape: Shape) -> Carriers | None:
    """Of embeddings, the indices bring the rows."""
    index = node.inputs[1]
    first = node.attr("axis") % len(x)
    if (
        index is None
        or index.is_constant
        or index.rank is None
        or not first <= axis < first + index.rank
    ):
        return None
    return {1: axis - first}


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
