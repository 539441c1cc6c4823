"""Pools: the largest element of a window, or the mean."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind
from fusionc.graph_kernel.blocked.windows import pooled, reaching_ends, window_of
from fusionc.graph_kernel.lower.area_info import attribute

_FUNCTIONS = StepFunctions(task="pool", size="windowed", nanoseconds="pool_ns")


@dataclass(frozen=True)
class MaxPoolStep(StepKind):
    """The largest element of each window. If a window has one element, the step only picks
    pixels.
    """

    functions = _FUNCTIONS
    keeps_channels = True


@dataclass(frozen=True)
class AveragePoolStep(StepKind):
    """The mean of each window."""

    counts_border: bool  # whether zeros of the border count as elements
    functions = _FUNCTIONS
    keeps_channels = True


def pool(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """MaxPool or AveragePool. Raises UnfitOperator."""
    image = images.image(node.input[0])
    kernel = attribute(node, "kernel_shape")
    window = window_of(node, (int(kernel[0]), int(kernel[1])), image)
    is_largest = node.op_type == "MaxPool"
    if attribute(node, "ceil_mode", 0):
        if not is_largest or attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", ""):
            raise UnfitOperator("runtimes count windows beyond the end in different ways")
        window = reaching_ends(window, image)
    if window.dilation != (1, 1) or len(node.output) > 1:
        raise UnfitOperator("no step pools in this way")
    top, left, bottom, right = window.pads
    if max(top, bottom) >= kernel[0] or max(left, right) >= kernel[1]:
        raise UnfitOperator("a window lies outside the image")
    images.note(node.output[0], pooled(image, window, image.channels))
    counts_border = bool(attribute(node, "count_include_pad", 0))
    kind = MaxPoolStep() if is_largest else AveragePoolStep(counts_border)
    return Operation(kind, node.output[0], node.input[0], window=window)


_READING = OperatorReading(pool)
READINGS = {("", "MaxPool"): _READING, ("", "AveragePool"): _READING}
