from collections.abc import Iterator

from fusionc.model.graph import Graph
from fusionc.passes._shared.slice_split_concat import axis_of, new_split, sizes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse, require_known


def _find(graph: Graph) -> Iterator[Match]:
    """A Split of a piece of a Split, with any number of outputs, which a formula cannot express."""
    for inner in graph.of_operator("Split"):
        piece = inner.inputs[0]
        outer = None if piece is None else piece.producer
        if outer is None or not outer.is_op("Split") or outer.graph is not graph:
            continue
        if outer.has_references or inner.has_references or not inner.is_in_graph:
            continue
        at = next(i for i, output in enumerate(outer.outputs) if output is piece)
        outputs = [*outer.outputs[:at], *inner.outputs, *outer.outputs[at + 1 :]]
        captures = {
            "outer": outer,
            "inner": inner,
            "at": at,
            "all_outputs": outputs,
            "x": outer.inputs[0],
        }
        yield Match(graph, (outer, inner), outputs, captures)


class ZSplitVDFusionPass(Pass):
    """A Split of a piece of a Split of the same axis is merged into it.

    before   p, q = Split(x); q1, q2 = Split(q)
    after    p, q1, q2 = Split(x)
    refuses  another axis; sizes that are not known before the model runs; a piece that is also used
             as a whole
    algebra  splitting a piece again splits the whole at both places
    source   CANN's ZSplitVDFusionPass
    """

    default = "must"
    patterns = (Pattern("SplitSplit", find=_find, operators=("Split",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        rank = m.x.rank
        axis = axis_of(m.outer, rank)
        if axis is None or axis != axis_of(m.inner, rank):
            refuse("the axes differ")
        outer = require_known(sizes_of(m.outer), "the sizes")
        inner = require_known(sizes_of(m.inner), "the sizes")
        pieces = new_split(new, m.x, [*outer[: m.at], *inner, *outer[m.at + 1 :]], axis)
        return [value for value, old in zip(pieces, m.all_outputs, strict=True) if old is not None]
