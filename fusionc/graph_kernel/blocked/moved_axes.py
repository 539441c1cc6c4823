"""Reshape, Transpose and similar operators. Their meaning depends on whether the area has rows or
images.
"""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.blocked import heads
from fusionc.graph_kernel.blocked.channel_shuffle import has_five_axes, interleaved, of_groups
from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, Operation
from fusionc.graph_kernel.blocked.pixel_rows import is_between_pixel_and_row, pixel_or_row
from fusionc.graph_kernel.blocked.turned_images import turned


def reshaped(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    """Read a Reshape. It adds or removes an axis of heads or of groups of channels, or converts
    pixels to rows or rows to pixels.
    """
    if not images.has_rows:
        return (
            pixel_or_row(images, node)
            if is_between_pixel_and_row(images, node)
            else of_groups(images, node)
        )
    heads.split_or_merged(images, node)
    return None


def unsqueezed(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    """Read an Unsqueeze. It adds an axis along which heads are repeated, or converts rows to
    pixels.
    """
    if not images.has_rows:
        return pixel_or_row(images, node)
    heads.with_axis_to_repeat(images, node)
    return None


def transposed(images: ImageArea, node: onnx.NodeProto) -> ImageCut | None:
    """Read a Transpose. It moves heads before rows, interleaves groups of channels, or moves the
    channels to the last axis or back to the second one.
    """
    if images.has_rows:
        heads.to_the_front(images, node)
        return None
    if not has_five_axes(images, node.input[0]):
        return turned(images, node)
    interleaved(images, node)
    return None
