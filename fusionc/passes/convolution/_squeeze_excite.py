"""Squeeze and excite: an image is multiplied by one factor per channel, computed from all
pixels.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.model.graph import Edge, Node
from fusionc.passes.convolution._blocked_layout import (
    is_blocked,
    is_blocked_conv,
    is_for_blocks,
    reads_blocks,
)

_KEEP_BLOCKS = ("Clip", "HardSigmoid", "Relu", "Sigmoid", "Tanh")


def is_for_each_channel(scale: Edge, image: Edge) -> bool:
    """Whether the scale is known to have one number per channel, and the image several pixels."""
    shape = image.shape
    if shape is None or len(shape) != 4 or set(shape[2:]) == {1}:
        return False
    return scale.shape == (*shape[:2], 1, 1)


def is_scaled_in_blocks(image: Edge, scale: Edge, product: Edge) -> bool:
    """Whether onnxruntime can multiply an image by its scale in its blocked layout, which stores
    blocks of channels together.

    Image and scale must come from Convs in this layout, a Conv or pool must read the product in
    this layout, and all other users of the image must keep the layout.
    """
    if image.elem_type != TensorProto.FLOAT or not is_for_each_channel(scale, image):
        return False
    if not _comes_from_conv(scale) or not is_blocked(image) or not is_for_blocks(product):
        return False
    return not image.is_output and all(
        _keeps_blocks(user, image, product) for user in image.outputs
    )


def _keeps_blocks(user: Node, image: Edge, product: Edge) -> bool:
    """Whether a user reads the image in the blocked layout, or keeps the layout in all its
    results.
    """
    if reads_blocks(user, image):
        return True
    return all(
        result is product or (result is not None and is_blocked(result, (product,)))
        for result in user.outputs
    )


def _comes_from_conv(scale: Edge) -> bool:
    """Whether a value comes from a Conv in the blocked layout, through activations only."""
    node = scale.producer
    while node is not None and node.is_op(*_KEEP_BLOCKS):
        node = None if node.inputs[0] is None else node.inputs[0].producer
    return node is not None and is_blocked_conv(node)
