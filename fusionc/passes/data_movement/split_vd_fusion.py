from fusionc.model.graph import Node
from fusionc.passes._shared.slice_split_concat import axis_of, new_split, sizes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, find_each, refuse, require_known


def _find_at(inner: Node) -> Match:
    """The match of a Split that reads an output of another Split. No formula can express it,
    because the number of outputs of a formula is fixed.
    """
    piece = inner.inputs[0]
    outer = None if piece is None else piece.producer
    if outer is None or not outer.is_op("Split"):
        refuse("the input is not an output of a Split")
    if outer.graph is not inner.graph:
        refuse("the Split before it is outside of this subgraph")
    if outer.has_references:
        refuse("the Split before it has parameters of the function as attributes")
    index = next(i for i, output in enumerate(outer.outputs) if output is piece)
    outputs = [*outer.outputs[:index], *inner.outputs, *outer.outputs[index + 1 :]]
    captures = {
        "outer": outer,
        "inner": inner,
        "at": index,
        "all_outputs": outputs,
        "x": outer.inputs[0],
    }
    return Match(inner.graph, (outer, inner), outputs, captures)


class ZSplitVDFusionPass(Pass):
    """A Split of an output of another Split along the same axis is merged into it.

    before   p, q = Split(x); q1, q2 = Split(q)
    after    p, q1, q2 = Split(x)
    refuses  different axes; sizes that are not known before the model runs; a piece that another
             node also reads as a whole
    algebra  splitting a piece again is splitting the whole at more positions
    source   CANN's ZSplitVDFusionPass
    """

    default = "must"
    patterns = (Pattern("SplitSplit", find=find_each(_find_at, "Split"), operators=("Split",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        rank = m.x.rank
        axis = axis_of(m.outer, rank)
        if axis is None or axis != axis_of(m.inner, rank):
            refuse("the axes of the two operators differ")
        outer = require_known(sizes_of(m.outer), "the sizes")
        inner = require_known(sizes_of(m.inner), "the sizes")
        pieces = new_split(new, m.x, [*outer[: m.at], *inner, *outer[m.at + 1 :]], axis)
        return [value for value, old in zip(pieces, m.all_outputs, strict=True) if old is not None]
