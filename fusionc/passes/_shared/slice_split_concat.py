"""Slice, Split and Concat: which elements they cut or join along an axis, and how to create a new
Slice or Split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fusionc.model.graph import Edge, Node, Value
from fusionc.operators.disputed_shapes import joins_all
from fusionc.rewrite import Match, Tape
from fusionc.shapes.elements import FAR
from fusionc.shapes.equality import same_shape

_END_OF_AXIS = 1 << 62  # the end that is written for "up to the last element"


@dataclass(frozen=True)
class Cut:
    """The part that a Slice takes along one axis."""

    axis: int  # if negative, counted from the end
    start: int
    end: int
    step: int = 1

    @property
    def is_forward(self) -> bool:
        """Whether the step is one and both bounds are counted from the front."""
        return self.step == 1 and self.start >= 0 and self.end >= 0

    @property
    def is_single(self) -> bool:
        """Whether the Slice takes at most one element, whatever the length of the axis."""
        if (self.start >= 0) == (self.end >= 0):
            return self.end == self.start + 1
        return self.start == -1 and self.end > FAR

    def is_whole(self, length: int | None) -> bool:
        """Whether the Slice keeps the whole axis, which has this length; None is an unknown one."""
        if length is None:
            return (self.start, self.step) == (0, 1) and self.end > FAR
        return self.step == 1 and slice(self.start, self.end).indices(length) == (0, length, 1)


def cuts_of(node: Node) -> list[Cut] | None:
    """The cuts of a Slice, one for each axis that it shortens or reverses; None if they are unknown
    before the model runs. tf2onnx writes the cuts of all axes, also of those that stay whole.
    """
    starts, ends, axes, steps = (
        _sliced_by_attributes(node) if node.graph.opset < 10 else _sliced_by_inputs(node)
    )
    if starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    # No runtime accepts lists of different lengths, but the Slice may be in a branch that never
    # runs.
    if not len(axes) == len(starts) == len(ends) == len(steps):
        return None
    cuts = [Cut(*numbers) for numbers in zip(axes, starts, ends, steps, strict=True)]
    return [cut for cut in cuts if not cut.is_whole(_length(node.inputs[0], cut.axis))]


def _length(value: Edge | None, axis: int) -> int | None:
    """The length of an axis; None if it is unknown, or if the axis does not exist."""
    shape = () if value is None or value.shape is None else value.shape
    length = shape[axis] if -len(shape) <= axis < len(shape) else None
    return length if isinstance(length, int) else None


def _sliced_by_attributes(node: Node) -> list[list[int] | None]:
    """Starts, ends, axes and steps of a Slice before opset 10."""
    return [*map(node.attr, ("starts", "ends", "axes")), None]


def _sliced_by_inputs(node: Node) -> list[list[int] | None]:
    """Starts, ends, axes and steps of a Slice since opset 10; all None if one is not constant."""
    vectors = [*node.inputs[1:], None, None, None][:4]
    arrays = [None if vector is None else vector.constant() for vector in vectors]
    if any(v is not None and a is None for v, a in zip(vectors, arrays, strict=True)):
        return [None] * 4
    return [None if a is None else [int(i) for i in a.reshape(-1)] for a in arrays]


def new_slice(new: Tape, x: Edge, cuts: Sequence[Cut]) -> Edge:
    """A new Slice with these cuts. They are attributes or inputs, depending on the graph's
    opset.
    """
    axes = [c.axis for c in cuts]
    starts = [min(c.start, _END_OF_AXIS) for c in cuts]
    # With a negative step, onnxruntime reads only INT64_MAX as "up to the front".
    ends = [c.end if c.step < 0 else min(c.end, _END_OF_AXIS) for c in cuts]
    steps = [c.step for c in cuts]
    if new.graph.opset < 10:
        return new.Slice(x, axes=axes, starts=starts, ends=ends)
    inputs = (
        [starts, ends, axes] if all(step == 1 for step in steps) else [starts, ends, axes, steps]
    )
    return new.Slice(x, *(new.const(np.array(numbers, np.int64)) for numbers in inputs))


def slices_nothing_off(m: Match) -> bool:
    """Whether the Slice keeps the shape, and all steps are 1."""
    steps = (
        m.options[3].constant() if len(m.options) > 3 and m.options[3] is not None else np.ones(0)
    )
    return (
        same_shape(m.x.shape, m.outputs[0].shape) and steps is not None and bool((steps == 1).all())
    )


def piece_of(node: Node | None) -> tuple[Edge, int, int, int] | None:
    """Input, axis, start and end of a Slice that cuts one axis of known size with step 1; None for
    any other node, and if no element remains. Start and end are counted from the front.
    """
    if node is None or not node.is_op("Slice") or node.has_references or node.inputs[0] is None:
        return None
    x = node.inputs[0]
    cuts = cuts_of(node)
    if cuts is None or len(cuts) != 1 or cuts[0].step != 1 or not x.rank:
        return None
    axis = cuts[0].axis % x.rank
    size = None if x.shape is None else x.shape[axis]
    if not isinstance(size, int):
        return None
    start, end, _ = slice(cuts[0].start, cuts[0].end).indices(size)
    return (x, axis, start, end) if start < end else None


def axis_of(node: Node, rank: int | None) -> int | None:
    """The axis of a Split or Concat, counted from the front; None if the axis does not exist, or if
    it is negative and the rank is unknown.

    An axis such as −2⁶³ does not exist although onnx has checked the model: onnx truncates the axis
    to 32 bits before the check.
    """
    # if the attribute is omitted: 1 for Concat (before opset 4), else 0
    axis = int(node.attr("axis", node.op == "Concat"))
    if rank is None:
        return axis if axis >= 0 else None
    return axis % rank if -rank <= axis < rank else None


def joins_all_inputs(concat: Node) -> bool:
    """Whether each input of a Concat is known to add its length to the result. onnxruntime ignores
    some empty inputs.
    """
    shapes = [
        value.shape for value in concat.inputs if value is not None and value.shape is not None
    ]
    axis = axis_of(concat, len(shapes[0])) if shapes else None
    is_known = len(shapes) == len(concat.inputs) and len(set(map(len, shapes))) == 1
    return is_known and axis is not None and joins_all(shapes, axis)


def sizes_of(split: Node) -> list[int] | None:
    """The sizes of the outputs of a Split; None if they are unknown before the model runs."""
    written = split.attr("split")
    vector = split.inputs[1] if len(split.inputs) > 1 else None
    if not written and vector is None:
        return _equal_sizes(split)
    if not written and vector is not None:
        array = vector.constant()
        written = None if array is None or array.ndim != 1 else array
    sizes = None if written is None else [int(size) for size in written]
    return sizes if sizes is not None and len(sizes) == len(split.outputs) else None


def _equal_sizes(split: Node) -> list[int] | None:
    """The sizes of the outputs of a Split that does not specify them; None if the size of the axis
    is unknown or too small.
    """
    whole = split.inputs[0]
    shape = None if whole is None else whole.shape
    axis = None if shape is None else axis_of(split, len(shape))
    total = None if shape is None or axis is None else shape[axis]
    if not isinstance(total, int):
        return None
    count = len(split.outputs)
    piece = -(-total // count)  # since opset 18, the last piece may be smaller than the others
    last = total - piece * (count - 1)
    return None if last < 0 else [piece] * (count - 1) + [last]


def new_split(new: Tape, x: Edge, sizes: Sequence[int], axis: int) -> tuple[Value, ...]:
    """The outputs of a new Split with these sizes. They are an attribute or an input, depending on
    the graph's opset.
    """
    if new.graph.opset < 13:
        return new.node("Split", [x], outputs=len(sizes), axis=axis, split=list(sizes))
    return new.node(
        "Split", [x, new.const(np.array(sizes, np.int64))], outputs=len(sizes), axis=axis
    )


def are_all_pieces(pieces: Sequence[Edge | None], split: Node) -> bool:
    """Whether `pieces` are all outputs of the Split, in order."""
    return len(pieces) == len(split.outputs) and all(
        p is o for p, o in zip(pieces, split.outputs, strict=True)
    )
