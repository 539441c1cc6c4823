"""The elements of tensors in shape arithmetic: numbers, and symbols for dimensions that are known
only when the model runs.

onnx also propagates such elements inside its inference, but its API does not return them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from onnx import TensorProto

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import MICROSOFT, has_legacy_axis
from fusionc.operators.broadcast_shapes import broadcast, widest
from fusionc.operators.disputed_shapes import joins_all
from fusionc.operators.facts import Trait, operators_with
from fusionc.protos import SMALL
from fusionc.shapes.expressions import (
    Element,
    added,
    divided,
    is_dimension,
    least,
    limited,
    multiplied,
    subtracted,
)

__all__ = ["FAR", "SMALL", "Element", "dimension", "elements", "shape_made"]
T = TypeVar("T")
Dims = Sequence[Element | None]  # None for an unknown size
FAR = 1 << 30  # exporters write a larger number to mean the end of an axis
_ARITHMETIC: dict[str, Callable[[Element, Element], Element | None]] = {
    "Add": added,
    "Sub": subtracted,
    "Mul": multiplied,
    "Div": divided,
}


def dimension(value: Edge, axis: int) -> Element:
    """One dimension of a value, as an element of shape arithmetic. Two of these elements are equal
    only if the dimensions are equal in every run of the model.
    """
    shape = value.shape
    known = None if shape is None else shape[axis]
    return (value.serial, axis) if known is None else known


def elements(value: Edge | None) -> list[Element] | None:
    """The elements of an integer vector or scalar; None if they are unknown."""
    array = None if value is None else value.constant()
    if array is None:
        return None if value is None else value.graph.model.types.elements_of(value)
    is_countable = array.dtype.kind in "iu" and array.ndim <= 1 and array.size <= SMALL
    return [int(element) for element in array.reshape(-1)] if is_countable else None


def elements_made(node: Node, elem_type: int) -> list[Element] | None:
    """The elements of the first output of a node, whose element type is `elem_type`. None if they
    do not follow from dimensions and other elements, or if an element overflows the type.
    """
    rule = None if node.domain != "" or node.has_references else _ELEMENTS.get(node.op)
    result = None if rule is None else rule(node)
    limit = 1 << (31 if elem_type == TensorProto.INT32 else 63)
    overflows = any(isinstance(e, int) and not -limit <= e < limit for e in result or ())
    return None if overflows else result


def _shape(node: Node) -> list[Element] | None:
    dims = _dims(node.inputs[0])
    return None if dims is None else dims[slice(node.attr("start", 0), node.attr("end"))]


def _copied_elements(node: Node) -> list[Element] | None:
    to = node.attr("to") if node.op == "Cast" else TensorProto.INT64
    return elements(node.inputs[0]) if to in (TensorProto.INT32, TensorProto.INT64) else None


def _joined_elements(node: Node) -> list[Element] | None:
    return _joined([elements(part) for part in node.inputs])


def _computed_elements(node: Node) -> list[Element] | None:
    """The results of integer arithmetic. The result of a division is known only if the division has
    no remainder.
    """
    return None if has_legacy_axis(node) else _elementwise(_ARITHMETIC[node.op], node.inputs)


def _chosen_elements(node: Node) -> list[Element] | None:
    """The elements of Where(Equal(s, t), a, s). Exporters write this to replace −1 by 1. A
    dimension is never equal to −1.
    """
    condition = None if node.inputs[0] is None else node.inputs[0].producer
    if condition is None or not condition.is_op("Equal"):
        return None
    return _elementwise(_choice, (*condition.inputs, *node.inputs[1:]))


def _choice(left: Element, right: Element, then: Element, otherwise: Element) -> Element | None:
    if left == right:
        return then
    number, other = (left, right) if isinstance(left, int) else (right, left)
    is_negative = isinstance(number, int) and number < 0
    return otherwise if isinstance(other, int) or (is_negative and is_dimension(other)) else None


def _elementwise(
    rule: Callable[..., Element | None], values: Sequence[Edge | None]
) -> list[Element] | None:
    """The results of an elementwise rule. A value with a single element is broadcast."""
    known = [vector for vector in map(elements, values) if vector is not None]
    counts = {len(vector) for vector in known} - {1} or {1}
    if len(known) < len(values) or len(counts) > 1:
        return None
    (count,) = counts
    rows = zip(*(v * count if len(v) == 1 else v for v in known), strict=True)
    results = [result for row in rows if (result := rule(*row)) is not None]
    return results if len(results) == count else None


def _gathered_elements(node: Node) -> list[Element] | None:
    data = elements(node.inputs[0])
    indices = None if node.inputs[1] is None else node.inputs[1].constant()
    if data is None or indices is None or indices.ndim > 1:
        return None
    places = [int(place) for place in indices.reshape(-1)]
    is_inside = all(-len(data) <= place < len(data) for place in places)
    return [data[place] for place in places] if is_inside else None


def _sliced_elements(node: Node) -> list[Element] | None:
    data = elements(node.inputs[0])
    numbers = [None if v is None else v.constant() for v in node.inputs[1:]]
    if data is None or node.graph.opset < 10 or any(g is None or g.size != 1 for g in numbers):
        return None
    start, end, *more = (int(g.item()) for g in numbers if g is not None)
    step = more[1] if len(more) > 1 else 1
    return data[start:end:step] if step > 0 else None


_ELEMENTS: dict[str, Callable[[Node], list[Element] | None]] = {
    "Shape": _shape,
    **dict.fromkeys(("Identity", "Unsqueeze", "Squeeze", "Cast", "Reshape"), _copied_elements),
    "Concat": _joined_elements,
    **dict.fromkeys(_ARITHMETIC, _computed_elements),
    "Where": _chosen_elements,
    "Gather": _gathered_elements,
    "Slice": _sliced_elements,
}


# -- shapes of outputs


def shape_made(node: Node) -> Dims | None:
    """The shape of the first output of a node, as far as it follows from dimensions. None if the
    node has no rule here. onnx's inference loses many symbols, and does not know the target's own
    operators.
    """
    rule = None if node.has_references else _SHAPES.get(node.operator)
    return None if rule is None else rule(node)


def _dims(value: Edge | None) -> list[Element] | None:
    if value is None or value.rank is None:
        return None
    return [dimension(value, axis) for axis in range(value.rank)]


def _broadcasting(node: Node) -> Dims | None:
    is_aligned = node.graph.opset >= 7 or len(node.inputs) == 1
    return broadcast_known(*map(_dims, node.inputs)) if is_aligned else None


def _range(node: Node) -> Dims | None:
    start, limit, step = (elements(value) for value in node.inputs)
    if start != [0] or step != [1] or limit is None or len(limit) != 1:
        return None
    return limit if is_dimension(limit[0]) else None


def _reshape(node: Node) -> Dims | None:
    own = _dims(node.inputs[0])
    target = _target(node, own)
    if target is None:
        return None
    others = [e for e in target if e is not None and is_dimension(e)]
    rest = _rest(own, others) if own is not None and len(others) == len(target) - 1 else None
    return [rest if e == -1 else e if e in others else None for e in target]


def _target(node: Node, own: Dims | None) -> Dims | None:
    """The target shape of a Reshape. Each 0 becomes the dimension that the Reshape copies."""
    target = _parts(node.inputs[1]) if len(node.inputs) > 1 else node.attr("shape")
    if target is None or node.attr("allowzero"):
        return target
    copied = dict(enumerate(own or ()))
    return [copied.get(axis) if e == 0 else e for axis, e in enumerate(target)]


def _rest(own: Sequence[Element], others: Sequence[Element]) -> Element | None:
    """The dimension that a Reshape computes for −1."""
    total = _combined(multiplied, [1, *own])
    known = _combined(multiplied, [1, *others])
    return None if total is None or known is None or known == 0 else divided(total, known)


def _parts(value: Edge | None) -> Dims | None:
    """The elements of a vector. If only the length of an input of a Concat is known, each of its
    elements is None.
    """
    known = elements(value)
    if known is not None or value is None:
        return known
    if value.producer is not None and value.producer.is_op("Concat"):
        return _joined([_parts(part) for part in value.producer.inputs])
    count = value.shape[0] if value.rank == 1 and value.shape else None
    return [None] * count if isinstance(count, int) else None


def _joined(parts: Sequence[Sequence[T] | None]) -> list[T] | None:
    """The elements of all parts; None if one of them is unknown."""
    known = [part for part in parts if part is not None]
    return [element for part in known for element in part] if len(known) == len(parts) else None


def _slice(node: Node) -> Dims | None:
    # before opset 10, a Slice has attributes in place of these inputs, so all operands are None
    dims = _dims(node.inputs[0])
    operands = [*node.inputs[1:], *[None] * 4][:4]
    starts, ends, axes, steps = map(elements, operands)
    axes = list(range(len(starts or []))) if operands[2] is None else axes
    if dims is None or starts is None or ends is None or axes is None:
        return None
    if operands[3] is not None and steps != [1] * len(starts):
        return None
    sliced: list[Element | None] = list(dims)
    for axis, start, end in zip(axes, starts, ends, strict=False):
        if not isinstance(axis, int) or not -len(dims) <= axis < len(dims):
            return None
        sliced[axis] = _cut(dims[axis], start, end)
    return sliced


def _cut(size: Element, start: Element, end: Element) -> Element | None:
    """The size of an axis after a Slice."""
    if start != 0:
        return None
    if end == size or (isinstance(end, int) and end > FAR):
        return size
    return least(size, end) if isinstance(size, int) and is_dimension(end) else None


def _concat(node: Node) -> Dims | None:
    shapes = [dims for dims in map(_dims, node.inputs) if dims is not None]
    ranks = {len(dims) for dims in shapes}
    axis = node.attr("axis", 1)
    if len(shapes) < len(node.inputs) or len(ranks) != 1 or not -max(ranks) <= axis < max(ranks):
        return None
    joined = [dims[0] if len(set(dims)) == 1 else None for dims in zip(*shapes, strict=True)]
    is_sum = joins_all(shapes, axis % len(joined))
    joined[axis] = _combined(added, [dims[axis] for dims in shapes]) if is_sum else None
    return joined


def _combined(
    rule: Callable[[Element, Element], Element | None], dims: Sequence[Element]
) -> Element | None:
    """The sum or product of dimensions."""
    total: Element | None = dims[0]
    for dim in dims[1:]:
        total = None if total is None else rule(total, dim)
    return total


def broadcast_known(*shapes: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """The result of broadcasting these shapes; None if one of them is unknown."""
    known = [shape for shape in shapes if shape is not None]
    return broadcast(*known, rule=_widest) if len(known) == len(shapes) else None


def _widest(sizes: Dims) -> Element | None:
    """The broadcast size of these sizes. If the sizes include both d and min(limit, d) with a limit
    above 1, min(limit, d) is ignored: only equal sizes can be broadcast here, so both are d.
    """
    limits = [None if size is None else limited(size) for size in sizes]
    decisive = [
        size
        for size, pair in zip(sizes, limits, strict=True)
        if pair is None or pair[0] < 2 or pair[1] not in sizes
    ]
    size: Element | None = widest(decisive)
    return size if size is not None and is_dimension(size) else None


def _attention(node: Node) -> Dims | None:
    """The output shape of an attention operator: the shape of the query, but with the last
    dimension of the value. `None` if query, key and value are packed into one tensor.
    """
    dims = _dims(node.inputs[0])
    value = _dims(node.inputs[2]) if len(node.inputs) > 2 else None
    if dims is None or len(dims) != 3 or value is None or len(value) not in (3, 4):
        return None
    own = dims[2] if node.op == "GroupQueryAttention" else value[2]
    return [*dims[:2], own if len(value) == 3 else multiplied(value[3], node.attr("num_heads"))]


_SHAPES: dict[tuple[str, str], Callable[[Node], Dims | None]] = {
    **dict.fromkeys(operators_with(Trait.BROADCASTS), _broadcasting),
    ("", "Range"): _range,
    ("", "ConstantOfShape"): lambda node: elements(node.inputs[0]),
    ("", "Expand"): lambda node: broadcast_known(_dims(node.inputs[0]), elements(node.inputs[1])),
    ("", "Reshape"): _reshape,
    ("", "Slice"): _slice,
    ("", "Concat"): _concat,
    (MICROSOFT, "MultiHeadAttention"): _attention,
    (MICROSOFT, "GroupQueryAttention"): _attention,
}
