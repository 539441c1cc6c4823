import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.slice_split_concat import FAR, Cut, axis_of, new_slice
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, maybe, op, refuse, rest, var

x, values = var("x"), rest("values")
_CONSTRUCT = op.SequenceConstruct(values)
_SPLIT = op.SplitToSequence(x, maybe(var("sizes")), _as="split")


def _place(m: Match, count: int) -> int:
    """The place in a sequence of that many values, counted from the front."""
    at = int(array_of(m.at).reshape(-1)[0])
    if not -count <= at < count:
        refuse("the sequence has no such place")
    return at % count


def _value_at(m: Match, new: Tape) -> Result:
    value: Edge = m.values[_place(m, len(m.values))]
    return value


def _takes_one_by_one(m: Match) -> bool:
    """Whether nobody needs the sequence as such."""
    (sequence,) = m.split.outputs
    taken = [user.is_op("SequenceAt") and user.inputs[1].is_constant for user in sequence.outputs]
    return not sequence.is_output and all(taken)


def _piece_at(m: Match, new: Tape) -> Result:
    axis = axis_of(m.split, m.x.rank)
    if axis is None:
        refuse("the rank is unknown")
    length = None if m.x.shape is None else m.x.shape[axis]
    length = length if isinstance(length, int) else None
    if m.sizes is None and not m.split.attr("keepdims"):
        at = array_of(m.at).reshape(()) if length is None else np.array(_place(m, length))
        return new.Gather(m.x, new.const(at, dtype=np.int64), axis=axis)
    start, end = _bounds(m, length)
    return new_slice(new, m.x, [Cut(axis, start, end)])


def _bounds(m: Match, length: int | None) -> tuple[int, int]:
    """Where the piece begins and ends along an axis of this length."""
    sizes = np.array(1) if m.sizes is None else m.sizes.constant()
    if sizes is None or (sizes <= 0).any():
        refuse("the sizes are not known before the model runs")
    if sizes.ndim:
        at = _place(m, len(sizes))
        return int(sizes[:at].sum()), int(sizes[: at + 1].sum())
    size = int(sizes)
    if length is None and int(array_of(m.at).reshape(-1)[0]) < 0:
        refuse("the number of pieces is not known before the model runs")
    at = _place(m, FAR if length is None else -(-length // size))
    return at * size, (at + 1) * size if length is None else min((at + 1) * size, length)


def _joins_what_was_split(m: Match) -> bool:
    """Whether the pieces are joined along the axis along which they were cut."""
    axes = m.split.attr("axis"), m.concat.attr("axis")
    if axes[0] != axes[1] and m.x.rank:
        axes = axes[0] % m.x.rank, axes[1] % m.x.rank
    has_no_axis = m.sizes is None and not m.split.attr("keepdims")
    return axes[0] == axes[1] and bool(m.concat.attr("new_axis")) == has_no_axis


def _concat(m: Match, new: Tape) -> Result:
    return new.Concat(*m.values, axis=m.concat.attr("axis"))


def _length(m: Match, new: Tape) -> Result:
    return new.const(np.array(len(m.values), np.int64))


class SequenceEliminationPass(Pass):
    """Sequences that only carry tensors from one node to the next go.

    before   SequenceAt(SequenceConstruct(a, b, …), 1), SequenceLength(SequenceConstruct(a, b, …)),
             ConcatFromSequence(SequenceConstruct(a, b, …)); SequenceInsert(SequenceEmpty(), a),
             SequenceInsert(SequenceConstruct(a, …), b); SequenceAt(SplitToSequence(x), 1);
             ConcatFromSequence(SplitToSequence(x)) along one and the same axis
    after    b; a constant; Concat(a, b, …); SequenceConstruct(a), SequenceConstruct(a, …, b); a Slice of x, a Gather
             where the axis goes; x
    refuses  places that are not in the sequence; sizes, or the number of pieces, that are not known before the model
             runs; an axis of an unknown rank
    never    a split of which others need the whole sequence; values joined along a new axis; a place that is computed
    algebra  what is put into a sequence comes out of it as it was
    source   torch's unbind, split, chunk and stack, of which its exporter makes sequences
    """

    patterns = (
        Pattern("ConstructAt", op.SequenceAt(keep(_CONSTRUCT), const("at")), _value_at),
        Pattern("ConstructLength", op.SequenceLength(keep(_CONSTRUCT)), _length),
        Pattern("ConstructConcat", op.ConcatFromSequence(keep(_CONSTRUCT), _as="concat", new_axis=0), _concat),
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
        Pattern("SplitAt", op.SequenceAt(keep(_SPLIT), const("at")), _piece_at, where=_takes_one_by_one),
        Pattern(
            "SplitConcat",
            op.ConcatFromSequence(_SPLIT, _as="concat"),
            lambda m, new: m.x,
            where=_joins_what_was_split,
        ),
    )
