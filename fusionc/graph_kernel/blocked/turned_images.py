"""Transposes that move the channels of an image to the last axis, or back. In the blocked layout,
such a Transpose moves no data.
"""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.blocked.convolution_operators import MOST_PLANAR
from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, UnfitOperator
from fusionc.graph_kernel.lower.area_info import attribute

# the attribute `perm` of a Transpose
_LAST = (0, 2, 3, 1)
CHANNELS_SECOND = (0, 3, 1, 2)


def turned(images: ImageArea, node: onnx.NodeProto) -> ImageCut:
    """A Transpose that moves the channels to the last axis, or back to the second one."""
    (name,) = node.input
    (out,) = node.output
    order = tuple(attribute(node, "perm") or ())
    if order == CHANNELS_SECOND:
        images.put_channels_last(name)
    elif order != _LAST or images.is_channels_last(name):
        raise UnfitOperator("it moves other axes than that of the channels")
    else:
        images.channels_last.add(out)
    image = images.image(name)
    if name in images.area.inputs and image.channels <= MOST_PLANAR:
        raise UnfitOperator(
            "its image has few channels; a convolution reads such an image directly from its tensor"
        )
    images.note(out, image)
    if name in images.grids:
        images.grids[out] = images.grids[name]
    return ImageCut(name, ((out, 0),))
