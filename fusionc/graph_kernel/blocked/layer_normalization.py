"""LayerNormalization, and RMSNormalization, over the channels of each pixel."""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.program import KernelWindow, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_EPSILON = 1e-5


def layer_normalization(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """The norm of images. Raises UnfitOperator."""
    name, scale, bias = [*node.input, ""][:3]
    if not images.is_of_channels(name, attribute(node, "axis", -1)) or any(node.output[1:]):
        raise UnfitOperator("it normalizes more than channels, or hands out more than that")
    image = images.image(name)
    if images.weights(scale) != (image.channels,) or (
        bias and images.weights(bias) != (image.channels,)
    ):
        raise UnfitOperator("its factors do not fit its channels")
    images.note(node.output[0], image)
    return Operation(
        StepKind.LAYER_NORM if node.op_type == "LayerNormalization" else StepKind.RMS_NORM,
        node.output[0],
        name,
        weights=scale,
        bias=bias,
        window=KernelWindow(group=image.channels),
        epsilon=float(attribute(node, "epsilon", _EPSILON)),
    )
