from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Graph, Node, Shape
from fusionc.model.tensors import Array
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.slice_split_concat import Cut, axis_of, new_slice, new_split
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    find_each,
    keep,
    maybe,
    op,
    refuse,
    require_known,
    rest,
    unknown,
    var,
)
from fusionc.shapes.elements import FAR

_LONG_ROW = 8  # a Gather of rows with this many elements is fast
_MAX_ROWS = 100  # a Gather of at most this many rows is fast

x = var("x")
values = rest("values")
_CONSTRUCT = op.SequenceConstruct(values)
_SPLIT = op.SplitToSequence(x, maybe(var("sizes")), _as="split")


def _position(index: Edge, count: int) -> int:
    """The index of a value in a sequence of `count` values, counted from the front."""
    position = int(array_of(index).reshape(-1)[0])
    if not -count <= position < count:
        refuse("the index lies outside the sequence")
    return position % count


def _value_at(m: Match, new: Tape) -> Result:
    value: Edge = m.values[_position(m.at, len(m.values))]
    return value


def _find_at(split: Node) -> Match:
    """A SplitToSequence, if all its users are SequenceAt nodes with constant indices."""
    (sequence,) = split.outputs
    (x, *sizes) = split.inputs
    if sequence is None or sequence.is_output:
        refuse("the sequence is an output of the graph")
    readers = [node for node in sequence.outputs if _reads_constant_place(node, split.graph)]
    if not readers or len(readers) < sequence.use_count:
        refuse("the sequence has other users than SequenceAt with a constant index")
    captures = {
        "x": x,
        "split": split,
        "sizes": sizes[0] if sizes else None,
        "places": [node.inputs[1] for node in readers],
    }
    return Match(split.graph, (split, *readers), [node.outputs[0] for node in readers], captures)


def _reads_constant_place(node: Node, graph: Graph) -> bool:
    """Whether a node is a SequenceAt of this graph with a constant index."""
    if node.graph is not graph or not node.is_op("SequenceAt"):
        return False
    position = node.inputs[1]
    return position is not None and position.is_constant


def _may_drop_its_axis(m: Match) -> bool:
    """Whether a split with keepdims = 0 may have one size for all pieces.

    onnxruntime then removes the axis. The standard says that keepdims is ignored.
    """
    return m.sizes is not None and m.sizes.rank != 1 and not m.split.attr("keepdims")


def _split_at(m: Match, new: Tape) -> Result:
    axis = require_known(axis_of(m.split, m.x.rank), "the axis")
    if _may_drop_its_axis(m):
        refuse("runtimes differ on keepdims = 0 with one size for all pieces")
    length = _length_of(m.x, axis)
    is_squeezed = m.sizes is None and not m.split.attr("keepdims")
    if is_squeezed and _is_gather_fast(m.x.shape, axis):
        return _gathers(m, axis, length, new)
    pieces = _pieces(m, axis, length, is_squeezed, new)
    return [new_unsqueeze(new, x, [axis], "Squeeze") for x in pieces] if is_squeezed else pieces


def _length_of(value: Edge, axis: int) -> int | None:
    """The size of a value along an axis; None if unknown."""
    size = None if value.shape is None else value.shape[axis]
    return size if isinstance(size, int) else None


def _gathers(m: Match, axis: int, length: int | None, new: Tape) -> list[Edge]:
    """Each piece as a Gather with a scalar index, which removes the axis."""
    indices = [
        array_of(index).reshape(()) if length is None else np.array(_position(index, length))
        for index in m.places
    ]
    return [new.Gather(m.x, new.const(index, dtype=np.int64), axis=axis) for index in indices]


def _pieces(m: Match, axis: int, length: int | None, is_squeezed: bool, new: Tape) -> list[Edge]:
    """The pieces as outputs of one Split if all of them are needed, else as Slices."""
    bounds = [_bounds(index, m.sizes, length) for index in m.places]
    if _fill_axis(sorted(bounds), length):
        split = new_split(new, m.x, [end - start for start, end in sorted(bounds)], axis)
        return [split[sorted(bounds).index(piece)] for piece in bounds]
    if is_squeezed and len(bounds) > 1:
        refuse("a Gather would copy single elements")
    return [new_slice(new, m.x, [Cut(axis, start, end)]) for start, end in bounds]


def _is_gather_fast(shape: Shape | None, axis: int) -> bool:
    """Whether a Gather copies few rows, or long ones. Unknown dimensions count as infinite."""
    rows, row_size = (
        math.prod(size if isinstance(size, int) else math.inf for size in sizes)
        for sizes in ((shape or ())[:axis], (shape or ())[axis + 1 :])
    )
    return rows <= _MAX_ROWS or row_size >= _LONG_ROW


def _fill_axis(bounds: Sequence[tuple[int, int]], length: int | None) -> bool:
    """Whether the pieces, one after the other, fill an axis of this length."""
    starts, ends = zip(*bounds, strict=True)
    return len(bounds) > 1 and (0, *ends) == (*starts, length)


