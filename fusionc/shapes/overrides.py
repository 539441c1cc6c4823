"""Where onnx's shape inference says something else than what onnxruntime computes.

What is known of a shape must be true when the model runs. For the operators here it may not be: the versions of their
rules differ, or one counts in float32 and the other does not. Their dimensions count as known only where both agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node, Shape
from fusionc.shapes.onnx_inference import graphs_called

_ANY: Shape = ("any",) * 8
_FAR = 1 << 31  # steps beyond this overflow
_REDUCED = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


def trusted(node: Node, shape: Shape | None) -> Shape | None:
    """What is true of the shape that inference says an output of a node has.

    What a function makes is known where all that onnx infers inside it is true, whatever the shapes are there.
    """
    inside = (inner for graph in graphs_called(node) for inner in graph.nodes)
    is_empty = node.function is not None and any(0 in (v.known_type.shape or ()) for v in node.inputs if v is not None)
    return None if is_empty or any(_by_rule(inner, _ANY) != _ANY for inner in inside) else _by_rule(node, shape)


def _by_rule(node: Node, shape: Shape | None) -> Shape | None:
    x: Any = node.inputs[0] if node.inputs else None
    rule = _RULES.get(node.op) if node.domain == "" and (x is not None or node.op == "Loop") else None
    if rule is None or shape is None:
        return shape
    # Of a function, onnx knows at a call what it is called with.
    is_open = node.has_references or any(value is not None and not value.is_constant for value in node.inputs[1:])
    return None if node.graph.in_function and is_open else rule(node, x, shape)


def is_fatal(node: Node) -> bool:
    """Whether inference may crash on a node: a Slice whose steps overflow."""
    steps = _numbers(node, 4) if node.is_op("Slice") and not node.has_references else None
    return any(abs(step) >= _FAR for step in steps or ())


def _numbers(node: Node, at: int) -> list[Any] | None:
    """The elements of an input, where it is a constant."""
    value = node.inputs[at] if at < len(node.inputs) else None
    array = None if value is None else value.constant()
    return None if array is None else array.reshape(-1).tolist()


def _without_space(shape: Shape) -> Shape:
    """Batch and channels are certain."""
    return (*shape[:2], *[None] * len(shape[2:]))


def _pool(node: Node, x: Edge, shape: Shape) -> Shape | None:
    pads, dilations = str(node.attr("auto_pad", "NOTSET")), node.attr("dilations") or [1]
    if pads.startswith("SAME") and any(d != 1 for d in dilations):
        return _without_space(shape)
    if not node.attr("ceil_mode"):
        return shape
    # A last window that begins in the padding behind the input counts in one of the two only.
    rank = len(shape) - 2
    strides, before = node.attr("strides") or [1] * rank, node.attr("pads") or [0] * rank
    sizes = (None,) * rank if x.shape is None else x.shape[2:]
    is_inside = all(
        isinstance(size, int) and isinstance(made, int) and (made - 1) * stride < size + pad
        for size, made, stride, pad in zip(sizes, shape[2:], strides, before, strict=False)
    )
    return shape if pads == "NOTSET" and is_inside else _without_space(shape)


def _conv_transpose(node: Node, x: Edge, shape: Shape) -> Shape | None:
    """onnx stops at the first axis of an output_shape below the input's."""
    is_same = str(node.attr("auto_pad", "NOTSET")).startswith("SAME")
    known = _without_space(shape) if is_same and any(node.attr("output_padding") or []) else shape
    return known if x.rank == len(shape) else None


def _resize(node: Node, x: Edge, shape: Shape) -> Shape | None:
    """onnxruntime multiplies in float32."""
    is_stretched = node.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    at = 2 if node.op == "Resize" and node.graph.opset >= 11 else 1
    scales = node.attr("scales") or _numbers(node, at) or []
    axes = node.attr("axes") or range(len(scales))
    sizes = [(x.shape[axis], shape[axis]) for axis in axes] if x.shape is not None else []
    is_same = not (scales and x.shape is None) and all(
        not isinstance(size, int) or made == int(np.float32(size) * np.float32(scale))
        for (size, made), scale in zip(sizes, scales, strict=False)
    )
    return shape if is_stretched and is_same else (None,) * len(shape)


def _squeeze(node: Node, x: Edge, shape: Shape) -> Shape | None:
    """No axes at all, written as an empty list: all that are 1, or none. Before opset 11, axes that count from the end:
    onnx overlooks them, and onnxruntime does not."""
    written = node.attr("axes")
    axes = _numbers(node, 1) if written is None else written
    is_overlooked = node.graph.opset < 11 and any(axis < 0 for axis in axes or [])
    return None if axes == [] or is_overlooked else shape


def _slice(node: Node, x: Edge, shape: Shape) -> Shape | None:
    """In opset 10, dimensions that onnx does not know stay as they are. Backwards, the largest end is the front."""
    if node.graph.opset == 10:
        return tuple(dim if isinstance(dim, int) else None for dim in shape)
    pairs = zip(_numbers(node, 2) or (), _numbers(node, 4) or (), strict=False)
    return None if any(step < 0 and end in (2**31 - 1, 2**63 - 1) for end, step in pairs) else shape


def _einsum(node: Node, x: Edge, shape: Shape) -> Shape | None:
    """onnxruntime broadcasts sizes of 1, onnx takes the first that it sees."""
    terms = str(node.attr("equation")).replace(" ", "").split("->")[0].split(",")
    found: dict[str, int | str | None] = {}
    for term, value in zip(terms, node.inputs, strict=False):
        dims = None if value is None else value.shape
        if dims is None or len(term) != len(dims) or "." in term:
            return None
        if any(dim is None or found.setdefault(label, dim) != dim for label, dim in zip(term, dims, strict=True)):
            return (None,) * len(shape)
    return shape


def _reduce(node: Node, x: Edge, shape: Shape) -> Shape | None:
    """Of a tensor without elements, onnxruntime keeps the dimensions that should become 1."""
    return (None,) * len(shape) if 0 in (x.shape or ()) else shape


_RULES: dict[str, Callable[[Node, Edge, Shape], Shape | None]] = {
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), _squeeze),
    "Slice": _slice,
    **dict.fromkeys((f"Reduce{how}" for how in _REDUCED), _reduce),
    # What onnx does not know of heads side by side, and of the scores, the fourth output, is 0 to it.
    "Attention": lambda node, x, shape: None if len(node.outputs) > 3 else tuple(dim or None for dim in shape),
    # What a Loop collects in no turn at all has sizes of 0, where the body's are not numbers.
    "Loop": lambda node, x, shape: tuple(dim if isinstance(dim, int) else None for dim in shape),
    "NonZero": lambda node, x, shape: shape if x.rank else (None, *shape[1:]),  # one row for a scalar
    "SplitToSequence": lambda node, x, shape: None,  # which may drop the axis where onnx says that it stays
    "STFT": lambda node, x, shape: None,  # counted in another way where there is no window
    "Einsum": _einsum,
}
