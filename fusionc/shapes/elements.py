"""What a tensor of shape arithmetic holds: numbers, and symbols for dimensions that are known when the model runs.

onnx propagates such values inside its inference but does not hand them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import MICROSOFT, has_legacy_axis
from fusionc.shapes.expressions import Element, added, divided, is_dimension, least, limited, multiplied

__all__ = ["SAME_SHAPE", "Element", "dimension", "elements", "shape_made"]
Dims = list[Element | None]  # None for what cannot be said
_DEPTH = 16  # operators between a Shape and its use
_FAR = 1 << 30  # exporters write the end of an axis as a number beyond
_SAME_ELEMENTS = frozenset({"Identity", "Unsqueeze", "Squeeze", "Cast", "Reshape"})
_ARITHMETIC: dict[str, Callable[[Element, Element], Element | None]] = {
    "Add": added,
    "Sub": partial(added, sign=-1),
    "Mul": multiplied,
    "Div": divided,
}


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
    if node.op in _ARITHMETIC:
        return _computed(node, depth)
    if node.op == "Where":
        return _chosen(node, depth)
    if node.op == "Gather":
        return _gathered(node, depth)
    return _sliced(node, depth) if node.op == "Slice" else None


def _of_shape(node: Node) -> list[Element] | None:
    dims = _dims(node.inputs[0])
    return None if dims is None else dims[slice(node.attr("start", 0), node.attr("end"))]


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


def _computed(node: Node, depth: int) -> list[Element] | None:
    """Integers, added or multiplied; of a division only one that leaves nothing over."""
    a, b = (elements(value, depth - 1) for value in node.inputs)
    if a is None or b is None or has_legacy_axis(node) or 1 not in (len(a), len(b), len(a) - len(b) + 1):
        return None
    count = max(len(a), len(b)) if a and b else 0
    pairs = zip(a * count if len(a) == 1 else a, b * count if len(b) == 1 else b, strict=True)
    made = [_ARITHMETIC[node.op](one, other) for one, other in pairs]
    return None if None in made else [element for element in made if element is not None]


# -- shapes that are made ----------------------------------------------------------------------------------------------


def shape_made(node: Node) -> Dims | None:
    """The shape of the first output of a node, as far as it follows from dimensions. onnx's inference loses symbols in
    many places, and knows nothing of the target's own operators."""
    if node.has_references:
        return None
    if node.domain == MICROSOFT:
        return _of_microsoft(node)
    if node.domain != "":
        return None
    if node.op in _BROADCASTING:
        shapes = [_dims(value) for value in node.inputs]
        return None if node.graph.opset < 7 and len(shapes) > 1 else _broadcast_all(shapes)
    rule = _RULES.get(node.op)
    return None if rule is None else rule(node)


def _dims(value: Edge | None) -> list[Element] | None:
    rank = None if value is None else value.rank
    return None if value is None or rank is None else [dimension(value, axis) for axis in range(rank)]


def _open(known: list[Element] | None) -> Dims | None:
    return None if known is None else [*known]


def _range(node: Node) -> Dims | None:
    limits = [elements(value) for value in node.inputs]
    if limits[0] != [0] or limits[2] != [1] or not limits[1] or len(limits[1]) != 1:
        return None
    return [limits[1][0]] if is_dimension(limits[1][0]) else None


def _reshape(node: Node) -> Dims | None:
    wanted, own = elements(node.inputs[1]) if len(node.inputs) > 1 else node.attr("shape"), _dims(node.inputs[0])
    if wanted is None:
        return None
    if not node.attr("allowzero"):
        if any(e == 0 and (own is None or axis >= len(own)) for axis, e in enumerate(wanted)):
            return None
        wanted = [own[axis] if e == 0 and own is not None else e for axis, e in enumerate(wanted)]
    if -1 not in wanted:
        return list(wanted) if all(is_dimension(e) for e in wanted) else None
    others = [e for e in wanted if e != -1]
    if len(others) != len(wanted) - 1 or not all(is_dimension(e) for e in others):
        return None
    total, known = (None if dims is None else _product(dims) for dims in (own, others))
    rest = None if total is None or known is None or known == 0 else divided(total, known)
    return [rest if e == -1 else e for e in wanted]


def _product(dims: Sequence[Element]) -> Element | None:
    total: Element | None = 1
    for dim in dims:
        total = None if total is None else multiplied(total, dim)
    return total


