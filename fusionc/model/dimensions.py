"""What a tensor of shape arithmetic holds: numbers, and symbols for dimensions that are known when the model runs.

onnx propagates such values inside its inference but does not hand them out.
"""

from __future__ import annotations

from fusionc.model.graph import Edge, Node

Element = int | str | tuple[int, int]  # a number, a symbol, or (identity of a value, axis) for a dimension without one
_DEPTH = 16  # operators between a Shape and its use
_SAME_ELEMENTS = frozenset({"Identity", "Unsqueeze", "Squeeze", "Cast"})


def dimension(value: Edge, axis: int) -> Element:
    """One dimension of a value, as an element that is equal to another one only if both are always equal."""
    shape = value.shape
    known = None if shape is None else shape[axis]
    return (id(value), axis) if known is None else known


def elements(value: Edge | None, depth: int = _DEPTH) -> list[Element] | None:
    """The elements of a vector or scalar of integers in order; None where they cannot be followed."""
    if value is None or depth == 0:
        return None
    if value.is_constant:
        array = value.constant()
        if array is None or array.dtype.kind not in "iu" or array.ndim > 1:
            return None
        return [int(element) for element in array.reshape(-1)]
    node = value.producer
    if node is None or node.domain != "" or node.has_references:
        return None
    if node.op == "Shape":
        return _of_shape(node)
    if node.op in _SAME_ELEMENTS:
        inner = elements(node.inputs[0], depth - 1)
        is_integer = node.op != "Cast" or node.attr("to") in (6, 7)  # int32, int64
        return inner if is_integer and value.rank in (0, 1) else None
    if node.op == "Concat":
        parts = [elements(part, depth - 1) for part in node.inputs]
        return None if None in parts else [e for part in parts if part is not None for e in part]
    if node.op == "Where":
        return _chosen(node, depth)
    if node.op == "Gather":
        return _gathered(node, depth)
    return _sliced(node, depth) if node.op == "Slice" else None


def _of_shape(node: Node) -> list[Element] | None:
    whole = node.inputs[0]
    rank = None if whole is None else whole.rank
    if whole is None or rank is None:
        return None
    return [dimension(whole, axis) for axis in range(rank)][slice(node.attr("start", 0), node.attr("end"))]


def _chosen(node: Node, depth: int) -> list[Element] | None:
    """Where(Equal(s, t), a, s): exporters write it to put 1 for −1, which no dimension is."""
    condition = None if node.inputs[0] is None else node.inputs[0].producer
    if condition is None or not condition.is_op("Equal"):
        return None
    lists = [elements(value, depth - 1) or [] for value in (*condition.inputs, *node.inputs[1:])]
    count = max(map(len, lists))
    if any(len(found) not in (1, count) for found in lists):
        return None
    result: list[Element] = []
    for left, right, then, otherwise in zip(*(e * count if len(e) == 1 else e for e in lists), strict=True):
        numbers = [e for e in (left, right) if isinstance(e, int)]
        if len(numbers) == 2 or left == right:
            result.append(then if left == right else otherwise)
        elif numbers and numbers[0] < 0:
            result.append(otherwise)
        else:
            return None
    return result


def shape_made(node: Node) -> list[Element] | None:
    """The shape of what Range, Expand, Reshape or ConstantOfShape makes, where it is computed from dimensions; onnx's
    inference loses the symbols there."""
    if node.op == "Range":
        limits = [elements(value) for value in node.inputs]
        return limits[1] if limits[0] == [0] and limits[2] == [1] and limits[1] and len(limits[1]) == 1 else None
    if node.op == "ConstantOfShape":
        return elements(node.inputs[0])
    wanted, x = elements(node.inputs[1]) if len(node.inputs) > 1 else None, node.inputs[0]
    if wanted is None or x is None:
        return None
    if node.op == "Reshape":  # 0 and −1 stand for something else
        return wanted if not any(isinstance(e, int) and e <= 0 for e in wanted) else None
    rank = x.rank
    if rank is None or rank > len(wanted):
        return None
    own = [1] * (len(wanted) - rank) + [dimension(x, axis) for axis in range(rank)]
    return [_broadcast(a, b) for a, b in zip(own, wanted, strict=True)]


def _broadcast(a: Element, b: Element) -> Element:
    return a if b == 1 or a == b else b if a == 1 else (-1, -1)


def _gathered(node: Node, depth: int) -> list[Element] | None:
    inner, at = elements(node.inputs[0], depth - 1), node.inputs[1]
    index = None if at is None else at.constant()
    if inner is None or index is None or index.ndim > 1:
        return None
    if (index >= len(inner)).any() or (index < -len(inner)).any():
        return None
    return [inner[int(i)] for i in index.reshape(-1)]


def _sliced(node: Node, depth: int) -> list[Element] | None:
    inner = elements(node.inputs[0], depth - 1)
    given = [None if v is None else v.constant() for v in node.inputs[1:]]
    if inner is None or node.graph.opset < 10 or any(g is None or g.size != 1 for g in given):
        return None
    numbers = [int(g.item()) for g in given if g is not None]
    step = numbers[3] if len(numbers) > 3 else 1
    return inner[numbers[0] : numbers[1] : step] if step > 0 else None
