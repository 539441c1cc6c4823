"""Squeeze and excite: an image times one factor for each of its channels, which is computed from all pixels."""

from __future__ import annotations

from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes.convolution._blocked_layout import is_blocked, is_blocked_conv, is_for_blocks

_KEEP_BLOCKS = ("Clip", "HardSigmoid", "Relu", "Sigmoid", "Tanh")


def is_for_each_channel(scale: Edge, image: Edge) -> bool:
    """Whether the scale is known to have one number for each channel of each image, which may have more pixels."""
    shape = image.shape
    if shape is None or len(shape) != 4 or set(shape[2:]) == {1}:
        return False
    return scale.shape == (*shape[:2], 1, 1)


def is_scaled_in_blocks(image: Edge, scale: Edge, product: Edge) -> bool:
    """Whether image and scale come from Convs of whole blocks of channels, and what reads the product takes these."""
    is_known = image.elem_type == TensorProto.FLOAT and is_for_each_channel(scale, image)
    return is_known and _is_of_conv(scale) and is_blocked(image) and is_for_blocks(product)


def _is_of_conv(scale: Edge) -> bool:
    """Whether this comes from a Conv with whole blocks of channels, by nothing but activations."""
    node = scale.producer
    while node is not None and node.is_op(*_KEEP_BLOCKS):
        node = None if node.inputs[0] is None else node.inputs[0].producer
    return node is not None and is_blocked_conv(node)
