"""Turns the convolutions of areas (operators that one generated kernel computes) into operations in
the blocked layout.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from fusionc.graph_kernel.blocked.image_activations import fused_activation
from fusionc.graph_kernel.blocked.image_area import Image, ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.kinds.by_lane import DepthwiseStep, GroupedStep
from fusionc.graph_kernel.blocked.kinds.convolve import ConvolutionKind, ConvStep, FirstStep
from fusionc.graph_kernel.blocked.step_kind import BLOCK, KernelWindow, are_vectors
from fusionc.graph_kernel.blocked.windows import pooled, window_of

MOST_PLANAR = 4  # the most channels of an image that a convolution reads directly from the tensor
_VECTORS = (4, 8, BLOCK)  # the numbers of floats that a vector has on different processors


def convolution(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Conv, or onnxruntime's FusedConv. Raises UnfitOperator."""
    x, w, bias, second = [*node.input, "", ""][:4]
    image = images.image(x)
    out, window = channels_and_window(node, images.weights(w), image)
    if bias and images.weights(bias) != (out,):
        raise UnfitOperator("its bias does not fit its weights")
    kind = _kind(images, x, image.channels, out, window)
    operation = Operation(
        kind,
        node.output[0],
        x,
        weights=w,
        bias=bias,
        window=window,
        activated=fused_activation(node),
        is_planar=isinstance(kind, FirstStep),
    )
    images.note(operation.out, pooled(image, window, out))
    if second:
        images.image(second)
        images.require_same(second, operation.out)
        operation.second = second
    return operation


def channels_and_window(
    node: onnx.NodeProto, weights: Sequence[int], image: Image
) -> tuple[int, KernelWindow]:
    """The number of output channels of a Conv, and its window. `weights` is the shape of the Conv's
    weights. Raises UnfitOperator if the weights do not fit the image.
    """
    if len(weights) != 4:
        raise UnfitOperator("its weights do not have four axes")
    out, taken, *kernel = weights
    window = window_of(node, (kernel[0], kernel[1]), image)
    if taken * window.group != image.channels or out % window.group:
        raise UnfitOperator("its weights do not fit its image")
    return out, window


def _kind(
    images: ImageArea, x: str, channels: int, out: int, window: KernelWindow
) -> ConvolutionKind:
    if window.group == 1:
        is_read_as_it_is = x in images.area.inputs and channels <= MOST_PLANAR
        return FirstStep() if is_read_as_it_is else ConvStep()
    if window.group == channels == out:
        return DepthwiseStep()
    group_in = channels // window.group
    group_out = out // window.group
    if are_vectors(group_in, group_out, BLOCK):
        return ConvStep()
    if not all(
        are_vectors(group_in, group_out, floats) or _fit_lanes(group_in, group_out, out, floats)
        for floats in _VECTORS
    ):
        raise UnfitOperator("its groups are parts of blocks of channels that are not adjacent")
    return GroupedStep()


def _fit_lanes(group_in: int, group_out: int, out: int, floats: int) -> bool:
    """Whether each vector of output channels needs only one vector of input channels."""
    # for each output channel: the number of the vector that has the input channels of its group
    vectors = [channel // group_out * group_in // floats for channel in range(out)]
    return floats % group_in == 0 and all(vectors[k] == vectors[k - k % floats] for k in range(out))
