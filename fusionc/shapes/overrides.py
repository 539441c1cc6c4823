"""Where onnx's shape inference says something else than what onnxruntime computes.

What is known of a shape must be true when the model runs. For the operators here it may not be: the versions of their
rules differ, or one counts in float32 and the other does not. Their dimensions count as known only where both agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node, Shape

_FAR = 1 << 31  # steps beyond this overflow


def trusted(node: Node, shape: Shape | None) -> Shape | None:
    """What is true of the shape that inference says an output of a node has."""
    x = node.inputs[0] if node.inputs else None
    rule = _RULES.get(node.op) if node.domain == "" and not node.has_references else None
    return shape if rule is None or x is None else rule(node, x, shape)


def is_fatal(node: Node) -> bool:
    """Whether inference may crash on a node: a Slice whose steps overflow."""
    steps = node.inputs[4] if node.is_op("Slice") and len(node.inputs) > 4 else None
    array = None if steps is None or node.has_references else steps.constant()
    return array is not None and any(abs(int(step)) >= _FAR for step in array.reshape(-1))


def _without_space(shape: Shape | None) -> Shape | None:
    """Batch and channels are certain."""
    return None if shape is None else (*shape[:2], *[None] * len(shape[2:]))


def _pool(node: Node, x: Edge, shape: Shape | None) -> Shape | None:
    pads, dilations = node.attr("auto_pad", "NOTSET"), node.attr("dilations") or [1]
    if str(pads).startswith("SAME") and any(d != 1 for d in dilations):
        return _without_space(shape)
    if not node.attr("ceil_mode"):
        return shape
    if pads != "NOTSET" or x.shape is None or shape is None:
        return _without_space(shape)
    # A last window that begins in the padding behind the input counts in one of the two only.
    rank = len(shape) - 2
    strides, before = node.attr("strides") or [1] * rank, node.attr("pads") or [0] * rank
    for size, made, stride, pad in zip(x.shape[2:], shape[2:], strides, before, strict=False):
        if not isinstance(size, int) or not isinstance(made, int) or (made - 1) * stride >= size + pad:
            return _without_space(shape)
    return shape


def _conv_transpose(node: Node, x: Edge, shape: Shape | None) -> Shape | None:
    is_same = str(node.attr("auto_pad", "NOTSET")).startswith("SAME")
    return _without_space(shape) if is_same and any(node.attr("output_padding") or []) else shape


def _resize(node: Node, x: Edge, shape: Shape | None) -> Shape | None:
    """onnxruntime multiplies in float32."""
    unknown = None if x.rank is None else (None,) * x.rank
    if node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return unknown
    scales = _scales(node)
    if scales is None or x.shape is None or shape is None:
        return shape
    axes = node.attr("axes") or range(len(scales))
    sizes = [(x.shape[axis], shape[axis], scale) for axis, scale in zip(axes, scales, strict=False)]
    is_same = all(
        not isinstance(size, int) or made == int(np.float32(size) * np.float32(scale)) for size, made, scale in sizes
    )
    return shape if is_same else unknown


def _scales(node: Node) -> Sequence[float] | None:
    if written := node.attr("scales"):
        return [float(scale) for scale in written]
    at = 2 if node.op == "Resize" and node.graph.opset >= 11 else 1
    array = _constant(node, at)
    return None if array is None or not array.size else [float(scale) for scale in array.reshape(-1)]


def _squeeze(node: Node, x: Edge, shape: Shape | None) -> Shape | None:
    """No axes at all, written as an empty list: all that are 1, or none. Before opset 11, axes that count from the end:
    onnx overlooks them, and onnxruntime does not."""
    given, written = _constant(node, 1), node.attr("axes")
    is_empty = written == [] or (given is not None and given.size == 0)
    is_overlooked = node.graph.opset < 11 and any(axis < 0 for axis in written or [])
    return None if is_empty or is_overlooked else shape


def _slice(node: Node, x: Edge, shape: Shape | None) -> Shape | None:
    """In opset 10, dimensions that onnx does not know stay as they are. Backwards, the largest end is the front."""
    if node.graph.opset == 10:
        return None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)
    ends, steps = _constant(node, 2), _constant(node, 4)
    if ends is None or steps is None or ends.shape != steps.shape:
        return shape
    return None if ((steps < 0) & np.isin(ends, (2**31 - 1, 2**63 - 1))).any() else shape


def _attention(node: Node, x: Edge, shape: Shape | None) -> Shape | None:
    """What onnx does not know of heads side by side, and of the scores, the fourth output, is 0 to it."""
    return None if shape is None or len(node.outputs) > 3 else tuple(dim or None for dim in shape)


def _einsum(node: Node, x: Edge, shape: Shape | None) -> Shape | None:
    """onnxruntime broadcasts sizes of 1, onnx takes the first that it sees."""
    terms = str(node.attr("equation")).replace(" ", "").split("->")[0].split(",")
    found: dict[str, int | str | None] = {}
    for term, value in zip(terms, node.inputs, strict=False):
        dims = None if value is None else value.shape
        if dims is None or len(term) != len(dims) or "." in term:
            return None
        if any(dim is None or found.setdefault(label, dim) != dim for label, dim in zip(term, dims, strict=True)):
            return None if shape is None else (None,) * len(shape)
    return shape


def _constant(node: Node, at: int) -> np.ndarray[Any, Any] | None:
    """The elements of an input, where it is a constant."""
    value = node.inputs[at] if at < len(node.inputs) else None
    return None if value is None else value.constant()


_RULES: dict[str, Callable[[Node, Edge, Shape | None], Shape | None]] = {
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), _squeeze),
    "Slice": _slice,
    "Attention": _attention,
    "STFT": lambda node, x, shape: None,  # counted in another way where there is no window
    "Einsum": _einsum,
}