def _slice(node: Node) -> Dims | None:
    dims = _dims(node.inputs[0])
    if dims is None or node.graph.opset < 10:
        return None
    given = [*node.inputs[1:], None, None][:4]
    starts, ends, axes, steps = map(elements, given)
    axes = list(range(len(starts or []))) if given[2] is None else axes
    if starts is None or ends is None or axes is None or (given[3] is not None and steps != [1] * len(starts)):
        return None
    made: Dims = list(dims)
    for axis, start, end in zip(axes, starts, ends, strict=False):
        if not isinstance(axis, int) or not -len(dims) <= axis < len(dims):
            return None
        made[axis] = _cut(dims[axis], start, end)
    return made


def _cut(size: Element, start: Element, end: Element) -> Element | None:
    """What is left of an axis."""
    if start != 0:
        return None
    if isinstance(end, int):
        return size if end > _FAR else min(size, end) if isinstance(size, int) and end >= 0 else None
    if end == size:
        return size
    return least(size, end) if isinstance(size, int) and is_dimension(end) else None


def _concat(node: Node) -> Dims | None:
    shapes = [_dims(value) for value in node.inputs]
    first, axis = shapes[0] or [], node.attr("axis")
    if any(dims is None or len(dims) != len(first) for dims in shapes) or not -len(first) <= axis < len(first):
        return None
    made = _agreed([dims for dims in shapes if dims is not None])
    total: Element | None = 0
    for dims in shapes:
        total = None if total is None or dims is None else added(total, dims[axis])
    made[axis] = total
    return made


def _agreed(shapes: list[list[Element]]) -> Dims:
    """What all shapes say."""
    return [dims[0] if all(d == dims[0] for d in dims) else None for dims in zip(*shapes, strict=True)]


def _mat_mul(node: Node) -> Dims | None:
    a, b = (_dims(value) for value in node.inputs)
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    batch = _broadcast_all([a[:-2], b[:-2]])
    return None if batch is None else [*batch, a[-2], b[-1]]


def _broadcast_all(shapes: Sequence[list[Element] | None]) -> Dims | None:
    if any(dims is None for dims in shapes):
        return None
    known = [dims for dims in shapes if dims is not None]
    rank = max(map(len, known), default=0)
    return [_broadcast([dims[i - rank] for dims in known if len(dims) >= rank - i]) for i in range(rank)]


def _broadcast(dims: list[Element]) -> Element | None:
    """What equal dimensions become, and ones beside them. None where it is not known which one is the larger."""
    found = list(dict.fromkeys(d for d in dims if d != 1))
    numbers = [d for d in found if isinstance(d, int)]
    if numbers:
        return numbers[0] if numbers[0] >= 0 else None
    # A dimension beside its own minimum with a limit above 1: were the limit smaller, they would not go together.
    within = [limited(d) for d in found]
    found = [d for d, pair in zip(found, within, strict=True) if pair is None or pair[0] < 2 or pair[1] not in found]
    return 1 if not found else found[0] if len(found) == 1 and is_dimension(found[0]) else None


def _of_microsoft(node: Node) -> Dims | None:
    """Of onnxruntime's own operators: those of which the first output is as large as the first input."""
    dims, heads = _dims(node.inputs[0]), node.attr("num_heads")
    if node.op in SAME_SHAPE:
        return _open(dims)
    if dims is None or len(dims) != 3 or node.op not in _ATTENTION or len(node.inputs) < 3:
        return None
    value = _dims(node.inputs[2])
    if node.op == "GroupQueryAttention":
        return None if value is None else [*dims]
    if value is None or len(value) not in (3, 4):
        return None
    return [*dims[:2], value[2] if len(value) == 3 else multiplied(value[3], heads)]


_BROADCASTING = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Mean", "Sum", "And", "Or", "Xor", "Equal", "Less",
     "Greater", "LessOrEqual", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Where"}
)  # fmt: skip
_ATTENTION = frozenset({"MultiHeadAttention", "GroupQueryAttention"})
SAME_SHAPE = frozenset(
    {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "BiasGelu", "FastGelu", "QuickGelu", "Gelu"}
    | {"RotaryEmbedding"}
)
_RULES: dict[str, Callable[[Node], Dims | None]] = {
    "Range": _range,
    "ConstantOfShape": lambda node: _open(elements(node.inputs[0])),
    "Expand": lambda node: _broadcast_all([_dims(node.inputs[0]), elements(node.inputs[1])]),
    "Reshape": _reshape,
    "Slice": _slice,
    "Concat": _concat,
    "MatMul": _mat_mul,
}
