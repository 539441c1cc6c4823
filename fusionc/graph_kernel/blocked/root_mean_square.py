"""Root mean square normalization of rows, written out as onnxruntime recognizes it: x / √(mean(x²)
+ epsilon).
"""

from __future__ import annotations

from dataclasses import replace

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, NormPart, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.kinds.norm import RmsNormStep
from fusionc.graph_kernel.blocked.step_kind import KernelWindow
from fusionc.graph_kernel.lower.area_info import attribute


def squared(images: ImageArea, node: onnx.NodeProto) -> None:
    """The squares of rows; like all that follow but the last they do nothing yet."""
    name, exponent = node.input
    if images.number(exponent) != 2 or not images.is_rows(name):
        raise UnfitOperator("no step raises to a power")
    images.image(name)
    _note(images, node, NormPart(name, "Pow"))


def mean_of_squares(images: ImageArea, node: onnx.NodeProto) -> None:
    """Their mean over the channels."""
    if not images.is_rows(node.input[0]):
        raise UnfitOperator("it is no mean of rows")
    rank = len(images.shape(node.input[0]))
    axes = images.numbers(node, 1, "axes")
    if (
        axes is None
        or [int(axis) % rank for axis in axes] != [rank - 1]
        or not attribute(node, "keepdims", 1)
    ):
        raise UnfitOperator("it is no mean over the channels")
    _follow(images, node, node.input[0], "Pow")


def is_mean_of_squares(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether a sum adds a number to such a mean."""
    return node.op_type == "Add" and any(name in images.norms for name in node.input)


def with_epsilon(images: ImageArea, node: onnx.NodeProto) -> None:
    """The mean with epsilon."""
    mean, other = node.input if node.input[0] in images.norms else reversed(node.input)
    epsilon = images.number(other)
    if epsilon is None:
        raise UnfitOperator("what is added to a mean of squares is not one number")
    _follow(images, node, mean, "ReduceMean", epsilon)


def root(images: ImageArea, node: onnx.NodeProto) -> None:
    """The root of that."""
    if not images.is_rows(node.input[0]):
        raise UnfitOperator("no step takes roots")
    _follow(images, node, node.input[0], "Add")


def over_root(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """The rows over that root: the norm. A factor for each channel may follow."""
    name, divisor = node.input
    found = images.norms.get(divisor, NormPart(name, "Sqrt") if images.is_fragment else None)
    if found is None or (found.image, found.op) != (name, "Sqrt") or not images.is_rows(name):
        raise UnfitOperator("no step divides rows")
    image = images.image(name)
    images.note(node.output[0], image)
    window = KernelWindow(group=image.channels)
    return Operation(RmsNormStep(found.epsilon), node.output[0], name, window=window)


def _follow(
    images: ImageArea, node: onnx.NodeProto, name: str, op: str, epsilon: float | None = None
) -> None:
    """Note a part of a norm behind the one that this operator has to have made."""
    found = images.norms.get(name)
    if found is None and images.is_fragment:
        return
    if found is None or found.op != op:
        raise UnfitOperator("it is no part of a norm here")
    _note(
        images,
        node,
        replace(found, op=node.op_type, epsilon=found.epsilon if epsilon is None else epsilon),
    )


def _note(images: ImageArea, node: onnx.NodeProto, part: NormPart) -> None:
    (out,) = node.output
    if len(images.shape(out)) != len(images.shape(part.image)):
        raise UnfitOperator("it adds axes")
    if out in images.area.outputs and not images.is_fragment:
        raise UnfitOperator("a part of a norm is needed outside")
    images.norms[out] = part
