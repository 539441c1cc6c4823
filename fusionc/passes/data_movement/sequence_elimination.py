from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fusionc.model.graph import Edge, Graph, Shape
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
    keep,
    maybe,
    op,
    refuse,
    rest,
    var,
)
from fusionc.shapes.elements import FAR

# elements in a row that a Gather takes, and rows
_LONG = 8
_FEW = 100

x = var("x")
values = rest("values")
_CONSTRUCT = op.SequenceConstruct(values)
_SPLIT = op.SplitToSequence(x, maybe(var("sizes")), _as="split")


def _place(at: Edge, count: int) -> int:
    """The place in a sequence of that many values, counted from the front."""
    place = int(array_of(at).reshape(-1)[0])
    if not -count <= place < count:
        refuse("the sequence has no such place")
    return place % count


def _value_at(m: Match, new: Tape) -> Result:
    value: Edge = m.values[_place(m.at, len(m.values))]
    return value


def _splits(graph: Graph) -> Iterator[Match]:
    """Splits of which all pieces are taken one by one."""
    for split in graph.of_operator("SplitToSequence"):
        (sequence,) = split.outputs
        (x, *sizes) = split.inputs
        if sequence is None or sequence.is_output or split.has_references:
            continue
        takers = [
            user for user in sequence.outputs if user.graph is graph and user.is_op("SequenceAt")
        ]
        places = [at for user in takers if (at := user.inputs[1]) is not None and at.is_constant]
        if places and len(places) == sequence.use_count:
            captures = {
                "x": x,
                "split": split,
                "sizes": sizes[0] if sizes else None,
                "places": places,
            }
            yield Match(graph, (split, *takers), [user.outputs[0] for user in takers], captures)


def _may_drop_its_axis(m: Match) -> bool:
    """Whether one size is given, or may be, beside keepdims = 0: onnxruntime heeds that, against
    the standard.
    """
    return m.sizes is not None and m.sizes.rank != 1 and not m.split.attr("keepdims")


def _pieces(m: Match, new: Tape) -> Result:
    axis = axis_of(m.split, m.x.rank)
    shape = m.x.shape
    if axis is None:
        refuse("the rank is unknown")
    if _may_drop_its_axis(m):
        refuse("with a size for all pieces, keepdims = 0 is not the same everywhere")
    length = None if shape is None or not isinstance(shape[axis], int) else int(shape[axis])
    is_squeezed = m.sizes is None and not m.split.attr("keepdims")
    if is_squeezed and _is_picked_fast(shape, axis):
        picked = [
            array_of(at).reshape(()) if length is None else np.array(_place(at, length))
            for at in m.places
        ]
        return [new.Gather(m.x, new.const(at, dtype=np.int64), axis=axis) for at in picked]
    bounds = [_bounds(at, m.sizes, length) for at in m.places]
    if _are_all(sorted(bounds), length):
        split = new_split(new, m.x, [end - start for start, end in sorted(bounds)], axis)
        made: list[Edge] = [split[sorted(bounds).index(piece)] for piece in bounds]
    elif is_squeezed and len(bounds) > 1:
        refuse("a Gather would pick single elements")
    else:
        made = [new_slice(new, m.x, [Cut(axis, start, end)]) for start, end in bounds]
    return [
        new_unsqueeze(new, piece, [axis], "Squeeze") if is_squeezed else piece for piece in made
    ]


def _is_picked_fast(shape: Shape | None, axis: int) -> bool:
    """Whether a Gather takes few pieces or long ones; what is known only when the model runs is
    thought to be large.
    """
    before, behind = (
        math.prod(size if isinstance(size, int) else math.inf for size in sizes)
        for sizes in ((shape or ())[:axis], (shape or ())[axis + 1 :])
    )
    return before <= _FEW or behind >= _LONG


def _are_all(bounds: Sequence[tuple[int, int]], length: int | None) -> bool:
    """Whether the pieces, one behind the other, are all of an axis of this length."""
    starts, ends = zip(*bounds, strict=True)
    return len(bounds) > 1 and (0, *ends) == (*starts, length)


def _bounds(at: Edge, given: Edge | None, length: int | None) -> tuple[int, int]:
    """Where a piece begins and ends along an axis of this length."""
    sizes = np.array(1) if given is None else given.constant()
    if sizes is None or (sizes <= 0).any():
        refuse("the sizes are not known before the model runs")
    if sizes.ndim:
        place = _place(at, len(sizes))
        return int(sizes[:place].sum()), int(sizes[: place + 1].sum())
    size = int(sizes)
    if length is None and int(array_of(at).reshape(-1)[0]) < 0:
        refuse("the number of pieces is not known before the model runs")
    place = _place(at, FAR if length is None else -(-length // size))
    return place * size, (place + 1) * size if length is None else min((place + 1) * size, length)


def _joins_what_was_split(m: Match) -> bool:
    """Whether the pieces are joined along the axis along which they were cut."""
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
    size = None if axis is None or m.x.shape is None else m.x.shape[axis]
    length = size if isinstance(size, int) else None
    if m.sizes is not None and m.sizes.rank == 1 and isinstance(m.sizes.shape[0], int):
        given = m.sizes.constant()
        if given is not None and not _fill(given, length):
            refuse("the sizes are not those of the axis")
        return new.const(np.array(m.sizes.shape[0], np.int64))
    step = _step(m.sizes)
    if not length or not step:
        refuse("the number of pieces is not known before the model runs")
    return new.const(np.array(-(-length // step), np.int64))


def _step(sizes: Edge | None) -> int:
    """The one size of all pieces; 0 where it is not known."""
    step = np.array(1) if sizes is None else sizes.constant()
    return 0 if step is None or step.ndim else max(0, int(step))


def _fill(sizes: Array, length: int | None) -> bool:
    """Whether pieces of these sizes may fill an axis of this length, where that is known."""
    return bool(sizes.size) and not (sizes < 0).any() and length in (None, sizes.sum())


class SequenceEliminationPass(Pass):
    """Sequences that only carry tensors from one node to the next go.

    before   SequenceAt(SequenceConstruct(a, b, …), 1), SequenceLength(SequenceConstruct(a, b, …)),
             ConcatFromSequence(SequenceConstruct(a, b, …)); SequenceInsert(SequenceEmpty(), a),
             SequenceInsert(SequenceConstruct(a, …), b); SequenceAt(SplitToSequence(x), 1);
             ConcatFromSequence(SplitToSequence(x)) along one and the same axis; SequenceLength of
             SequenceEmpty, and of SplitToSequence
    after    b; a constant; Concat(a, b, …); SequenceConstruct(a), SequenceConstruct(a, …, b); Split
             or Slice of x, with Squeeze or as Gather where the axis goes; x; constants
    refuses  places that are not in the sequence; sizes, or the number of pieces, that are not known
             before the model runs; an axis of an unknown rank; some of many columns, which a Gather
             would pick element by element; one size for all pieces beside keepdims = 0, which
             onnxruntime heeds, against the standard
    never    a split of which others need the whole sequence; values joined along a new axis; a
             place that is computed
    algebra  what is put into a sequence comes out of it as it was
    source   torch's unbind, split, chunk and stack, of which its exporter makes sequences
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
        Pattern("SplitAt", rewrite=_pieces, find=_splits, operators=("SplitToSequence",)),
        Pattern(
            "SplitConcat",
            op.ConcatFromSequence(_SPLIT, _as="concat"),
            lambda m, new: m.x,
            where=_joins_what_was_split,
        ),
    )
