"""Images whose last axis are the channels, as Transposes make them: in blocks of channels nothing moves."""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.blocked.convolution_operators import MOST_PLANAR
from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.program import KernelWindow, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_LAST, _SECOND = (0, 2, 3, 1), (0, 3, 1, 2)  # where a Transpose takes the axes of its result from
_EPSILON = 1e-5


def turned(images: ImageArea, node: onnx.NodeProto) -> ImageCut:
    """A Transpose after which the channels are the last axis, or the second one again."""
    (name,), (out,) = node.input, node.output
    order = tuple(attribute(node, "perm") or ())
    if order == _SECOND:
        images.turn(name)
    elif order != _LAST or images.is_channels_last(name):
        raise UnfitOperator("it moves other axes than that of the channels")
    else:
        images.channels_last.add(out)
    image = images.image(name)
    if name in images.area.inputs and image.channels <= MOST_PLANAR:
        raise UnfitOperator("images of few channels are read as they lie in their tensor")
    images.note(out, image)
    return ImageCut(name, ((out, 0),))


def normalized(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """LayerNormalization over the channels of images."""
    name, scale, bias = [*node.input, ""][:3]
    if images.is_rows(name):
        raise UnfitOperator("onnxruntime normalizes rows as fast")
    if not images.is_of_channels(name, attribute(node, "axis", -1)) or any(node.output[1:]):
        raise UnfitOperator("it normalizes more than channels, or hands out more than that")
    image = images.image(name)
    if images.weights(scale) != (image.channels,) or (bias and images.weights(bias) != (image.channels,)):
        raise UnfitOperator("its factors do not fit its channels")
    images.note(node.output[0], image)
    return Operation(
        StepKind.NORM,
        node.output[0],
        name,
        weights=scale,
        bias=bias,
        window=KernelWindow(group=image.channels),
        epsilon=float(attribute(node, "epsilon", _EPSILON)),
    )
