"""Reads the windows of convolutions and pools from their attributes."""

from __future__ import annotations

from dataclasses import replace

import onnx

from fusionc.graph_kernel.blocked.image_area import Image, UnfitOperator
from fusionc.graph_kernel.blocked.image_size import ImageSize, windows_in
from fusionc.graph_kernel.blocked.step_kind import KernelWindow
from fusionc.graph_kernel.lower.area_info import attribute

WIDEST_HALO = 16  # the most rows or columns of zeros around an image


def window_of(node: onnx.NodeProto, kernel: tuple[int, int], image: Image) -> KernelWindow:
    """The window of a convolution or pool; `kernel` is its size. Raises UnfitOperator if no step
    supports the window.
    """
    written = attribute(node, "kernel_shape")
    if written is not None and tuple(written) != kernel:
        raise UnfitOperator("its weights do not fit its attribute kernel_shape")
    window = KernelWindow(
        kernel,
        _pair(node, "strides"),
        _pair(node, "dilations"),
        (0, 0, 0, 0),
        int(attribute(node, "group", 1)),
    )
    window = replace(window, pads=_pads(node, window, image))
    if min(window.pads) < 0 or max(window.pads) > WIDEST_HALO:
        raise UnfitOperator("its border is too wide")
    return window


def pooled(image: Image, window: KernelWindow, channels: int) -> Image:
    """The image that results if a window moves over `image`. Raises UnfitOperator if the window is
    larger than the image.
    """
    top, left, bottom, right = window.pads
    height = windows_in(
        image.height, window.kernel[0], window.stride[0], window.dilation[0], top + bottom
    )
    width = windows_in(
        image.width, window.kernel[1], window.stride[1], window.dilation[1], left + right
    )
    if any(size.known is not None and size.known < 1 for size in (height, width)):
        raise UnfitOperator("a window is larger than the image")
    return Image(channels, image.batch, height, width)


def reaching_ends(window: KernelWindow, image: Image) -> KernelWindow:
    """The window for ceil_mode: its pads are enlarged so that its last position reaches the end of
    the image. Raises UnfitOperator if the pads depend on unknown sizes.
    """
    pads = list(window.pads)
    for axis, size in enumerate((image.height, image.width)):
        stride = window.stride[axis]
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
        if stride == 1:
            continue
        if size.known is None:
            raise UnfitOperator("how far its windows reach is not known before the model runs")
        pads[axis + 2] += (reach - size.known - pads[axis] - pads[axis + 2]) % stride
    return replace(window, pads=(pads[0], pads[1], pads[2], pads[3]))


def _pair(node: onnx.NodeProto, name: str) -> tuple[int, int]:
    rows, columns = attribute(node, name) or (1, 1)
    return int(rows), int(columns)


def _pads(node: onnx.NodeProto, window: KernelWindow, image: Image) -> tuple[int, int, int, int]:
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        top, left, bottom, right = attribute(node, "pads") or (0, 0, 0, 0)
        return int(top), int(left), int(bottom), int(right)
    if auto == "VALID":
        return 0, 0, 0, 0
    totals = [
        _total(size, *of_axis)
        for size, *of_axis in zip(
            (image.height, image.width), window.kernel, window.stride, window.dilation, strict=True
        )
    ]
    less = [total // 2 for total in totals]
    more = [total - total // 2 for total in totals]
    begin, end = (less, more) if auto == "SAME_UPPER" else (more, less)
    return begin[0], begin[1], end[0], end[1]


def _total(size: ImageSize, kernel: int, stride: int, dilation: int) -> int:
    """The total padding along an axis for auto_pad SAME: with it, the size of the result is the
    size of the image divided by the stride, rounded up. Raises UnfitOperator.
    """
    reach = dilation * (kernel - 1) + 1
    if stride == 1:
        return reach - 1
    if size.known is None:
        raise UnfitOperator("its border is not known before the model runs")
    total = (-(-size.known // stride) - 1) * stride + reach - size.known
    if total < -1:
        raise UnfitOperator("its windows begin inside the image")
    return max(0, total)
