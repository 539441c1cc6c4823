import numpy as np

from fusionc.passes._shared.slice_split_concat import are_all_pieces, axis_of, sizes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, each, op, refuse, rest, same, var


def _all_pieces(m: Match) -> bool:
    """Whether all pieces of the Split are there, in their order."""
    return are_all_pieces(m.concat.inputs, m.split)


class SplitConcatFusionPass(Pass):
    """Concat of all pieces of a Split becomes x, or a transposition of x if the axes differ.

    before   Concat(Split(x)[0], …, Split(x)[n−1])
    after    the same axis: x; another axis: Reshape(Transpose(Reshape(x)))
    refuses  axes that are equal only for some ranks if the rank is unknown; another axis if the
             pieces are not equal, more than one dimension is unknown, or one is 0
    algebra  splitting x along a into n pieces and joining them along b moves the index of the piece
             from a to b
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
        cut = [*dims[:source], count, *dims[source:]]  # the index of the piece is axis `source` now
        order = [axis for axis in range(len(cut)) if axis != source]
        order.insert(target, source)
        joined = list(dims)
        joined[target] = -1 if dims[target] == -1 else dims[target] * count
        pieces = new.Reshape(m.x, new.const(np.array(cut, np.int64)))
        return new.Reshape(new.Transpose(pieces, perm=order), new.const(np.array(joined, np.int64)))


def _piece_dims(m: Match, axis: int) -> list[int]:
    """The dimensions of each piece, with −1 for an unknown one. Refuses what Reshape cannot do."""
    sizes = sizes_of(m.split)
    if sizes is None or len(set(sizes)) != 1:
        refuse("the pieces are not known to be equal")
    dims = [d if isinstance(d, int) else -1 for d in m.x.shape]
    dims[axis] = sizes[0]
    if 0 in dims:
        refuse("a dimension is 0, which means something else to Reshape")
    if dims.count(-1) > 1:
        refuse("more than one dimension is unknown")
    return dims
