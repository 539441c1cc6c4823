"""Rows whose channels have two axes, heads and those of each head, on the way to attention: in
blocks nothing moves.
"""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.image_area import Heads, ImageArea, UnfitOperator
from fusionc.graph_kernel.lower.area_info import attribute

ROWS_RANK = 3  # of rows with a batch
_HEADS_RANK = 4
_REPEATED_RANK = 5  # with an axis to repeat heads
_TO_THE_FRONT = (0, 2, 1, 3)
_Shape = tuple[int | str, ...]


def split_or_merged(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Reshape that gives channels an axis of heads, or one that ends their repetition."""
    name = node.input[0]
    out = node.output[0]
    before = float_shape(images, name)
    behind = float_shape(images, out)
    images.require_known_shape(node)
    if (len(before), len(behind)) == (ROWS_RANK, _HEADS_RANK):
        count, size = behind[2:]
        channels = images.image(name).channels
        is_same = before[:2] == behind[:2]
        if not (
            is_same
            and isinstance(count, int)
            and isinstance(size, int)
            and count * size == channels
        ):
            raise UnfitOperator("it moves channels among rows")
        note_heads(images, out, Heads(name, count))
        return
    if (len(before), len(behind)) != (_REPEATED_RANK, _HEADS_RANK):
        raise UnfitOperator("it makes no heads")
    found = heads_of(images, name, has_axis=True)
    if found is not None:
        if behind != (before[0], found.count * found.times, *before[3:]):
            raise UnfitOperator("it moves heads among rows")
        note_heads(images, out, replace(found, has_axis=False))


def to_the_front(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Transpose that puts heads in front of the rows."""
    if (
        tuple(attribute(node, "perm") or ()) != _TO_THE_FRONT
        or len(float_shape(images, node.input[0])) != _HEADS_RANK
    ):
        raise UnfitOperator("it moves other axes than that of heads")
    found = heads_of(images, node.input[0], is_in_front=False)
    if found is not None:
        note_heads(images, node.output[0], replace(found, is_in_front=True))


def with_axis_to_repeat(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Unsqueeze that gives each head an axis to repeat it."""
    axes = [axis % _REPEATED_RANK for axis in images.numbers(node, 1, "axes") or ()]
    if len(float_shape(images, node.input[0])) != _HEADS_RANK or axes != [2]:
        raise UnfitOperator("it gives heads no axis to repeat them")
    found = heads_of(images, node.input[0])
    if found is not None:
        if found.times != 1:
            raise UnfitOperator("its heads are repeated already")
        note_heads(images, node.output[0], replace(found, has_axis=True))


def repeated(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Expand that repeats each head."""
    before = float_shape(images, node.input[0])
    behind = float_shape(images, node.output[0])
    if len(before) != _REPEATED_RANK or len(behind) != _REPEATED_RANK:
        raise UnfitOperator("it repeats no heads")
    images.require_known_shape(node)
    times = behind[2]
    if (
        before[2] != 1
        or not isinstance(times, int)
        or (*before[:2], *before[3:]) != (*behind[:2], *behind[3:])
    ):
        raise UnfitOperator("it repeats more than heads")
    found = heads_of(images, node.input[0], has_axis=True)
    if found is not None:
        note_heads(images, node.output[0], replace(found, times=times))


def has_heads(images: ImageArea, name: str) -> bool:
    """Whether a value has the axes of heads."""
    return len(images.shape(name)) == _HEADS_RANK


def rows_with_heads(images: ImageArea, name: str, heads: int) -> tuple[str, int]:
    """The rows that an operand of attention is made of, and how many times each of their heads
    counts.
    """
    found = images.heads.get(name)
    if found is None:
        if not images.is_rows(name) or len(images.shape(name)) != ROWS_RANK:
            raise UnfitOperator("its heads are not side by side")
        return name, 1
    if not found.is_in_front or found.has_axis or found.count * found.times != heads:
        raise UnfitOperator("its operands have other heads")
    return found.rows, found.times


def float_shape(images: ImageArea, name: str) -> _Shape:
    """The shape of a float32 value. Raises UnfitOperator for others."""
    shape = images.shape(name)
    if images.area.values[name].dtype != TensorProto.FLOAT:
        raise UnfitOperator("it moves what is no float32 number")
    return shape


def heads_of(
    images: ImageArea, name: str, *, is_in_front: bool = True, has_axis: bool = False
) -> Heads | None:
    """What is known of heads; None in a fragment that they come into. Raises UnfitOperator where
    they are no such heads.
    """
    found = images.heads.get(name)
    if found is None and images.is_fragment:
        return None
    if found is None or (found.is_in_front, found.has_axis) != (is_in_front, has_axis):
        raise UnfitOperator("its channels are no heads here")
    return found


def note_heads(images: ImageArea, out: str, found: Heads) -> None:
    """Note a value that is heads. Raises UnfitOperator if others than the area need it."""
    if out in images.area.outputs and not images.is_fragment:
        raise UnfitOperator("heads are needed outside")
    images.heads[out] = found
