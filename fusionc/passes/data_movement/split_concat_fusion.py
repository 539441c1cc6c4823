import numpy as np

from fusionc.passes._shared.slice_split_concat import are_all_pieces, axis_of, sizes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, each, op, refuse, rest, same, var


def _all_pieces(m: Match) -> bool:
    """Whether the Concat joins all outputs of the Split, in order."""
    return are_all_pieces(m.concat.inputs, m.split)


class SplitConcatFusionPass(Pass):
    """A Concat of all outputs of a Split becomes x, or a Transpose of x if the axes differ.

    before   Concat(Split(x)[0], …, Split(x)[n−1])
    after    x if the axes are equal; else Reshape(Transpose(Reshape(x)))
    refuses  an unknown rank, if the axes are equal only for some ranks; if the axes differ: pieces
             of different sizes, more than one unknown dimension, or a dimension of 0
    algebra  splitting x along axis a into n pieces and joining them along axis b moves the index of
             the piece from a to b
    source   MindSpore's split_concat_fusion
    """

    aliases = ("split_concat_fusion",)
    patterns = (
        Pattern(
            "SplitConcat",
            op.Concat(
                each(same(op.Split(var("x"), rest("sizes"), _as="split"))[...]), _as="concat"
            ),
            where=_all_pieces,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        rank = m.x.rank
        source = axis_of(m.split, rank)
        target = axis_of(m.concat, rank)
        if source is None or target is None:
            refuse("the rank is unknown")
        if source == target:
            return m.x
        if rank is None:
            refuse("the rank is unknown")
        count = len(m.split.outputs)
        dims = _piece_dims(m, source)
        cut = [*dims[:source], count, *dims[source:]]  # axis `source` is the index of the piece
        order = [axis for axis in range(len(cut)) if axis != source]
        order.insert(target, source)
        joined = list(dims)
        joined[target] = -1 if dims[target] == -1 else dims[target] * count
        pieces = new.Reshape(m.x, new.const(np.array(cut, np.int64)))
        return new.Reshape(new.Transpose(pieces, perm=order), new.const(np.array(joined, np.int64)))


def _piece_dims(m: Match, axis: int) -> list[int]:
    """The dimensions of each piece, with −1 for an unknown one. Refuses shapes that Reshape cannot
    express.
    """
    sizes = sizes_of(m.split)
    if sizes is None or len(set(sizes)) != 1:
        refuse("the pieces are not known to be equal")
    dims = [d if isinstance(d, int) else -1 for d in m.x.shape]
    dims[axis] = sizes[0]
    if 0 in dims:
        refuse("a dimension is 0, which Reshape would copy")
    if dims.count(-1) > 1:
        refuse("more than one dimension is unknown")
    return dims
