"""Enlarges images: each pixel becomes a rectangle of equal pixels."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.blocked.image_area import Image, ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_COORDINATES = "coordinate_transformation_mode"  # an attribute of Resize since opset 11
# How coordinates are computed, and how they are rounded → the largest factor s for which pixel i of
# the result is pixel ⌊i / s⌋ of the image.
_ANY = 2**31
_FITTING = {
    ("asymmetric", "floor"): _ANY,
    ("asymmetric", "round_prefer_floor"): 2,
    ("tf_half_pixel_for_nn", "floor"): _ANY,
    **{
        (mode, rounding): _ANY
        for mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
        for rounding in ("round_prefer_floor", "round_prefer_ceil")
    },
}


@dataclass(frozen=True)
class ResizeStep(StepKind):
    """An image with each row and column repeated."""

    factors: tuple[int, int]  # how often rows, and columns, are repeated
    functions = StepFunctions(task="resize", size="resized")


def resize(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Resize or Upsample. Raises UnfitOperator if the operator mixes pixels, or if it repeats some
    pixels more often than others.
    """
    image = images.image(node.input[0])
    if attribute(node, "mode", "nearest") != "nearest" or attribute(node, "axes") is not None:
        raise UnfitOperator("it mixes pixels")
    factors = _factors(images, node, image)
    most = _most(images, node)
    if any(factor != int(factor) or not 1 <= factor <= most for factor in factors):
        raise UnfitOperator("it does not repeat all pixels equally often")
    rows, columns = map(int, factors)
    images.note(
        node.output[0],
        Image(image.channels, image.batch, image.height.times(rows), image.width.times(columns)),
    )
    return Operation(ResizeStep((rows, columns)), node.output[0], node.input[0])


def _most(images: ImageArea, node: onnx.NodeProto) -> int:
    """The largest factor with which an operator only repeats pixels."""
    if node.op_type == "Upsample" or images.area.opset < 11:
        return _ANY
    modes = (
        attribute(node, _COORDINATES, "half_pixel"),
        attribute(node, "nearest_mode", "round_prefer_floor"),
    )
    return _FITTING.get(modes, 0)


def _factors(images: ImageArea, node: onnx.NodeProto, image: Image) -> list[float]:
    has_region = node.op_type == "Resize" and images.area.opset >= 11
    at = 2 if has_region else 1
    scales = images.numbers(node, at, "scales")
    if scales:
        of_all = scales
    else:
        sizes = images.numbers(node, 3) if has_region else None
        old = (image.batch.known, image.channels, image.height.known, image.width.known)
        if sizes is None or attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
            raise UnfitOperator("its size is not known before the model runs")
        of_all = [new / size if size else 0.0 for new, size in zip(sizes, old, strict=True)]
    if len(of_all) != 4 or of_all[:2] != [1.0, 1.0]:
        raise UnfitOperator("it changes more than rows and columns")
    return of_all[2:]


_READING = OperatorReading(resize)
READINGS = {("", "Resize"): _READING, ("", "Upsample"): _READING}
