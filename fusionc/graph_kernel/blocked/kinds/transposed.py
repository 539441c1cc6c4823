"""Transposed convolutions, computed as several convolutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import onnx

from fusionc.graph_kernel.blocked.image_area import Image, ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.kinds.convolve import ConvolutionKind
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import (
    BLOCK,
    KernelWindow,
    StepEstimate,
    StepFunctions,
    StepSizes,
    are_vectors,
    products_of_sums,
)
from fusionc.graph_kernel.blocked.windows import WIDEST_HALO, window_of
from fusionc.graph_kernel.lower.area_info import attribute

# If windows overlap, onnxruntime adds their results in memory, and takes this many times as long.
_OVERLAPPING = 1.3


@dataclass(frozen=True)
class TransposedStep(ConvolutionKind):
    """A transposed convolution with weights [in, out / group, rows, columns]. With strides (a, b),
    each element of the window contributes to every a-th row and every b-th column of the result.
    """

    functions = StepFunctions(
        task="transposed",
        pack="pack_transposed",
        size="transposed_size",
        divide="divide_transposed",
    )

    def halo(self, window: KernelWindow) -> int:
        sides = zip(window.kernel * 2, window.stride * 2, window.pads, strict=True)
        return max(0, *((kernel - 1 - pad) // stride for kernel, stride, pad in sides))

    @staticmethod
    def products(sizes: StepSizes) -> Any:
        return products_of_sums(sizes) / sizes.phases

    def seconds_there(self, of: StepEstimate) -> float:
        is_overlapping = of.sizes.taps > of.sizes.phases
        return super().seconds_there(of) * (_OVERLAPPING if is_overlapping else 1.0)


def transposed_convolution(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """ConvTranspose. Raises UnfitOperator."""
    x, w, bias = [*node.input, ""][:3]
    image = images.image(x)
    shape = images.weights(w)
    if len(shape) != 4:
        raise UnfitOperator("its weights do not have four axes")
    channels_in, of_group, *kernel = shape
    window = _window(node, (kernel[0], kernel[1]), image)
    out = of_group * window.group
    if window.dilation != (1, 1):
        raise UnfitOperator("its window has gaps (dilations)")
    if window.group > 1 and not are_vectors(channels_in // window.group, of_group, BLOCK):
        raise UnfitOperator("its groups are not whole blocks of channels")
    if channels_in != image.channels or (bias and images.weights(bias) != (out,)):
        raise UnfitOperator("its weights do not fit its image")
    kind = TransposedStep()
    if kind.halo(window) > WIDEST_HALO:
        raise UnfitOperator("its border is too wide")
    images.note(node.output[0], _enlarged(image, window, out))
    return Operation(kind, node.output[0], x, weights=w, bias=bias, window=window)


def _window(node: onnx.NodeProto, kernel: tuple[int, int], image: Image) -> KernelWindow:
    """The window. The output padding is subtracted from its lower and right pads. Raises
    UnfitOperator.
    """
    if attribute(node, "output_shape") is not None:
        raise UnfitOperator("the attribute output_shape gives the size of its result")
    if attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "", "VALID"):
        raise UnfitOperator("the attribute auto_pad makes its border depend on its size")
    window = window_of(node, kernel, image)
    top, left, bottom, right = window.pads
    rows, columns = attribute(node, "output_padding") or (0, 0)
    return replace(window, pads=(top, left, bottom - int(rows), right - int(columns)))


def _enlarged(image: Image, window: KernelWindow, channels: int) -> Image:
    """The image that a transposed convolution makes. Raises UnfitOperator if it has no elements."""
    top, left, bottom, right = window.pads
    down, across = window.stride
    height = image.height.times(down).plus(window.kernel[0] - down - top - bottom)
    width = image.width.times(across).plus(window.kernel[1] - across - left - right)
    if any(size.known is not None and size.known < 1 for size in (height, width)):
        raise UnfitOperator("its border is larger than its result")
    return Image(channels, image.batch, height, width)


_READING = OperatorReading(transposed_convolution, is_convolution=True, weights=(1, 2))
READINGS = {("", "ConvTranspose"): _READING}
