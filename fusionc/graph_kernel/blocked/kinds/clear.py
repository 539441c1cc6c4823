"""Setting rows to zero."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind

_WITH_BATCH = 3  # the number of axes of rows with a batch


@dataclass(frozen=True)
class ClearStep(StepKind):
    """Sets rows to zero. `tensor` has a byte for each row of a batch. If the byte is not 0, the row
    is set to zero.
    """

    functions = StepFunctions(task="clear", fault="clear_fault")
    writes_in_place = True
    keeps_pixels = True


def cleared(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """A Where that sets rows to zero: for example, the rows of attention that see no key. Raises
    UnfitOperator for others.
    """
    condition, zero, name = node.input
    image = images.image(name)
    if images.number(zero) != 0 or not images.is_rows(name):
        raise UnfitOperator("it does not choose between zero and rows")
    mask = images.tensor(condition, TensorProto.BOOL, _WITH_BATCH).shape
    declared = images.area.values[name].shape
    result = images.area.values[node.output[0]].shape
    if mask[-1] != 1 or len(declared) != _WITH_BATCH or result != declared:
        raise UnfitOperator("its condition is not known to have one element for each row")
    images.note(node.output[0], image)
    return Operation(ClearStep(), node.output[0], name, tensor=condition)


READINGS = {("", "Where"): OperatorReading(cleared, of_rows=True)}
