"""The layout in which onnxruntime computes images: blocks of 8 or 16 channels."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import shape_of
from fusionc.shapes.expressions import is_static

_BLOCK = 8  # channels, at least
_WIDE_BLOCK = 16  # channels, on processors with the widest registers
_PART = 4  # input channels that a Conv without groups takes at a time
# Activations that onnxruntime computes in blocks, whatever comes before them.
IN_BLOCKS = frozenset({"Gelu", "HardSigmoid", "HardSwish", "Relu", "Sigmoid", "Tanh"})
_IN_CONV = frozenset({"Clip", "LeakyRelu"})  # activations that a Conv before them takes in
_ACTIVATIONS = IN_BLOCKS | _IN_CONV | {"BatchNormalization"}
_CONTRIB_ACTIVATIONS = names_with(Trait.ACTIVATION, domain=MICROSOFT)
_POOLS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
_SLIDING_POOLS = frozenset({"AveragePool", "MaxPool"})
_OF_EQUAL_SHAPES = frozenset({"Add", "Mul", "Sum"})


def is_blocked_conv(node: Node) -> bool:
    """Whether onnxruntime computes a node as a Conv in blocks, with whole blocks of output
    channels.
    """
    shape = _weights_of(node)
    return shape is not None and shape[0] % _BLOCK == 0 and _takes_blocks(node, shape)


def is_blocked(value: Edge, known: Collection[Edge] = ()) -> bool:
    """Whether a value comes from Convs with whole blocks of channels, only through operators that
    keep the blocks.

    The values in `known` are taken to be in blocks.
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
    """Whether a Conv or pool that onnxruntime computes in blocks reads a value.

    It may read the value through operators that keep the blocks, if their other operands are in
    blocks; those in `known` are.
    """
    pending = [value]
    seen = {value, *known}
    while pending:
        read = pending.pop()
        for user in read.outputs:
            if reads_blocks(user, read):
                return True
            result = user.outputs[0]
            operands = _blocks_read(user)
            if result is None or result in seen or read not in operands:
                continue
            if all(o is not None and _is_image(o) and is_blocked(o, seen) for o in operands):
                seen.add(result)
                pending.append(result)
    return False


def reads_blocks(user: Node, image: Edge) -> bool:
    """Whether a node is a Conv or pool of this image that onnxruntime computes in blocks."""
    shape = _weights_of(user)
    is_conv = shape is not None and _takes_blocks(user, shape)
    return user.inputs[0] is image and (is_conv or user.is_op(*_POOLS))


def are_for_blocks(parts: Sequence[Edge]) -> bool:
    """Whether each of these parts of an image has whole blocks of channels and is read in
    blocks.
    """
    return all(_has_wide_blocks(part) and is_for_blocks(part, parts) for part in parts)


def _has_wide_blocks(value: Edge | None) -> bool:
    """Whether the channels are whole blocks on every processor."""
    shape = None if value is None else value.shape
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    return isinstance(channels, int) and channels % _WIDE_BLOCK == 0


def _weights_of(node: Node) -> tuple[int, ...] | None:
    """The shape of the weights of a two-dimensional Conv without another addend; None if
    unknown.
    """
    is_conv = node.is_op("Conv") or (
        node.domain == MICROSOFT and node.op == "FusedConv" and len(node.inputs) < 4
    )
    shape = shape_of(node.inputs[1]) if is_conv and not node.has_references else None
    return shape if is_static(shape) and len(shape) == 4 else None


def _takes_blocks(conv: Node, shape: Sequence[int]) -> bool:
    """Whether onnxruntime computes a Conv with weights of that shape in blocks."""
    channels, taken = shape[:2]
    group = int(conv.attr("group", 1))
    if group == 1:
        return taken < _BLOCK or taken % _PART == 0
    if taken == 1 and channels == group:
        return channels % _BLOCK == 0
    return taken % _BLOCK == 0 and channels // group % _BLOCK == 0


def _blocks_read(node: Node) -> Sequence[Edge | None]:
    """The inputs that an operator reads as images in blocks, if it keeps the blocks; else none."""
    if node.is_op(*_OF_EQUAL_SHAPES):
        return node.inputs
    if node.is_op("Concat") and node.attr("axis") == 1:
        return node.inputs if all(map(_has_wide_blocks, node.inputs)) else ()
    is_activation = node.is_op(*_ACTIVATIONS) or (
        node.domain == MICROSOFT and node.op in _CONTRIB_ACTIVATIONS
    )
    return node.inputs[:1] if is_activation or node.is_op(*_SLIDING_POOLS) else ()


def _is_image(value: Edge) -> bool:
    """Whether a value is neither a constant nor one number per channel.

    onnxruntime combines those with an image in the plain layout.
    """
    return not value.is_constant and (value.shape is None or set(value.shape[2:]) != {1})
