"""Operators that split the channels of rows into the heads of attention. In the blocked layout
(which keeps blocks of channels together), splitting moves no data.
"""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.image_area import Heads, ImageArea, UnfitOperator
from fusionc.graph_kernel.lower.area_info import attribute

ROWS_RANK = 3  # axes of rows with a batch
_HEADS_RANK = 4
_REPEATED_RANK = 5  # axes of heads, including an axis along which each head is repeated
_TO_THE_FRONT = (0, 2, 1, 3)
_Shape = tuple[int | str, ...]


def split_or_merged(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read a Reshape. It either splits channels into heads, or merges the axis of repetitions with
    the axis of heads.
    """
    name = node.input[0]
    out = node.output[0]
    before = float_shape(images, name)
    after = float_shape(images, out)
    images.require_known_shape(node)
    if (len(before), len(after)) == (ROWS_RANK, _HEADS_RANK):
        count, size = after[2:]
        channels = images.image(name).channels
        is_same = before[:2] == after[:2]
        if not (
            is_same
            and isinstance(count, int)
            and isinstance(size, int)
            and count * size == channels
        ):
            raise UnfitOperator("it moves elements between channels and rows")
        images.note_part(out, Heads(name, count))
        return
    if (len(before), len(after)) != (_REPEATED_RANK, _HEADS_RANK):
        raise UnfitOperator("it does not make heads")
    heads = heads_of(images, name, has_axis=True)
    if heads is not None:
        if after != (before[0], heads.count * heads.times, *before[3:]):
            raise UnfitOperator("it moves elements between heads and rows")
        images.note_part(out, replace(heads, has_axis=False))


def to_the_front(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the Transpose that puts the axis of heads before that of rows."""
    if (
        tuple(attribute(node, "perm") or ()) != _TO_THE_FRONT
        or len(float_shape(images, node.input[0])) != _HEADS_RANK
    ):
        raise UnfitOperator("it moves other axes than that of heads")
    heads = heads_of(images, node.input[0], is_in_front=False)
    if heads is not None:
        images.note_part(node.output[0], replace(heads, is_in_front=True))


def with_axis_to_repeat(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the Unsqueeze that adds an axis along which heads are repeated."""
    axes = [axis % _REPEATED_RANK for axis in images.numbers(node, 1, "axes") or ()]
    if len(float_shape(images, node.input[0])) != _HEADS_RANK or axes != [2]:
        raise UnfitOperator("it does not give heads an axis to repeat them")
    heads = heads_of(images, node.input[0])
    if heads is not None:
        if heads.times != 1:
            raise UnfitOperator("its heads are repeated already")
        images.note_part(node.output[0], replace(heads, has_axis=True))


def repeated(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the Expand that repeats each head."""
    before = float_shape(images, node.input[0])
    after = float_shape(images, node.output[0])
    if len(before) != _REPEATED_RANK or len(after) != _REPEATED_RANK:
        raise UnfitOperator("it does not repeat heads")
    images.require_known_shape(node)
    times = after[2]
    if (
        before[2] != 1
        or not isinstance(times, int)
        or (*before[:2], *before[3:]) != (*after[:2], *after[3:])
    ):
        raise UnfitOperator("it repeats more than heads")
    heads = heads_of(images, node.input[0], has_axis=True)
    if heads is not None:
        images.note_part(node.output[0], replace(heads, times=times))


def has_heads(images: ImageArea, name: str) -> bool:
    """Whether a value has the axes of heads."""
    return len(images.shape(name)) == _HEADS_RANK


def rows_with_heads(images: ImageArea, name: str, count: int) -> tuple[str, int]:
    """The rows from which an operand of attention is made, and how often each of its heads is
    repeated. Raises UnfitOperator unless there are `count` heads after the repetitions.
    """
    heads = images.parts.get(name)
    if not isinstance(heads, Heads):
        if not images.is_rows(name) or len(images.shape(name)) != ROWS_RANK:
            raise UnfitOperator("its heads are not next to each other in a row")
        return name, 1
    if not heads.is_in_front or heads.has_axis or heads.count * heads.times != count:
        raise UnfitOperator("its operands have other heads")
    return heads.image, heads.times


def float_shape(images: ImageArea, name: str) -> _Shape:
    """The shape of a float32 value. Raises UnfitOperator if the value has another type."""
    shape = images.shape(name)
    if images.area.values[name].dtype != TensorProto.FLOAT:
        raise UnfitOperator("it moves a value that is not float32")
    return shape


def heads_of(
    images: ImageArea, name: str, *, is_in_front: bool = True, has_axis: bool = False
) -> Heads | None:
    """What is known about heads. `None` if they are an input of a fragment (a part of an area).
    Raises UnfitOperator if the value is not heads, or has other axes than these.
    """
    heads = images.part(name, Heads)
    if heads is not None and (heads.is_in_front, heads.has_axis) != (is_in_front, has_axis):
        raise UnfitOperator(Heads.unknown)
    return heads
