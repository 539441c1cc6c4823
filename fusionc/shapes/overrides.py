"""Where onnx's shape inference says something else than what onnxruntime computes.

What is known of a shape must be true when the model runs. For the operators here it may not be: the versions of their
rules differ, or one counts in float32 and the other does not. Their dimensions count as known only where both agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from fusionc.model.graph import Edge, Node, Shape
from fusionc.shapes.expressions import is_invented

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
_FAR = 1 << 31  # steps beyond this overflow


class Override:
    """What may be said of the shape of a node's output instead of what inference says; None for nothing at all."""

    def __init__(self, shape: Shape | None) -> None:
        self.shape = shape


def override_of(node: Node) -> onnx.TypeProto | None:
    """What is certain of the type of a node's first output, or None where inference can be trusted."""
    output = node.outputs[0] if node.outputs else None
    x = node.inputs[0] if node.inputs else None
    judge = _JUDGES.get(node.op) if node.domain == "" and not node.has_references else None
    override = None if judge is None or output is None or x is None else judge(node, x, output)
    if override is None or output is None:
        return None
    dims = None if override.shape is None else [None if is_invented(dim) else dim for dim in override.shape]
    elem_type = 0 if output.proto_type is None else output.proto_type.tensor_type.elem_type
    return onnx.helper.make_tensor_type_proto(elem_type, dims)


def is_fatal(node: Node) -> bool:
    """Whether inference may crash on a node: a Slice whose steps overflow."""
    steps = node.inputs[4] if node.is_op("Slice") and len(node.inputs) > 4 else None
    array = None if steps is None or node.has_references else steps.constant()
    return array is not None and any(abs(int(step)) >= _FAR for step in array.reshape(-1))


def _without_space(output: Edge) -> Override:
    """Batch and channels are certain."""
    shape = output.shape
    return Override(None if shape is None else (*shape[:2], *[None] * len(shape[2:])))


def _pool(node: Node, x: Edge, output: Edge) -> Override | None:
    pads, same = node.attr("auto_pad", "NOTSET"), output.shape
    dilations, kernel = node.attr("dilations") or [1], node.attr("kernel_shape") or []
    if str(pads).startswith("SAME") and any(d != 1 for d in dilations):
        return _without_space(output)
    if not node.attr("ceil_mode"):
        return None
    if pads != "NOTSET" or x.shape is None or same is None:
        return _without_space(output)
    # A last window that begins in the padding behind the input counts in one of the two only.
    strides, before = node.attr("strides") or [1] * len(kernel), node.attr("pads") or [0] * len(kernel)
    for size, made, stride, pad in zip(x.shape[2:], same[2:], strides, before, strict=False):
        if not isinstance(size, int) or not isinstance(made, int) or (made - 1) * stride >= size + pad:
            return _without_space(output)
    return None


def _conv_transpose(node: Node, x: Edge, output: Edge) -> Override | None:
    is_same = str(node.attr("auto_pad", "NOTSET")).startswith("SAME")
    return _without_space(output) if is_same and any(node.attr("output_padding") or []) else None


def _resize(node: Node, x: Edge, output: Edge) -> Override | None:
    """onnxruntime multiplies in float32."""
    if node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return Override(None if x.rank is None else (None,) * x.rank)
    scales, sizes = _scales(node), output.shape
    if scales is None or x.shape is None or sizes is None:
        return None
    axes = node.attr("axes") or range(len(scales))
    for axis, scale in zip(axes, scales, strict=False):
        size = x.shape[axis]
        if isinstance(size, int) and sizes[axis] != int(np.float32(size) * np.float32(scale)):
            return Override((None,) * len(sizes))
    return None


def _scales(node: Node) -> Sequence[float] | None:
    written = node.attr("scales")
    if written:
        return [float(scale) for scale in written]
    at = 2 if node.op == "Resize" and node.graph.opset >= 11 else 1
    given = node.inputs[at] if len(node.inputs) > at else None
    array = None if given is None else given.constant()
    return None if array is None or not array.size else [float(scale) for scale in array.reshape(-1)]


def _squeeze(node: Node, x: Edge, output: Edge) -> Override | None:
    """No axes at all, written as an empty list: all that are 1, or none. Before opset 11, axes that count from the end:
    onnx overlooks them, and onnxruntime does not."""
    given = node.inputs[1].constant() if len(node.inputs) > 1 and node.inputs[1] is not None else None
    is_empty = node.attr("axes") == [] or (given is not None and given.size == 0)
    is_overlooked = node.graph.opset < 11 and any(axis < 0 for axis in node.attr("axes") or [])
    return Override(None) if is_empty or is_overlooked else None


def _only(output: Edge, is_certain: Callable[[int | str | None], bool]) -> Override | None:
    shape = output.shape
    certain = None if shape is None else tuple(dim if is_certain(dim) else None for dim in shape)
    return Override(certain) if certain != shape else None


def _slice(node: Node, x: Edge, output: Edge) -> Override | None:
    """In opset 10, dimensions that onnx does not know stay as they are. Backwards, the largest end is the front."""
    if node.graph.opset == 10:
        return _only(output, lambda dim: isinstance(dim, int))
    ends, steps = (None if v is None else v.constant() for v in [*node.inputs[2:5:2], None, None][:2])
    if ends is None or steps is None or ends.shape != steps.shape:
        return None
    return Override(None) if ((steps < 0) & np.isin(ends, (2**31 - 1, 2**63 - 1))).any() else None


def _attention(node: Node, x: Edge, output: Edge) -> Override | None:
    """What onnx does not know of heads side by side, and of the scores, the fourth output, is 0 to it."""
    return Override(None) if len(node.outputs) > 3 else _only(output, bool)


def _einsum(node: Node, x: Edge, output: Edge) -> Override | None:
    """onnxruntime broadcasts sizes of 1, onnx takes the first that it sees."""
    terms = str(node.attr("equation")).replace(" ", "").split("->")[0].split(",")
    found: dict[str, int | str | None] = {}
    for term, value in zip(terms, node.inputs, strict=False):
        shape = None if value is None else value.shape
        if shape is None or len(term) != len(shape) or "." in term:
            return Override(None)
        for label, dim in zip(term, shape, strict=True):
            if dim is None or found.setdefault(label, dim) != dim:
                return Override(None if output.rank is None else (None,) * output.rank)
    return None


def _cast(node: Node, x: Edge, output: Edge) -> Override | None:
    """onnx propagates elements through a Cast to a narrow type as if it changed none."""
    is_shape = x.elem_type in _INTEGERS and x.rank in (0, 1)
    return Override(x.shape) if is_shape and node.attr("to") not in _INTEGERS else None


_JUDGES: dict[str, Callable[[Node, Edge, Edge], Override | None]] = {
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), _squeeze),
    "Slice": _slice,
    "Attention": _attention,
    "STFT": lambda node, x, output: Override(None),  # counted in another way where there is no window
    "Einsum": _einsum,
    "Cast": _cast,
}
