"""The mean of all pixels of an image."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.image_size import ImageSize
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.pixel_rows import as_rows
from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_ONE = ImageSize(1)
_IMAGE_RANK = 4


@dataclass(frozen=True)
class GlobalAverageStep(StepKind):
    """One pixel for each image."""

    functions = StepFunctions(task="global_average", size="averaged", nanoseconds="average_ns")
    keeps_channels = True


def global_average(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """GlobalAveragePool, or ReduceMean over rows and columns. Raises UnfitOperator."""
    image = images.image(node.input[0])
    if node.op_type == "ReduceMean":
        axes = images.numbers(node, 1, "axes")
        if axes is None or sorted(int(axis) % _IMAGE_RANK for axis in axes) != [2, 3]:
            raise UnfitOperator("it is not a mean over rows and columns")
    pixel = replace(image, height=_ONE, width=_ONE)
    images.note(node.output[0], pixel if attribute(node, "keepdims", 1) else as_rows(pixel))
    return Operation(GlobalAverageStep(), node.output[0], node.input[0])


READINGS = {("", "GlobalAveragePool"): OperatorReading(global_average)}
