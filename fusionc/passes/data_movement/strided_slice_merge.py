from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.slice_split_concat import (
    Cut,
    axis_of,
    cuts_of,
    joins_all_inputs,
    new_slice,
)
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    not_constant,
    op,
    refuse,
    rest,
    unknown,
    var,
)

x = var("x")
_NOT_WITHIN = "the piece is not within one of the joined values"


def _cuts(node: Node, rank: int | None) -> dict[int, Cut]:
    """The cut of a Slice along each axis. Refuses bounds that are computed when the model runs."""
    cuts = cuts_of(node)
    if cuts is None:
        refuse(not_constant("the bounds"))
    if rank is None and any(cut.axis < 0 for cut in cuts):
        refuse(unknown("the rank"))
    return {cut.axis % rank if rank else cut.axis: cut for cut in cuts}


def _slice_input(m: Match, new: Tape) -> Result:
    """A Slice of that input of the Concat which contains the whole piece."""
    rank = m.inputs[0].rank
    axis = axis_of(m.concat, rank)
    cuts = _cuts(m.slice, rank)
    if axis is None or list(cuts) != [axis] or not cuts[axis].is_forward:
        refuse("the Slice does not cut only the joined axis, with bounds counted from the front")
    if not joins_all_inputs(m.concat):
        refuse("one of the joined values may be empty, and onnxruntime ignores empty ones")
    value, offset, size = _input_at(m, axis, cuts[axis].start)
    cut = Cut(axis, cuts[axis].start - offset, cuts[axis].end - offset)
    if not cut.start <= cut.end <= size:
        refuse(_NOT_WITHIN)
    return value if (cut.start, cut.end) == (0, size) else new_slice(new, value, [cut])


def _input_at(m: Match, axis: int, position: int) -> tuple[Edge, int, int]:
    """The input of the Concat that contains a position of the axis, its offset, and its size."""
    offset = 0
    for value in m.inputs:
        size = value.shape[axis] if value.shape is not None and axis < len(value.shape) else None
        if not isinstance(size, int):
            refuse(unknown("the sizes"))
        if position < offset + size:
            return value, offset, size
        offset += size
    refuse(_NOT_WITHIN)


class StridedSliceMergePass(Pass):
    """A Slice of a Slice becomes one Slice; a Slice of a Concat becomes a Slice of one input.

    before   Slice(Slice(x, axis 1), axis 2); Slice(Slice(x, 2, 9), 1, 3) along the same axis;
             Slice(Concat(a, b), …)
    after    Slice(x, axes [1, 2]); Slice(x, 3, 5); Slice(b, …) or b
    refuses  bounds that are not known before the model runs; an unknown rank, if the axes are equal
             only for some ranks; two Slices along one axis with steps, or with bounds that count
             from the end; a piece of a Concat that spans several inputs; a Concat with an input
             that may be empty and have other sizes
    algebra  axes are cut independently of each other; an index in a piece plus the start of the
             piece is the index in the whole
    source   CANN's StridedSliceMergePass (ConstSlice merging); onnx-optimizer's
             fuse_consecutive_slices
    """

    patterns = (
        Pattern(
            "SliceSlice", op.Slice(op.Slice(x, rest("a"), _as="first"), rest("b"), _as="second")
        ),
        Pattern(
            "SliceConcat",
            op.Slice(op.Concat(rest("inputs"), _as="concat"), rest("bounds"), _as="slice"),
            _slice_input,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        first = _cuts(m.first, m.x.rank)
        second = _cuts(m.second, m.x.rank)
        merged = dict(first)
        for axis, cut in second.items():
            inner = first.get(axis)
            if inner is None:
                merged[axis] = cut
            elif inner.is_forward and cut.is_forward:
                start = inner.start + cut.start
                merged[axis] = Cut(axis, start, min(inner.end, inner.start + cut.end))
            else:
                refuse("an axis is cut twice, with steps or bounds that count from the end")
        cuts = [Cut(axis, cut.start, cut.end, cut.step) for axis, cut in sorted(merged.items())]
        return new_slice(new, m.x, cuts) if cuts else m.x
