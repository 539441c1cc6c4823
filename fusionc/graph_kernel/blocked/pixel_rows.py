"""One pixel as a row, and a row as a pixel, as Flatten, Reshape, Squeeze and Unsqueeze write it: where there is one
image, both lie alike in blocks of channels, and nothing moves."""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, UnfitOperator

_ROW_AXES, _IMAGE_AXES = 2, 4


def is_between_pixel_and_row(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether an operator makes a matrix of an image, or an image of a matrix."""
    axes = [len(images.shape(name)) for name in (node.input[0], node.output[0]) if images.is_value(name)]
    return sorted(axes) == [_ROW_AXES, _IMAGE_AXES]


def pixel_or_row(images: ImageArea, node: onnx.NodeProto) -> ImageCut:
    """The pixel, or the row, that an operator makes of the other one."""
    name, out = node.input[0], node.output[0]
    if not is_between_pixel_and_row(images, node):
        raise UnfitOperator("it makes neither a row of a pixel nor a pixel of a row")
    if len(node.input) > 1:
        images.require_known_shape(node)
    image = images.image(name)
    row, pixel = (1, image.channels), (1, image.channels, 1, 1)
    if {images.shape(name), images.shape(out)} != {row, pixel} or name in images.channels_last:
        raise UnfitOperator("it moves more than the pixel of one image")
    images.note(out, image)
    return ImageCut(name, ((out, 0),))
