"""Operators for which onnx's shape inference and onnxruntime may differ.

The versions of their rules differ, or only one of them counts in float32, or onnx infers a size
from one input and onnxruntime takes it from another one without a check.
`benchmarks/enforced_sizes.py` calls all operators with contradicting sizes and finds such cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fusionc.operators.facts import Trait, names_with

Shape = tuple["int | str | None", ...]

_STEPS = 8  # readers, one after the other, among which an operator on channels is looked for
# of the weights' axes
_CHANNELS_AT = {"Conv": 1, "FusedConv": 1, "ConvTranspose": 0, "BatchNormalization": 0}
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
    """What the rules need of a node."""

    @property
    def op(self) -> str: ...

    @property
    def inputs(self) -> Sequence[ValueLike | None]: ...

    @property
    def outputs(self) -> Sequence[Any]: ...

    @property
    def graph(self) -> Any: ...

    def attr(self, name: str, default: Any = None) -> Any: ...


def numbers(call: NodeLike, at: int) -> list[Any] | None:
    """The elements of an input if it is a constant."""
    value = call.inputs[at] if at < len(call.inputs) else None
    array = None if value is None else value.constant()
    return None if array is None else list(array.reshape(-1).tolist())


def _batch_and_channels(shape: Shape) -> Shape:
    """The shape with these two sizes alone, which are certain."""
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
    """Whether the last window of a pool is known to begin in the input.

    If it begins in the padding after the input, only one of onnx and onnxruntime counts it. If the
    input is smaller than the window, onnxruntime makes one element and onnx none.
    """
    rank = len(shape) - 2
    strides = call.attr("strides") or [1] * rank
    before = call.attr("pads") or [0] * rank
    sizes = (None,) * rank if x.shape is None else x.shape[2:]
    return all(
        isinstance(size, int) and isinstance(made, int) and 0 <= (made - 1) * stride < size + pad
        for size, made, stride, pad in zip(sizes, shape[2:], strides, before, strict=False)
    )


def _conv_transpose(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """onnx stops at the first axis of an output_shape below the input's."""
    is_same = str(call.attr("auto_pad", "NOTSET")).startswith("SAME")
    known = (
        _batch_and_channels(shape) if is_same and any(call.attr("output_padding") or []) else shape
    )
    return known if x.rank == len(shape) else None


