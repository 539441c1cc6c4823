"""What is known of the layout in which onnxruntime computes images: blocks of 8 or 16 channels."""

from __future__ import annotations

from fusionc.model.graph import Edge

_BLOCK = 8
_KNOW_BLOCKS = frozenset(
    {"Add", "AveragePool", "BatchNormalization", "Clip", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "MaxPool"}
    | {"Mul", "Relu", "Sigmoid", "Tanh"}
)


def is_blocked(value: Edge | None, depth: int = 8) -> bool:
    """Whether this is a Conv with whole blocks of channels, or what operators that keep the blocks make of one."""
    node = None if value is None else value.producer
    if node is None or depth == 0 or node.domain != "":
        return False
    if node.op == "Conv":
        weight = node.inputs[1]
        channels = None if weight is None or not weight.shape else weight.shape[0]
        return isinstance(channels, int) and channels % _BLOCK == 0
    if node.op not in _KNOW_BLOCKS:
        return False
    operands = node.inputs if node.op in ("Add", "Mul") else node.inputs[:1]
    return all(map(_is_image, operands)) and any(is_blocked(operand, depth - 1) for operand in operands)


def _is_image(value: Edge | None) -> bool:
    """Not a constant, and not one number for each channel: these are combined with an image in the plain layout."""
    if value is None or value.is_constant:
        return False
    return value.shape is None or set(value.shape[2:]) != {1}
