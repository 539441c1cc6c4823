"""Squeeze and excite: an image times one factor for each of its channels, which is computed from
all pixels.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes.convolution._blocked_layout import (
    is_blocked,
    is_blocked_conv,
    is_for_blocks,
    reads_blocks,
)

_KEEP_BLOCKS = ("Clip", "HardSigmoid", "Relu", "Sigmoid", "Tanh")


def is_for_each_channel(scale: Edge, image: Edge) -> bool:
    """Whether the scale is known to have one number for each channel of each image, which may have
    more pixels.
    """
    shape = image.shape
    if shape is None or len(shape) != 4 or set(shape[2:]) == {1}:
        return False
    return scale.shape == (*shape[:2], 1, 1)


def is_scaled_in_blocks(image: Edge, scale: Edge, product: Edge) -> bool:
    """Whether image and scale come from Convs of whole blocks of channels, what reads the product
    takes these, and nothing else needs the image in another layout.
    """
    is_known = image.elem_type == TensorProto.FLOAT and is_for_each_channel(scale, image)
    if (
        not is_known
        or not _is_of_conv(scale)
        or not is_blocked(image)
        or not is_for_blocks(product)
    ):
        return False
    others = [
        made for user in image.outputs if not reads_blocks(user, image) for made in user.outputs
    ]
    return not image.is_output and all(
        made is product or (made is not None and is_blocked(made, (product,))) for made in others
    )


def _is_of_conv(scale: Edge) -> bool:
    """Whether this comes from a Conv with whole blocks of channels, by nothing but activations."""
    node = scale.producer
    while node is not None and node.is_op(*_KEEP_BLOCKS):
        node = None if node.inputs[0] is None else node.inputs[0].producer
    return node is not None and is_blocked_conv(node)