def _resize(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """onnxruntime multiplies in float32."""
    is_stretched = call.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    at = 2 if call.op == "Resize" and call.graph.opset >= 11 else 1
    scales = call.attr("scales") or numbers(call, at) or []
    axes = call.attr("axes") or range(len(scales))
    return (
        shape if is_stretched and _is_scaled(x.shape, shape, scales, axes) else (None,) * len(shape)
    )


def _is_scaled(read: Shape | None, made: Shape, scales: Sequence[Any], axes: Sequence[int]) -> bool:
    """Whether the known sizes, multiplied in float32, become those that onnx says."""
    if read is None:
        return not scales
    return all(
        not isinstance(read[axis], int)
        or made[axis] == int(np.float32(read[axis]) * np.float32(scale))
        for axis, scale in zip(axes, scales, strict=False)
    )


def _squeeze(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """An empty list of axes may mean all axes of size 1, or none. Before opset 11, onnx ignores
    axes that count from the end, and onnxruntime does not.
    """
    written = call.attr("axes")
    axes = numbers(call, 1) if written is None else written
    is_overlooked = call.graph.opset < 11 and any(axis < 0 for axis in axes or [])
    return None if axes == [] or is_overlooked else shape


def _slice(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """In opset 10, onnx leaves dimensions that it does not know as they are. In a Slice backwards,
    onnxruntime takes the largest end for the front.
    """
    if call.graph.opset == 10:
        return tuple(dim if isinstance(dim, int) else None for dim in shape)
    pairs = zip(numbers(call, 2) or (), numbers(call, 4) or (), strict=False)
    return None if any(step < 0 and end in (2**31 - 1, 2**63 - 1) for end, step in pairs) else shape


def _einsum(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """onnxruntime broadcasts sizes of 1; onnx takes the first size that it sees."""
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
    """If a tensor has no elements, onnxruntime keeps the dimensions that should become 1."""
    return (None,) * len(shape) if 0 in (x.shape or ()) else shape


def joins_all(shapes: Sequence[Sequence[Any]], axis: int) -> bool:
    """Whether each tensor counts along the axis of a Concat. The shapes have the same rank.

    onnxruntime ignores tensors without elements, whatever their other sizes are. So the other sizes
    must be known to be the same in all tensors, or not to be 0.
    """
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    is_alike = None not in others[0] and all(other == others[0] for other in others)
    return is_alike or all(isinstance(dim, int) and dim > 0 for other in others for dim in other)


def _channels_of(reader: NodeLike) -> int | None:
    """The number of channels that an operator takes: onnxruntime enforces it."""
    if reader.op == "Split" and reader.attr("axis", 0) == 1:
        parts = reader.attr("split") or numbers(reader, 1)
        return sum(parts) if parts else None
    weight = reader.inputs[1] if len(reader.inputs) > 1 and reader.op in _CHANNELS_AT else None
    shape = None if weight is None or weight.constant() is None else weight.shape
    size = shape[_CHANNELS_AT[reader.op]] if shape else None
    groups = int(reader.attr("group", 1)) if reader.op in ("Conv", "FusedConv") else 1
    return size * groups if isinstance(size, int) else None


def _is_taken(value: Any, graph: Any, channels: int | str | None, steps: int = _STEPS) -> bool:
    """Whether a run that onnxruntime does not refuse has so many channels there: an operator
    further on takes no other number.
    """
    for reader in value.outputs if steps else ():
        if reader.graph is graph and reader.inputs[0] is value:
            made = reader.outputs[0] if reader.op in _KEEPS_CHANNELS else None
            if _channels_of(reader) == channels or (
                made is not None and _is_taken(made, graph, channels, steps - 1)
            ):
                return True
    return False


def _other_sizes(shapes: Sequence[Shape]) -> Shape:
    """The sizes of the joined tensor as far as they are certain, except along the joined axis."""
    # A tensor that is known to have elements has them all.
    full = next((s for s in shapes if all(isinstance(dim, int) and dim > 0 for dim in s)), None)
    alike = (a if all(a == b for b in rest) else None for a, *rest in zip(*shapes, strict=True))
    return tuple(alike) if full is None else full


def _concat(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    axis = call.attr("axis", 1)
    shapes = [value.shape for value in call.inputs if value is not None and value.shape is not None]
    if len(shapes) < len(call.inputs) or any(len(other) != len(shape) for other in shapes):
        return (None,) * len(shape)
    dims = _other_sizes(shapes)
    axis %= len(shape)
    is_certain = joins_all(shapes, axis) or (
        axis == 1 and _is_taken(call.outputs[0], call.graph, shape[axis])
    )
    joined = shape[axis] if is_certain else None
    return tuple(joined if at == axis else dim for at, dim in enumerate(dims))


def _prelu(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """onnxruntime broadcasts both ways."""
    slope = call.inputs[1].shape if len(call.inputs) > 1 and call.inputs[1] is not None else None
    if slope is None or len(slope) > len(shape):
        return None
    behind = (*[1] * (len(shape) - len(slope)), *slope)
    is_open = (dim == 1 or not isinstance(dim, int) for dim in shape)
    pairs = zip(shape, behind, is_open, strict=True)
    return tuple(None if open_ and factor not in (1, dim) else dim for dim, factor, open_ in pairs)


def _attention(call: NodeLike, x: ValueLike, shape: Shape) -> Shape | None:
    """If onnx does not know a size of heads side by side, or of the scores, the fourth output, it
    says 0. From opset 25 on onnxruntime computes by the operator's function, which broadcasts
    everything and ignores an empty past.
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
    # computed by its function
    "NegativeLogLikelihoodLoss": lambda call, x, shape: (None,) * len(shape),
    # A Loop without iterations collects sizes of 0 for those that are symbols in its body.
    "Loop": lambda call, x, shape: tuple(dim if isinstance(dim, int) else None for dim in shape),
    # one row for a scalar
    "NonZero": lambda call, x, shape: shape if x.rank else (None, *shape[1:]),
    # which may drop the axis although onnx says that it stays
    "SplitToSequence": lambda call, x, shape: None,
    "STFT": lambda call, x, shape: None,  # counted in another way without a window
    "Einsum": _einsum,
}
