"""Operators for which onnx's shape inference and onnxruntime may disagree about the output shape.

Such disagreements have three causes: onnx and onnxruntime follow different versions of a rule; only
one of them computes in float32; or onnx infers a size from one input, but onnxruntime reads it from
another input without a check. `benchmarks/enforced_sizes.py` finds them by calling all operators
with contradicting sizes.

For each such operator, a rule takes the node, its first input and the shape that onnx infers. It
returns the part of this shape that is certain: an uncertain size is None, and the result is None if
even the rank is uncertain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fusionc.operators.facts import Trait, names_with

Shape = tuple["int | str | None", ...]

# length of the longest chain of operators that is searched for a fixed number of channels
_MAX_STEPS = 8
# the axis of the weights along which the input channels are counted
_CHANNEL_AXIS = {"Conv": 1, "FusedConv": 1, "ConvTranspose": 0, "BatchNormalization": 0}
_KEEPS_CHANNELS = names_with(Trait.ACTIVATION, Trait.WINDOW_POOL, Trait.GLOBAL_POOL) | {
    "Identity",
    "QuickGelu",
}


class ValueLike(Protocol):
    """An input of a node."""

    @property
    def shape(self) -> Shape | None: ...

    @property
    def rank(self) -> int | None: ...

    def constant(self) -> Any: ...


class NodeLike(Protocol):
    """The part of a node that the rules read."""

    @property
    def op(self) -> str: ...

    @property
    def inputs(self) -> Sequence[ValueLike | None]: ...

    @property
    def outputs(self) -> Sequence[Any]: ...

    @property
    def graph(self) -> Any: ...

    def attr(self, name: str, default: Any = None) -> Any: ...


def numbers(call: NodeLike, index: int) -> list[Any] | None:
    """The elements of an input; None if it is omitted or not constant."""
    value = call.inputs[index] if index < len(call.inputs) else None
    array = None if value is None else value.constant()
    return None if array is None else list(array.reshape(-1).tolist())


def _batch_and_channels(shape: Shape) -> Shape:
    """The shape with unknown sizes for all axes except batch and channels."""
    return (*shape[:2], *[None] * len(shape[2:]))


def _pool(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    pads = str(call.attr("auto_pad", "NOTSET"))
    dilations = call.attr("dilations") or [1]
    if pads.startswith("SAME") and any(d != 1 for d in dilations):
        return _batch_and_channels(shape)
    if not call.attr("ceil_mode"):
        return shape
    return (
        shape if pads == "NOTSET" and _begins_inside(call, x, shape) else _batch_and_channels(shape)
    )


def _begins_inside(call: NodeLike, x: ValueLike, shape: Shape) -> bool:
    """Whether the last window of a pool is known to begin inside the input.

    If the window begins in the padding after the input, only one of onnx and onnxruntime counts it.
    If the input is smaller than the window, onnxruntime returns one element, but onnx infers none.
    """
    rank = len(shape) - 2
    strides = call.attr("strides") or [1] * rank
    before = call.attr("pads") or [0] * rank
    sizes = (None,) * rank if x.shape is None else x.shape[2:]
    return all(
        isinstance(size, int)
        and isinstance(inferred, int)
        and 0 <= (inferred - 1) * stride < size + pad
        for size, inferred, stride, pad in zip(sizes, shape[2:], strides, before, strict=False)
    )


def _conv_transpose(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """onnx's inference stops at the first axis whose size in `output_shape` is smaller than that of
    the input, so that the inferred shape has too few axes.
    """
    is_same = str(call.attr("auto_pad", "NOTSET")).startswith("SAME")
    known = (
        _batch_and_channels(shape) if is_same and any(call.attr("output_padding") or []) else shape
    )
    return known if x.rank == len(shape) else None


def _resize(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """onnxruntime multiplies sizes by scales in float32, onnx does not."""
    is_stretched = call.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    index = 2 if call.op == "Resize" and call.graph.opset >= 11 else 1
    scales = call.attr("scales") or numbers(call, index) or []
    axes = call.attr("axes") or range(len(scales))
    return (
        shape if is_stretched and _is_scaled(x.shape, shape, scales, axes) else (None,) * len(shape)
    )


def _is_scaled(
    input_shape: Shape | None, inferred: Shape, scales: Sequence[Any], axes: Sequence[int]
) -> bool:
    """Whether the known sizes, multiplied in float32, equal the sizes that onnx infers."""
    if input_shape is None:
        return not scales
    return all(
        not isinstance(input_shape[axis], int)
        or inferred[axis] == int(np.float32(input_shape[axis]) * np.float32(scale))
        for axis, scale in zip(axes, scales, strict=False)
    )


def _squeeze(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """An empty list of axes may mean all axes of size 1, or no axis. Before opset 11, onnx ignores
    negative axes, but onnxruntime does not.
    """
    attribute_axes = call.attr("axes")
    axes = numbers(call, 1) if attribute_axes is None else attribute_axes
    is_ignored = call.graph.opset < 11 and any(axis < 0 for axis in axes or [])
    return None if axes == [] or is_ignored else shape


def _slice(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """In opset 10, onnx keeps unknown dimensions as if they were not sliced. If a step is negative,
    onnxruntime reads an end that is the largest integer as "up to the front".
    """
    if call.graph.opset == 10:
        return tuple(dim if isinstance(dim, int) else None for dim in shape)
    pairs = zip(numbers(call, 2) or (), numbers(call, 4) or (), strict=False)
    return None if any(step < 0 and end in (2**31 - 1, 2**63 - 1) for end, step in pairs) else shape


def _einsum(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """If a label of the equation has several sizes, onnx takes the first one, but onnxruntime
    broadcasts a size of 1.
    """
    terms = str(call.attr("equation")).replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int | str | None] = {}
    for term, value in zip(terms, call.inputs, strict=False):
        dims = None if value is None else value.shape
        if dims is None or len(term) != len(dims) or "." in term:
            return None
        if any(
            dim is None or sizes.setdefault(label, dim) != dim
            for label, dim in zip(term, dims, strict=True)
        ):
            return (None,) * len(shape)
    return shape


def _reduce(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """For an empty tensor, onnxruntime does not set the dimensions to 1 that keepdims should."""
    return (None,) * len(shape) if 0 in (x.shape or ()) else shape


def joins_all(shapes: Sequence[Sequence[Any]], axis: int) -> bool:
    """Whether each input of a Concat is known to add its length along the axis. All shapes must
    have the same rank.

    onnxruntime ignores an empty input even if its other sizes differ from those of the other
    inputs. The other sizes must therefore be known to be equal in all inputs, or not to be 0.
    """
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    are_equal = None not in others[0] and all(other == others[0] for other in others)
    return are_equal or all(isinstance(dim, int) and dim > 0 for other in others for dim in other)


def _channels_of(reader: NodeLike) -> int | None:
    """The number of input channels that an operator requires and that onnxruntime checks; None if
    it is unknown.
    """
    if reader.op == "Split" and reader.attr("axis", 0) == 1:
        parts = reader.attr("split") or numbers(reader, 1)
        return sum(parts) if parts else None
    weight = reader.inputs[1] if len(reader.inputs) > 1 and reader.op in _CHANNEL_AXIS else None
    shape = None if weight is None or weight.constant() is None else weight.shape
    size = shape[_CHANNEL_AXIS[reader.op]] if shape else None
    groups = int(reader.attr("group", 1)) if reader.op in ("Conv", "FusedConv") else 1
    return size * groups if isinstance(size, int) else None


def _has_required_channels(
    value: Any, graph: Any, channels: int | str | None, steps: int = _MAX_STEPS
) -> bool:
    """Whether a later operator accepts only this number of channels, so that the value has this
    number in each run that does not fail.
    """
    for reader in value.outputs if steps else ():
        if reader.graph is graph and reader.inputs[0] is value:
            result = reader.outputs[0] if reader.op in _KEEPS_CHANNELS else None
            if _channels_of(reader) == channels or (
                result is not None and _has_required_channels(result, graph, channels, steps - 1)
            ):
                return True
    return False


def _other_sizes(shapes: Sequence[Shape]) -> Shape:
    """The certain sizes of the result of a Concat. Ignore the size along the joined axis."""
    # The result has the sizes of a tensor that is known not to be empty.
    full = next((s for s in shapes if all(isinstance(dim, int) and dim > 0 for dim in s)), None)
    equal_sizes = (
        a if all(a == b for b in rest) else None for a, *rest in zip(*shapes, strict=True)
    )
    return tuple(equal_sizes) if full is None else full


def _concat(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    axis = call.attr("axis", 1)
    shapes = [value.shape for value in call.inputs if value is not None and value.shape is not None]
    if len(shapes) < len(call.inputs) or any(len(other) != len(shape) for other in shapes):
        return (None,) * len(shape)
    dims = _other_sizes(shapes)
    axis %= len(shape)
    is_certain = joins_all(shapes, axis) or (
        axis == 1 and _has_required_channels(call.outputs[0], call.graph, shape[axis])
    )
    joined = shape[axis] if is_certain else None
    return tuple(joined if index == axis else dim for index, dim in enumerate(dims))


def _prelu(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """onnxruntime broadcasts both operands, onnx only the slope."""
    slope = call.inputs[1].shape if len(call.inputs) > 1 and call.inputs[1] is not None else None
    if slope is None or len(slope) > len(shape):
        return None
    full_slope = (*[1] * (len(shape) - len(slope)), *slope)
    is_open = (dim == 1 or not isinstance(dim, int) for dim in shape)
    pairs = zip(shape, full_slope, is_open, strict=True)
    return tuple(None if open_ and factor not in (1, dim) else dim for dim, factor, open_ in pairs)


def _attention(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """If the size of the merged heads is unknown, onnx infers 0. It does the same for an unknown
    size of the scores, which are the fourth output.

    From opset 25 on, onnxruntime runs ONNX's function of the operator, which broadcasts all
    operands and ignores an empty past.
    """
    return (
        None
        if len(call.outputs) > 3 or call.graph.opset >= 25
        else tuple(dim or None for dim in shape)
    )


RULES: dict[str, Callable[[NodeLike, ValueLike, Shape], Shape | None]] = {
    **dict.fromkeys(names_with(Trait.WINDOW_POOL), _pool),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), _squeeze),
    "Slice": _slice,
    **dict.fromkeys(names_with(Trait.REDUCES), _reduce),
    "Attention": _attention,
    "Concat": _concat,
    "PRelu": _prelu,
    # onnxruntime runs ONNX's function of the operator
    "NegativeLogLikelihoodLoss": lambda call, x, shape: (None,) * len(shape),
    # If a Loop has no iterations, the sizes that are symbols in its body are 0.
    "Loop": lambda call, x, shape: tuple(dim if isinstance(dim, int) else None for dim in shape),
    # if the input is a scalar, onnxruntime returns one row
    "NonZero": lambda call, x, shape: shape if x.rank else (None, *shape[1:]),
    # onnxruntime may remove the axis although onnx infers that it stays
    "SplitToSequence": lambda call, x, shape: None,
    "STFT": lambda call, x, shape: None,  # without a window, onnxruntime counts frames differently
    "Einsum": _einsum,
}
