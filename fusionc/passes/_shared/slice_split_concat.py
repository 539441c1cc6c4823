"""Slice, Split and Concat: what they take or join along an axis, and making them anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fusionc.model.graph import Edge, Node, Value
from fusionc.operators.disputed_shapes import joins_all
from fusionc.rewrite import Match, Tape
from fusionc.shapes.elements import FAR
from fusionc.shapes.equality import same_shape

_LAST = 1 << 62  # what is written for it here, as for any bound beyond


@dataclass(frozen=True)
class Cut:
    """What a Slice does along one axis; `axis` may count from the end."""

    axis: int
    start: int
    end: int
    step: int = 1

    @property
    def is_forward(self) -> bool:
        """Whether nothing counts from the end of an axis and the step is one."""
        return self.step == 1 and self.start >= 0 and self.end >= 0

    @property
    def is_single(self) -> bool:
        """Whether at most one element is taken, however long the axis is."""
        if (self.start >= 0) == (self.end >= 0):
            return self.end == self.start + 1
        return self.start == -1 and self.end > FAR


def cuts_of(node: Node) -> list[Cut] | None:
    """What a Slice does, attributes or inputs by opset; None where it is not known before the model
    runs.
    """
    if node.graph.opset < 10:
        starts = node.attr("starts")
        ends = node.attr("ends")
        axes = node.attr("axes")
        steps = None
    else:
        given = [None if v is None else v.constant() for v in node.inputs[1:]]
        if any(v is not None and g is None for v, g in zip(node.inputs[1:], given, strict=True)):
            return None
        starts, ends, axes, steps = (
            None if g is None else [int(i) for i in g.reshape(-1)] for g in [*given, None, None][:4]
        )
    if starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    # no runtime takes it; it may lie where none gets to
    if not len(axes) == len(starts) == len(ends) == len(steps):
        return None
    return [Cut(*numbers) for numbers in zip(axes, starts, ends, steps, strict=True)]


def new_slice(new: Tape, x: Edge, cuts: Sequence[Cut]) -> Edge:
    """A Slice as the opset writes it."""
    axes = [c.axis for c in cuts]
    starts = [min(c.start, _LAST) for c in cuts]
    # Backwards, onnxruntime takes the largest end for the front, and no other one.
    ends = [c.end if c.step < 0 else min(c.end, _LAST) for c in cuts]
    steps = [c.step for c in cuts]
    if new.graph.opset < 10:
        return new.Slice(x, axes=axes, starts=starts, ends=ends)
    inputs = (
        [starts, ends, axes] if all(step == 1 for step in steps) else [starts, ends, axes, steps]
    )
    return new.Slice(x, *(new.const(np.array(numbers, np.int64)) for numbers in inputs))


def slices_nothing_off(m: Match) -> bool:
    """Whether the shape is known to stay, and the steps are 1."""
    steps = (
        m.options[3].constant() if len(m.options) > 3 and m.options[3] is not None else np.ones(0)
    )
    return (
        same_shape(m.x.shape, m.outputs[0].shape) and steps is not None and bool((steps == 1).all())
    )


def piece_of(node: Node | None) -> tuple[Edge, int, int, int] | None:
    """For a Slice of one axis with step one and known bounds: what is cut, the axis, start and end
    from the front.
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
    """The axis of a Split or Concat, counted from the front; None where that needs an unknown rank,
    or there is none.

    onnx cuts an axis to 32 bits before it checks it: what loads may have one of -2⁶³.
    """
    axis = int(node.attr("axis", node.op == "Concat"))  # which has one from opset 4 on
    if rank is None:
        return axis if axis >= 0 else None
    return axis % rank if -rank <= axis < rank else None


def joins_all_inputs(concat: Node) -> bool:
    """Whether each input of a Concat counts along its axis: onnxruntime overlooks those without
    elements.
    """
    shapes = [
        value.shape for value in concat.inputs if value is not None and value.shape is not None
    ]
    axis = axis_of(concat, len(shapes[0])) if shapes else None
    is_known = len(shapes) == len(concat.inputs) and len(set(map(len, shapes))) == 1
    return is_known and axis is not None and joins_all(shapes, axis)


def sizes_of(split: Node) -> list[int] | None:
    """The sizes of the pieces, or None where they are not known before the model runs."""
    written = split.attr("split")
    if written:
        return [int(size) for size in written] if len(written) == len(split.outputs) else None
    if len(split.inputs) > 1 and split.inputs[1] is not None:
        given = split.inputs[1].constant()
        if given is None or given.shape != (len(split.outputs),):
            return None
        return [int(size) for size in given]
    whole = split.inputs[0]
    shape = None if whole is None else whole.shape
    axis = axis_of(split, None if shape is None else len(shape))
    count = len(split.outputs)
    total = None if shape is None or axis is None else shape[axis]
    if not isinstance(total, int):
        return None
    piece = -(-total // count)  # opset 18: the last piece is smaller where it does not divide
    last = total - piece * (count - 1)
    return None if last < 0 else [piece] * (count - 1) + [last]


def new_split(new: Tape, x: Edge, sizes: Sequence[int], axis: int) -> tuple[Value, ...]:
    """A Split of these sizes as the opset writes it; returns its outputs."""
    if new.graph.opset < 13:
        return new.node("Split", [x], outputs=len(sizes), axis=axis, split=list(sizes))
    return new.node(
        "Split", [x, new.const(np.array(sizes, np.int64))], outputs=len(sizes), axis=axis
    )


def are_all_pieces(pieces: Sequence[Edge | None], split: Node) -> bool:
    """Whether these are all outputs of the Split, in their order."""
    return len(pieces) == len(split.outputs) and all(
        p is o for p, o in zip(pieces, split.outputs, strict=True)
    )
