"""Flatten, Reshape, Squeeze and Unsqueeze that convert pixels to rows, or rows to pixels. If there
is only one image, no data moves: the blocked layout stores rows like the pixels of one image.
"""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.blocked.image_area import (
    Image,
    ImageArea,
    ImageCut,
    Operation,
    UnfitOperator,
)
from fusionc.graph_kernel.blocked.image_size import ImageSize
from fusionc.graph_kernel.blocked.kinds.flatten import FlattenStep

_ROW_AXES = 2
_IMAGE_AXES = 4
_ONE = ImageSize(1)


def is_between_pixel_and_row(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether an operator makes a matrix from an image, or an image from a matrix."""
    axes = [
        len(images.shape(name)) for name in (node.input[0], node.output[0]) if images.is_value(name)
    ]
    return sorted(axes) == [_ROW_AXES, _IMAGE_AXES]


def pixel_or_row(images: ImageArea, node: onnx.NodeProto) -> ImageCut | Operation:
    """Read an operator that converts images of one pixel to rows, or rows to such images. Raises
    UnfitOperator.
    """
    name = node.input[0]
    out = node.output[0]
    if len(node.input) > 1:
        images.require_known_shape(node)
    image = images.image(name)
    batch = images.shape(name)[0]
    rows = (batch, image.channels)
    pixels = (batch, image.channels, 1, 1)
    if {images.shape(name), images.shape(out)} != {rows, pixels} or name in images.channels_last:
        raise UnfitOperator("it moves more than the only pixel of an image")
    if batch == 1:
        images.note(out, image)
        return ImageCut(name, ((out, 0),))
    images.note(
        out,
        as_rows(image)
        if images.shape(name) == pixels
        else Image(image.channels, image.width, _ONE, _ONE),
    )
    return Operation(FlattenStep(), out, name)


def as_rows(image: Image) -> Image:
    """The rows that the single pixels of images become."""
    return Image(image.channels, _ONE, _ONE, image.batch)
