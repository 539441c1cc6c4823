"""The layout in which onnxruntime computes images: blocks of 8 or 16 channels."""

from __future__ import annotations

from fusionc.model.graph import Edge

_BLOCK = 8
_KNOW_BLOCKS = frozenset(
    {"Add", "AveragePool", "BatchNormalization", "Clip", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "MaxPool"}
    | {"Mul", "Relu", "Sigmoid", "Tanh"}
)


def is_blocked(value: Edge) -> bool:
    """Whether this comes from Convs with whole blocks of channels, by nothing but operators that keep the blocks."""
    pending, seen = [value], {value}
    while pending:
        node = pending.pop().producer
        if node is None or node.domain != "":
            return False
        if node.op == "Conv":
            weight = node.inputs[1]
            channels = None if weight is None or not weight.shape else weight.shape[0]
            if not isinstance(channels, int) or channels % _BLOCK:
                return False
            continue
        if node.op not in _KNOW_BLOCKS:
            return False
        for operand in node.inputs if node.op in ("Add", "Mul") else node.inputs[:1]:
            if operand is None or not _is_image(operand):
                return False
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)
    return True


def _is_image(value: Edge) -> bool:
    """Not a constant, and not one number for each channel: these are combined with an image in the plain layout."""
    return not value.is_constant and (value.shape is None or set(value.shape[2:]) != {1})
