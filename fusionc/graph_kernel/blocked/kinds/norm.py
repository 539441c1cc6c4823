"""Normalization over the channels of each pixel."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import StepEstimate, StepFunctions, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_EPSILON = 1e-5
# Seconds for each element of the rows. Measured with AVX2: 0.3 to 0.65 ns here; in onnxruntime 0.54
# to 0.6 ns, and 1.0 ns if rows are short.
_NUMBER = 0.4e-9
_NUMBER_THERE = 0.55e-9


@dataclass(frozen=True)
class _Norm(StepKind):
    epsilon: float  # the number that is added to variances
    functions = StepFunctions(
        task="normalize", pack="pack_vector", packed_floats="vector_floats", divide="divide_norm"
    )
    writes_in_place = True
    keeps_pixels = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        numbers = of.out.pixels * of.out.channels * of.out.is_rows
        return numbers * _NUMBER, numbers * _NUMBER_THERE


@dataclass(frozen=True)
class LayerNormStep(_Norm):
    """(x - mean) / √(variance + epsilon) · `weights` + `bias`."""


@dataclass(frozen=True)
class RmsNormStep(_Norm):
    """x / √(mean of x² + epsilon) · `weights` + `bias`."""


def normalization(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """LayerNormalization or RMSNormalization. Raises UnfitOperator."""
    name, scale, bias = [*node.input, ""][:3]
    if not images.is_of_channels(name, attribute(node, "axis", -1)) or any(node.output[1:]):
        raise UnfitOperator("it normalizes more axes than the channels, or has further outputs")
    image = images.image(name)
    channels = (image.channels,)
    if images.weights(scale) != channels or (bias and images.weights(bias) != channels):
        raise UnfitOperator("its factors do not fit its channels")
    images.note(node.output[0], image)
    kind = LayerNormStep if node.op_type == "LayerNormalization" else RmsNormStep
    return Operation(
        kind(float(attribute(node, "epsilon", _EPSILON))),
        node.output[0],
        name,
        weights=scale,
        bias=bias,
    )


_READING = OperatorReading(normalization, of_rows=True, of_last_axis=True, weights=(1, 2))
READINGS = {("", "LayerNormalization"): _READING, ("", "RMSNormalization"): _READING}
