import numpy as np

from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.slice_split_concat import axis_of, cuts_of, joins_all_inputs
from fusionc.passes._shared.transpose_and_reshape import axes_of
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    op,
    refuse,
    rest,
    unknown,
    var,
)

x = var("x")
index = const("index")


def _same_axis(a: int, b: int, rank: int | None) -> bool:
    """Whether two axes of a value are known to be the same axis."""
    return a == b or (rank is not None and a % rank == b % rank)


def _gather_unsqueeze(m: Match, new: Tape) -> Result:
    axes = axes_of(m.unsqueeze)
    axis = m.gather.attr("axis")
    if (
        array_of(m.index).ndim
        or axes is None
        or len(axes) != 1
        or not _same_axis(axis, axes[0], m.x.rank)
    ):
        refuse("the Gather does not take one element whose axis the Unsqueeze restores")
    return new.Gather(m.x, new.const(array_of(m.index).reshape(1), like=m.index), like=m.gather)


def _slice_squeeze(m: Match, new: Tape) -> Result:
    axes = axes_of(m.squeeze)
    cuts = cuts_of(m.slice)
    if axes is None or cuts is None or len(axes) != 1 or len(cuts) != 1 or cuts[0].step != 1:
        refuse("the Slice or the Squeeze does not work on exactly one axis")
    start = cuts[0].start
    if not cuts[0].is_single or not _same_axis(cuts[0].axis, axes[0], m.x.rank):
        refuse("the Slice does not take one element of the squeezed axis")
    if (
        m.x.shape is None
        or not isinstance(size := m.x.shape[cuts[0].axis], int)
        or not -size <= start < size
    ):
        refuse("the element is not known to exist")
    return new.Gather(m.x, new.const(np.array(start, np.int64)), axis=cuts[0].axis)


def _gather_gather(m: Match, new: Tape) -> Result:
    inner = array_of(m.index)
    outer = array_of(m.then)
    if inner.ndim != 1:
        refuse("the inner indices are not a vector")
    if not _same_axis(m.first.attr("axis"), m.second.attr("axis"), m.x.rank):
        refuse("the axes of the two operators differ")
    if (outer >= inner.size).any() or (outer < -inner.size).any():
        refuse("an index is out of bounds")
    return new.Gather(m.x, new.const(inner[outer], like=m.index), like=m.first)


def _gather_concat(m: Match, new: Tape) -> Result:
    rank = m.inputs[0].rank
    axis = axis_of(m.concat, rank)
    indices = array_of(m.index)
    if axis is None or not _same_axis(m.gather.attr("axis"), axis, rank):
        refuse("the axes of the two operators differ")
    if indices.size != 1 or indices.reshape(()) < 0:
        refuse("the index is not a single number that counts from the front")
    if not joins_all_inputs(m.concat):
        refuse("one of the joined values may be empty, and onnxruntime ignores empty ones")
    position = int(indices.reshape(()))
    for value in m.inputs:
        size = None if value.shape is None else value.shape[axis]
        if not isinstance(size, int):
            refuse(unknown("the sizes"))
        if position < size:
            return new.Gather(
                value, new.const(np.full(indices.shape, position), like=m.index), like=m.gather
            )
        position -= size
    refuse("an index is out of bounds")


class GatherFusionPass(Pass):
    """A Gather and the nodes around it become one Gather.

    before   Unsqueeze(Gather(x, 3)) of the same axis; Squeeze(Slice(x, 3, 4)); Gather(Gather(x, c),
             d); Gather(Concat(a, b), 3); GatherND(x, indices of one coordinate)
    after    Gather(x, [3]); Gather(x, 3); Gather(x, c[d]); Gather(b, 1); Gather(x, indices)
    refuses  different axes; elements that are not known to exist, or whose position is unknown; a
             Concat with an input that may be empty and have other sizes
    never    a Gather of one known index alone, because a Slice instead would need an additional
             Squeeze; GatherElements, because its indices are as large as its result
    algebra  indices compose; a vector of one index keeps the axis, a scalar index removes it
    source   CANN's GatherFusionPass; exporters read dimensions and tokens with such nodes
    """

    patterns = (
        Pattern(
            "GatherUnsqueeze",
            op.Unsqueeze(op.Gather(x, index, _as="gather"), rest("axes"), _as="unsqueeze"),
            _gather_unsqueeze,
        ),
        Pattern(
            "SliceSqueeze",
            op.Squeeze(op.Slice(x, rest("bounds"), _as="slice"), rest("axes"), _as="squeeze"),
            _slice_squeeze,
        ),
        Pattern(
            "GatherGather",
            op.Gather(op.Gather(x, index, _as="first"), const("then"), _as="second"),
            _gather_gather,
        ),
        Pattern(
            "GatherConcat",
            op.Gather(op.Concat(rest("inputs"), _as="concat"), index, _as="gather"),
            _gather_concat,
        ),
        Pattern("GatherND", op.GatherND(x, index, batch_dims=0)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        indices = array_of(m.index)
        if indices.shape[-1] != 1:
            refuse("the indices have more than one coordinate")
        return new.Gather(m.x, new.const(indices[..., 0], like=m.index), axis=0)