def _bounds(index: Edge, sizes_input: Edge | None, length: int | None) -> tuple[int, int]:
    """The start and end of a piece along an axis of this length."""
    sizes = np.array(1) if sizes_input is None else sizes_input.require_constant("the sizes")
    if (sizes <= 0).any():
        refuse("a size is not positive")
    if sizes.ndim:
        position = _position(index, len(sizes))
        return int(sizes[:position].sum()), int(sizes[: position + 1].sum())
    size = int(sizes)
    if length is None and int(array_of(index).reshape(-1)[0]) < 0:
        refuse(unknown("the number of pieces"))
    position = _position(index, FAR if length is None else -(-length // size))
    return position * size, (position + 1) * size if length is None else min(
        (position + 1) * size, length
    )


def _joins_what_was_split(m: Match) -> bool:
    """Whether the Concat joins the pieces along the axis of the split."""
    axes = m.split.attr("axis"), m.concat.attr("axis")
    if axes[0] != axes[1] and m.x.rank:
        axes = axes[0] % m.x.rank, axes[1] % m.x.rank
    has_no_axis = m.sizes is None and not m.split.attr("keepdims")
    is_same = axes[0] == axes[1] and bool(m.concat.attr("new_axis")) == has_no_axis
    return is_same and not _may_drop_its_axis(m)


def _concat(m: Match, new: Tape) -> Result:
    return new.Concat(*m.values, axis=m.concat.attr("axis"))


def _length(m: Match, new: Tape) -> Result:
    return new.const(np.array(len(m.values), np.int64))


def _number_of_pieces(m: Match, new: Tape) -> Result:
    axis = axis_of(m.split, m.x.rank)
    length = None if axis is None else _length_of(m.x, axis)
    if m.sizes is not None and m.sizes.rank == 1 and isinstance(m.sizes.shape[0], int):
        sizes = m.sizes.constant()
        if sizes is not None and not _may_fill(sizes, length):
            refuse("the sizes do not add up to the length of the axis")
        return new.const(np.array(m.sizes.shape[0], np.int64))
    step = _step(m.sizes)
    if not length or not step:
        refuse(unknown("the number of pieces"))
    return new.const(np.array(-(-length // step), np.int64))


def _step(sizes: Edge | None) -> int:
    """The single size of all pieces; 0 if unknown."""
    step = np.array(1) if sizes is None else sizes.constant()
    return 0 if step is None or step.ndim else max(0, int(step))


def _may_fill(sizes: Array, length: int | None) -> bool:
    """Whether pieces of these sizes may fill an axis of this length; None is an unknown length."""
    return bool(sizes.size) and not (sizes < 0).any() and length in (None, sizes.sum())


class SequenceEliminationPass(Pass):
    """Sequences that only carry tensors from one node to the next are removed.

    before   SequenceAt(SequenceConstruct(a, b, …), 1); SequenceLength(SequenceConstruct(a, b, …));
             ConcatFromSequence(SequenceConstruct(a, b, …)); SequenceInsert(SequenceEmpty(), a),
             SequenceInsert(SequenceConstruct(a, …), b); SequenceAt(SplitToSequence(x), 1);
             ConcatFromSequence(SplitToSequence(x)) along the same axis; SequenceLength of
             SequenceEmpty or SplitToSequence
    after    b; a constant; Concat(a, b, …); SequenceConstruct(a), SequenceConstruct(a, …, b); Split
             or Slice of x, with Squeeze or as Gather if the axis is removed; x; constants
    refuses  indices outside the sequence; sizes, or a number of pieces, that are not known before
             the model runs; a negative axis with an unknown rank; some columns out of many, because
             a Gather would copy them element by element; keepdims = 0 with one size for all pieces,
             because onnxruntime obeys this keepdims and the standard ignores it
    never    a split whose whole sequence is used elsewhere; values joined along a new axis; an
             index that is computed
    algebra  a sequence returns its tensors as they were inserted
    source   torch's unbind, split, chunk and stack, which its exporter writes as sequences
    """

    patterns = (
        Pattern("ConstructAt", op.SequenceAt(keep(_CONSTRUCT), const("at")), _value_at),
        Pattern("ConstructLength", op.SequenceLength(keep(_CONSTRUCT)), _length),
        Pattern(
            "EmptyLength",
            op.SequenceLength(keep(op.SequenceEmpty())),
            lambda m, new: new.const(np.array(0)),
        ),
        Pattern("SplitLength", op.SequenceLength(keep(_SPLIT)), _number_of_pieces),
        Pattern(
            "ConstructConcat",
            op.ConcatFromSequence(keep(_CONSTRUCT), _as="concat", new_axis=0),
            _concat,
        ),
        Pattern(
            "EmptyInsert",
            op.SequenceInsert(keep(op.SequenceEmpty()), x, maybe(const("at"))),
            lambda m, new: new.SequenceConstruct(m.x),
        ),
        Pattern(
            "ConstructInsert",
            op.SequenceInsert(_CONSTRUCT, x),
            lambda m, new: new.SequenceConstruct(*m.values, m.x),
        ),
        Pattern(
            "SplitAt",
            rewrite=_split_at,
            find=find_each(_find_at, "SplitToSequence"),
            operators=("SplitToSequence",),
        ),
        Pattern(
            "SplitConcat",
            op.ConcatFromSequence(_SPLIT, _as="concat"),
            lambda m, new: m.x,
            where=_joins_what_was_split,
        ),
    )
