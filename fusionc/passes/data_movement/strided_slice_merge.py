from fusionc.model.graph import Node
from fusionc.passes._shared.slice_split_concat import (
    Cut,
    axis_of,
    cuts_of,
    joins_all_inputs,
    new_slice,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, var

x = var("x")


def _cuts(node: Node, rank: int | None) -> dict[int, Cut]:
    """What a Slice does to each axis. Refuses what is not known before the model runs."""
    cuts = cuts_of(node)
    if cuts is None:
        refuse("the bounds are not known before the model runs")
    if rank is None and any(cut.axis < 0 for cut in cuts):
        refuse("the rank is unknown")
    return {cut.axis % rank if rank else cut.axis: cut for cut in cuts}


def _of_concat(m: Match, new: Tape) -> Result:
    """The one input of the Concat that holds everything which is cut out, cut."""
    rank = m.inputs[0].rank
    axis = axis_of(m.concat, rank)
    cuts = _cuts(m.slice, rank)
    if axis is None or list(cuts) != [axis] or not cuts[axis].is_forward:
        refuse("not a piece of the joined axis, counted from the front")
    if not joins_all_inputs(m.concat):
        refuse("one of the joined values may be empty, which onnxruntime overlooks")
    before = 0
    for value in m.inputs:
        size = value.shape[axis] if value.shape is not None and axis < len(value.shape) else None
        if not isinstance(size, int):
            refuse("the sizes are not known before the model runs")
        start = cuts[axis].start - before
        end = cuts[axis].end - before
        if 0 <= start < size and start <= end <= size:
            return (
                value
                if (start, end) == (0, size)
                else new_slice(new, value, [Cut(axis, start, end)])
            )
        before += size
        if start < size:
            break
    refuse("not within one of the joined values")


class StridedSliceMergePass(Pass):
    """Slice of Slice becomes one; Slice of a Concat is taken from the input that holds it.

    before   Slice(Slice(x, axis 1), axis 2); Slice(Slice(x, 2, 9), 1, 3) of the same axis;
             Slice(Concat(a, b), …)
    after    Slice(x, axes [1, 2]); Slice(x, 3, 5); Slice(b, …) or b
    refuses  bounds that are not known before the model runs; axes that only an unknown rank could
             tell apart; of the same axis: steps, and bounds that count from the end; of a Concat:
             more than one input, one that may be empty where other sizes differ, too
    algebra  axes are cut independently of each other; places within a piece are places of the
             whole, moved
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
            _of_concat,
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
                refuse("bounds of one axis that count from the end, or steps")
        return new_slice(
            new,
            m.x,
            [Cut(axis, cut.start, cut.end, cut.step) for axis, cut in sorted(merged.items())],
        )
