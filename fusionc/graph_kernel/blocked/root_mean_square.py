"""Root mean square normalization of rows, x / √(mean(x²) + epsilon). Here it is written as several
operators, which onnxruntime recognizes as one normalization.
"""

from __future__ import annotations

from dataclasses import replace

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, NormPart, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.kinds.norm import RmsNormStep
from fusionc.graph_kernel.lower.area_info import attribute


def squared(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the squares of rows. They become no operation: only the last operator of a norm does."""
    name, exponent = node.input
    if images.number(exponent) != 2 or not images.is_rows(name):
        raise UnfitOperator("no step raises to a power")
    images.image(name)
    _note(images, node, NormPart(name, "Pow"))


def mean_of_squares(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the mean of the squares over the channels."""
    if not images.is_rows(node.input[0]):
        raise UnfitOperator("it is not a mean of rows")
    rank = len(images.shape(node.input[0]))
    axes = images.numbers(node, 1, "axes")
    if (
        axes is None
        or [int(axis) % rank for axis in axes] != [rank - 1]
        or not attribute(node, "keepdims", 1)
    ):
        raise UnfitOperator("it is not a mean over the channels")
    _follow(images, node, node.input[0], "Pow")


def is_mean_of_squares(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether an Add adds a number to a mean of squares."""
    return node.op_type == "Add" and any(_is_part(images, name) for name in node.input)


def with_epsilon(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the addition of epsilon."""
    mean, other = node.input if _is_part(images, node.input[0]) else reversed(node.input)
    epsilon = images.number(other)
    if epsilon is None:
        raise UnfitOperator("the addend of a mean of squares is not a single number")
    _follow(images, node, mean, "ReduceMean", epsilon)


def _is_part(images: ImageArea, name: str) -> bool:
    return isinstance(images.parts.get(name), NormPart)


def root(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the square root of the mean."""
    if not images.is_rows(node.input[0]):
        raise UnfitOperator("no step takes roots")
    _follow(images, node, node.input[0], "Add")


def over_root(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Read the division of rows by the root, which becomes the norm. A factor for each channel may
    follow.
    """
    name, divisor = node.input
    part = images.parts.get(divisor, NormPart(name, "Sqrt") if images.is_fragment else None)
    is_root = isinstance(part, NormPart) and (part.image, part.op) == (name, "Sqrt")
    if not isinstance(part, NormPart) or not is_root or not images.is_rows(name):
        raise UnfitOperator("no step divides rows")
    images.note(node.output[0], images.image(name))
    return Operation(RmsNormStep(part.epsilon), node.output[0], name)


def _follow(
    images: ImageArea, node: onnx.NodeProto, name: str, op: str, epsilon: float | None = None
) -> None:
    """Note that an operator makes a part of a norm from a part that the operator `op` has made."""
    part = images.part(name, NormPart)
    if part is None:
        return
    if part.op != op:
        raise UnfitOperator(NormPart.unknown)
    if epsilon is not None:
        part = replace(part, epsilon=epsilon)
    _note(images, node, replace(part, op=node.op_type))


def _note(images: ImageArea, node: onnx.NodeProto, part: NormPart) -> None:
    (out,) = node.output
    if len(images.shape(out)) != len(images.shape(part.image)):
        raise UnfitOperator("its result has more axes than its operand")
    images.note_part(out, part)
