"""Slice, Split and Concat: what they cut or join along an axis, and how to make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fusionc.model.graph import Edge, Node, Value
from fusionc.operators.disputed_shapes import joins_all
from fusionc.rewrite import Match, Tape
from fusionc.shapes.elements import FAR
from fusionc.shapes.equality import same_shape

_LAST = 1 << 62  # written for it, and for any larger bound


@dataclass(frozen=True)
class Cut:
    """What a Slice does along one axis."""

    axis: int  # may count from the end
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
    """What a Slice does, by attributes or inputs; None if it is not known before the model runs."""
    starts, ends, axes, steps = (
        _sliced_by_attributes(node) if node.graph.opset < 10 else _sliced_by_inputs(node)
    )
    if starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    # No runtime takes another Slice, but it may lie in a part of the model that never runs.
    if not len(axes) == len(starts) == len(ends) == len(steps):
        return None
    return [Cut(*numbers) for numbers in zip(axes, starts, ends, steps, strict=True)]


def _sliced_by_attributes(node: Node) -> list[list[int] | None]:
    """Starts, ends, axes and steps."""
    return [*map(node.attr, ("starts", "ends", "axes")), None]


def _sliced_by_inputs(node: Node) -> list[list[int] | None]:
    """Starts, ends, axes and steps; all None if one of them is not constant."""
    vectors = [*node.inputs[1:], None, None, None][:4]
    arrays = [None if vector is None else vector.constant() for vector in vectors]
    if any(v is not None and a is None for v, a in zip(vectors, arrays, strict=True)):
        return [None] * 4
    return [None if a is None else [int(i) for i in a.reshape(-1)] for a in arrays]


def new_slice(new: Tape, x: Edge, cuts: Sequence[Cut]) -> Edge:
    """A Slice as the opset writes it."""
    axes = [c.axis for c in cuts]
    starts = [min(c.start, _LAST) for c in cuts]
    # If the step is negative, onnxruntime takes only the largest end for the front.
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
    """What a Slice of one axis with step 1 and known bounds cuts, the axis, and start and end
    counted from the front; None for another Slice.
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
    """The axis of a Split or Concat, counted from the front; None if that needs an unknown rank, or
    the axis does not exist.

    onnx cuts an axis to 32 bits before it checks it, so a model that loads may have one of -2⁶³.
    """
    axis = int(node.attr("axis", node.op == "Concat"))  # 1 for a Concat before opset 4
    if rank is None:
        return axis if axis >= 0 else None
    return axis % rank if -rank <= axis < rank else None


def joins_all_inputs(concat: Node) -> bool:
    """Whether each input of a Concat counts along its axis: onnxruntime overlooks empty ones."""
    shapes = [
        value.shape for value in concat.inputs if value is not None and value.shape is not None
    ]
    axis = axis_of(concat, len(shapes[0])) if shapes else None
    is_known = len(shapes) == len(concat.inputs) and len(set(map(len, shapes))) == 1
    return is_known and axis is not None and joins_all(shapes, axis)


def sizes_of(split: Node) -> list[int] | None:
    """The sizes of the pieces; None if they are not known before the model runs."""
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
    """The sizes of the pieces of a Split that names none."""
    whole = split.inputs[0]
    shape = None if whole is None else whole.shape
    axis = None if shape is None else axis_of(split, len(shape))
    total = None if shape is None or axis is None else shape[axis]
    if not isinstance(total, int):
        return None
    count = len(split.outputs)
    piece = -(-total // count)  # the last piece is smaller if it does not divide (opset 18)
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
