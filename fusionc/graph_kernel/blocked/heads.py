"""Rows whose channels have two axes, heads and those of each head, on the way to attention: in
blocks nothing moves.
"""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.image_area import Heads, ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.program import BLOCK, KernelWindow, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

# axes of rows with a batch, of heads, and of those with an axis to repeat them
_ROWS = 3
_HEADS = 4
_REPEATED = 5
_TO_THE_FRONT = (0, 2, 1, 3)
_TABLE = 2  # axes of cosines and sines by position
_WITHOUT = ("interleaved", "rotary_embedding_dim", "is_packed_batching")  # what no step does
_Shape = tuple[int | str, ...]


def split_or_merged(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Reshape that gives channels an axis of heads, or one that ends their repetition."""
    name = node.input[0]
    out = node.output[0]
    before = _shape(images, name)
    behind = _shape(images, out)
    images.require_known_shape(node)
    if (len(before), len(behind)) == (_ROWS, _HEADS):
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
        _note(images, out, Heads(name, count))
        return
    if (len(before), len(behind)) != (_REPEATED, _HEADS):
        raise UnfitOperator("it makes no heads")
    found = _heads(images, name, has_axis=True)
    if found is not None:
        if behind != (before[0], found.count * found.times, *before[3:]):
            raise UnfitOperator("it moves heads among rows")
        _note(images, out, replace(found, has_axis=False))


def to_the_front(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Transpose that puts heads in front of the rows."""
    if (
        tuple(attribute(node, "perm") or ()) != _TO_THE_FRONT
        or len(_shape(images, node.input[0])) != _HEADS
    ):
        raise UnfitOperator("it moves other axes than that of heads")
    found = _heads(images, node.input[0], is_in_front=False)
    if found is not None:
        _note(images, node.output[0], replace(found, is_in_front=True))


def with_axis_to_repeat(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Unsqueeze that gives each head an axis to repeat it."""
    axes = [axis % _REPEATED for axis in images.numbers(node, 1, "axes") or ()]
    if len(_shape(images, node.input[0])) != _HEADS or axes != [2]:
        raise UnfitOperator("it gives heads no axis to repeat them")
    found = _heads(images, node.input[0])
    if found is not None:
        if found.times != 1:
            raise UnfitOperator("its heads are repeated already")
        _note(images, node.output[0], replace(found, has_axis=True))


def repeated(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Expand that repeats each head."""
    before = _shape(images, node.input[0])
    behind = _shape(images, node.output[0])
    if len(before) != _REPEATED or len(behind) != _REPEATED:
        raise UnfitOperator("it repeats no heads")
    images.require_known_shape(node)
    times = behind[2]
    if (
        before[2] != 1
        or not isinstance(times, int)
        or (*before[:2], *before[3:]) != (*behind[:2], *behind[3:])
    ):
        raise UnfitOperator("it repeats more than heads")
    found = _heads(images, node.input[0], has_axis=True)
    if found is not None:
        _note(images, node.output[0], replace(found, times=times))


def rotary_embedding(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    """RotaryEmbedding of rows, or of their heads, from position 0 on."""
    name, positions, cosines, sines = node.input
    tables = (cosines, sines)
    if any(attribute(node, what, 0) for what in _WITHOUT) or attribute(node, "scale", 1.0) != 1:
        raise UnfitOperator("no step embeds positions like that")
    if images.number(positions) != 0:
        raise UnfitOperator("its positions are not known to begin with 0")
    if any(len(_shape(images, table)) != _TABLE for table in tables):
        raise UnfitOperator("its cosines and sines are no table")
    columns = {images.image(table).channels for table in tables}
    (half,) = columns if len(columns) == 1 else (0,)
    if half == 0 or half % BLOCK:
        raise UnfitOperator("half of a head is no whole blocks of channels")
    found = None
    if len(_shape(images, name)) == _ROWS:
        rows = name
        out = node.output[0]
    else:
        found = _heads(images, name)
        if found is None:
            return None
        rows = found.rows
        out = f"{node.output[0]}/rows"
    image = images.image(rows)
    heads = image.channels // (2 * half)
    declared = {
        int(attribute(node, "num_heads", 0)) or heads,
        heads if found is None else found.count,
    }
    if heads * 2 * half != image.channels or declared != {heads}:
        raise UnfitOperator("its cosines and sines do not fit its heads")
    if found is None:
        images.note(out, image)
    else:
        images.note_alike(out, rows)
        _note(images, node.output[0], replace(found, rows=out))
    return Operation(StepKind.ROTARY, out, rows, cosines, sines, window=KernelWindow(group=heads))


def has_heads(images: ImageArea, name: str) -> bool:
    """Whether a value has the axes of heads."""
    return len(images.shape(name)) == _HEADS


def rows_with_heads(images: ImageArea, name: str, heads: int) -> tuple[str, int]:
    """The rows that an operand of attention is made of, and how many times each of their heads
    counts.
    """
    found = images.heads.get(name)
    if found is None:
        if not images.is_rows(name) or len(images.shape(name)) != _ROWS:
            raise UnfitOperator("its heads are not side by side")
        return name, 1
    if not found.is_in_front or found.has_axis or found.count * found.times != heads:
        raise UnfitOperator("its operands have other heads")
    return found.rows, found.times


def _shape(images: ImageArea, name: str) -> _Shape:
    shape = images.shape(name)
    if images.area.values[name].dtype != TensorProto.FLOAT:
        raise UnfitOperator("it moves what is no float32 number")
    return shape


def _heads(
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


def _note(images: ImageArea, out: str, found: Heads) -> None:
    if out in images.area.outputs and not images.is_fragment:
        raise UnfitOperator("heads are needed outside")
    images.heads[out] = found
