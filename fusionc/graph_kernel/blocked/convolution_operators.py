"""Convolutions of blocked areas as operations."""

from __future__ import annotations

from dataclasses import replace

import onnx

from fusionc.graph_kernel.blocked.image_activations import fused_activation
from fusionc.graph_kernel.blocked.image_area import Image, ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.program import BLOCK, KernelWindow, StepKind
from fusionc.graph_kernel.blocked.windows import WIDEST_HALO, pooled, window_of
from fusionc.graph_kernel.lower.area_info import attribute

MOST_PLANAR = 4  # channels of an image that a convolution reads as it lies in its tensor
_VECTORS = (4, 8, BLOCK)  # channels that lie together, by processor


def convolution(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Conv, or onnxruntime's FusedConv. Raises UnfitOperator."""
    x, w, bias, second = [*node.input, "", ""][:4]
    image = images.image(x)
    shape = images.weights(w)
    if len(shape) != 4:
        raise UnfitOperator("its weights have not four axes")
    out, taken, *kernel = shape
    window = window_of(node, (kernel[0], kernel[1]), image)
    if taken * window.group != image.channels or out % window.group:
        raise UnfitOperator("its weights do not fit its image")
    if bias and images.weights(bias) != (out,):
        raise UnfitOperator("its bias does not fit its weights")
    found = Operation(
        _kind(images, x, image.channels, out, window),
        node.output[0],
        x,
        weights=w,
        bias=bias,
        window=window,
        activated=fused_activation(node),
    )
    found.is_planar = found.kind is StepKind.FIRST
    images.note(found.out, pooled(image, window, out))
    if second:
        images.image(second)
        images.require_same(second, found.out)
        found.second = second
    return found


def _kind(images: ImageArea, x: str, channels: int, out: int, window: KernelWindow) -> StepKind:
    if window.group == 1:
        is_read_as_it_is = x in images.area.inputs and channels <= MOST_PLANAR
        return StepKind.FIRST if is_read_as_it_is else StepKind.CONV
    if window.group == channels == out:
        return StepKind.DEPTHWISE
    taken = channels // window.group
    made = out // window.group
    if _are_blocks(taken, made, BLOCK):
        return StepKind.CONV
    if not all(
        _are_blocks(taken, made, floats) or _fit_lanes(taken, made, out, floats)
        for floats in _VECTORS
    ):
        raise UnfitOperator("its groups are parts of blocks of channels that lie apart")
    return StepKind.GROUPED


def _are_blocks(taken: int, made: int, floats: int) -> bool:
    """Whether the channels of a group, in and out, are whole vectors of so many floats."""
    return taken % floats == 0 and made % floats == 0


def _fit_lanes(taken: int, made: int, out: int, floats: int) -> bool:
    """Whether all channels of a vector out are made of channels that lie in one vector: for each
    the group, and there the vector with the first channel of the group, which has all others.
    """
    vectors = [channel // made * taken // floats for channel in range(out)]
    return floats % taken == 0 and all(vectors[k] == vectors[k - k % floats] for k in range(out))


def transposed_convolution(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """ConvTranspose. Raises UnfitOperator."""
    x, w, bias = [*node.input, ""][:3]
    image = images.image(x)
    shape = images.weights(w)
    if len(shape) != 4:
        raise UnfitOperator("its weights have not four axes")
    if attribute(node, "output_shape") is not None:
        raise UnfitOperator("its output has a size of its own")
    if attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "", "VALID"):
        raise UnfitOperator("its border follows from its size")
    taken, made, *kernel = shape
    window = window_of(node, (kernel[0], kernel[1]), image)
    top, left, bottom, right = window.pads
    below, behind = attribute(node, "output_padding") or (0, 0)
    window = replace(window, pads=(top, left, bottom - int(below), right - int(behind)))
    out = made * window.group
    if window.dilation != (1, 1):
        raise UnfitOperator("its kernel has gaps")
    if window.group > 1 and not _are_blocks(taken // window.group, made, BLOCK):
        raise UnfitOperator("its groups are no whole blocks of channels")
    if taken != image.channels or (bias and images.weights(bias) != (out,)):
        raise UnfitOperator("its weights do not fit its image")
    found = Operation(StepKind.TRANSPOSED, node.output[0], x, weights=w, bias=bias, window=window)
    if found.halo > WIDEST_HALO:
        raise UnfitOperator("its border is too wide")
    height, width = (
        size.times(stride).plus(kernel - stride - begin - end)
        for size, stride, kernel, begin, end in zip(
            (image.height, image.width),
            window.stride,
            window.kernel,
            window.pads[:2],
            window.pads[2:],
            strict=True,
        )
    )
    if any(size.known is not None and size.known < 1 for size in (height, width)):
        raise UnfitOperator("its border is larger than what it makes")
    images.note(found.out, Image(out, image.batch, height, width))
    return found
