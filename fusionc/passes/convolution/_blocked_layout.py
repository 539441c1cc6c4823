"""onnxruntime's blocked layout of images, which stores blocks of 8 or 16 channels together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import shape_of
from fusionc.shapes.expressions import is_static

_BLOCK = 8  # channels of the smallest block
_WIDE_BLOCK = 16  # channels of a block on processors with AVX-512
_INPUT_CHANNEL_STEP = 4  # a Conv without groups reads this many input channels at a time
# Activations that onnxruntime computes in the blocked layout after any operator.
IN_BLOCKS = frozenset({"Gelu", "HardSigmoid", "HardSwish", "Relu", "Sigmoid", "Tanh"})
_IN_CONV = frozenset({"Clip", "LeakyRelu"})  # activations that onnxruntime fuses into a Conv
_ACTIVATIONS = IN_BLOCKS | _IN_CONV | {"BatchNormalization"}
_CONTRIB_ACTIVATIONS = names_with(Trait.ACTIVATION, domain=MICROSOFT)
_POOLS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
_SLIDING_POOLS = frozenset({"AveragePool", "MaxPool"})
_SAME_SHAPE_OPERATORS = frozenset({"Add", "Mul", "Sum"})


def is_blocked_conv(node: Node) -> bool:
    """Whether onnxruntime computes a node as a Conv in the blocked layout, with a multiple of
    _BLOCK output channels.
    """
    shape = _weights_of(node)
    return shape is not None and shape[0] % _BLOCK == 0 and _has_blocked_kernel(node, shape)


def is_blocked(value: Edge, known: Collection[Edge] = ()) -> bool:
    """Whether onnxruntime stores a value in the blocked layout: the value comes from Convs whose
    output channels fill whole blocks, directly or through operators that keep the layout.

    The values in `known` are assumed to be in the blocked layout.
    """
    pending = [value]
    seen = {value, *known}
    if value in known:
        return True
    while pending:
        node = pending.pop().producer
        if node is None:
            return False
        if is_blocked_conv(node):
            continue
        operands = _blocks_read(node)
        if not operands:
            return False
        for operand in operands:
            if operand is None or not _is_image(operand):
                return False
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)
    return True


def is_for_blocks(value: Edge, known: Collection[Edge] = ()) -> bool:
    """Whether a Conv or pool reads a value in the blocked layout.

    Operators that keep the layout may be in between if their other operands are in the blocked
    layout, too. The values in `known` are assumed to be in this layout.
    """
    pending = [value]
    seen = {value, *known}
    while pending:
        read_value = pending.pop()
        for user in read_value.outputs:
            if reads_blocks(user, read_value):
                return True
            result = user.outputs[0]
            operands = _blocks_read(user)
            if result is None or result in seen or read_value not in operands:
                continue
            if all(o is not None and _is_image(o) and is_blocked(o, seen) for o in operands):
                seen.add(result)
                pending.append(result)
    return False


def reads_blocks(user: Node, image: Edge) -> bool:
    """Whether a node is a Conv or pool of this image in the blocked layout."""
    shape = _weights_of(user)
    is_conv = shape is not None and _has_blocked_kernel(user, shape)
    return user.inputs[0] is image and (is_conv or user.is_op(*_POOLS))


def are_for_blocks(parts: Sequence[Edge]) -> bool:
    """Whether each of these parts of an image has whole blocks of channels and is read in the
    blocked layout.
    """
    return all(_has_wide_blocks(part) and is_for_blocks(part, parts) for part in parts)


def _has_wide_blocks(value: Edge | None) -> bool:
    """Whether the channels of a value fill whole blocks on every processor."""
    shape = None if value is None else value.shape
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    return isinstance(channels, int) and channels % _WIDE_BLOCK == 0


def _weights_of(node: Node) -> tuple[int, ...] | None:
    """The shape of the weights if the node is a two-dimensional Conv, or such a FusedConv without
    an additional addend. None for other nodes, and if the shape is unknown.
    """
    is_conv = node.is_op("Conv") or (
        node.domain == MICROSOFT and node.op == "FusedConv" and len(node.inputs) < 4
    )
    shape = shape_of(node.inputs[1]) if is_conv and not node.has_references else None
    return shape if is_static(shape) and len(shape) == 4 else None


def _has_blocked_kernel(conv: Node, shape: Sequence[int]) -> bool:
    """Whether onnxruntime computes a Conv with weights of this shape in the blocked layout."""
    channels, input_channels = shape[:2]
    group = int(conv.attr("group", 1))
    if group == 1:
        return input_channels < _BLOCK or input_channels % _INPUT_CHANNEL_STEP == 0
    if input_channels == 1 and channels == group:
        return channels % _BLOCK == 0
    return input_channels % _BLOCK == 0 and channels // group % _BLOCK == 0


def _blocks_read(node: Node) -> Sequence[Edge | None]:
    """The inputs that an operator reads in the blocked layout; empty if its result is not in this
    layout.
    """
    if node.is_op(*_SAME_SHAPE_OPERATORS):
        return node.inputs
    if node.is_op("Concat") and node.attr("axis") == 1:
        return node.inputs if all(map(_has_wide_blocks, node.inputs)) else ()
    is_activation = node.is_op(*_ACTIVATIONS) or (
        node.domain == MICROSOFT and node.op in _CONTRIB_ACTIVATIONS
    )
    return node.inputs[:1] if is_activation or node.is_op(*_SLIDING_POOLS) else ()


def _is_image(value: Edge) -> bool:
    """Whether a value is an image: neither a constant nor one number per channel.

    onnxruntime combines constants and single numbers with an image in the plain layout only.
    """
    return not value.is_constant and (value.shape is None or set(value.shape[2:]) != {1})
