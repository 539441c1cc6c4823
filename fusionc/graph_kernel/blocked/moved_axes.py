"""Reshape, Transpose and the like. They mean one thing for rows, and another for images."""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.blocked import heads
from fusionc.graph_kernel.blocked.channel_shuffle import has_five_axes, interleaved, of_groups
from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, Operation
from fusionc.graph_kernel.blocked.pixel_rows import is_between_pixel_and_row, pixel_or_row
from fusionc.graph_kernel.blocked.turned_images import turned


def reshaped(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    """Channels get an axis of heads or of groups, or lose it; or a pixel becomes a row, or a row a
    pixel.
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
    """Heads get an axis to repeat them, or a row becomes a pixel."""
    if not images.has_rows:
        return pixel_or_row(images, node)
    heads.with_axis_to_repeat(images, node)
    return None


def transposed(images: ImageArea, node: onnx.NodeProto) -> ImageCut | None:
    """Heads move before rows, groups take turns, or channels become the last or the second axis."""
    if images.has_rows:
        heads.to_the_front(images, node)
        return None
    if not has_five_axes(images, node.input[0]):
        return turned(images, node)
    interleaved(images, node)
    return None
