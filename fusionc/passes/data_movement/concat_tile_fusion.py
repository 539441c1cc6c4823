from fusionc.model.graph import Edge
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, each, op, refuse, var


def _repeats(value: Edge) -> list[int]:
    array = value.require_constant("the repeats")
    if array.ndim != 1:
        refuse("the repeats are not a vector")
    return [int(i) for i in array]


class ConcatTileFusionPass(Pass):
    """A Concat of Tiles with equal repeats becomes one Tile of a Concat.

    before   Concat(Tile(a, [1, 3]), Tile(b, [1, 3])) along an axis that is not repeated
    after    Tile(Concat(a, b), [1, 3])
    refuses  repeats that differ, are not known before the model runs, are 0, or repeat the joined
             axis
    algebra  repeating along one axis commutes with joining along another
    source   CANN's ConcatTileFusionPass
    """

    patterns = (
        Pattern("ConcatTile", op.Concat(each(op.Tile(var("xs"), var("repeats_of"))), _as="concat")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        repeats = [_repeats(value) for value in m.repeats_of]
        first = repeats[0]
        if any(r != first for r in repeats):
            refuse("the repeats differ")
        axis = axis_of(m.concat, len(first))
        if axis is None or first[axis] != 1:
            refuse("the joined axis is repeated")
        if 0 in first:
            refuse("an axis is repeated 0 times, and the values may differ along it")
        return new.Tile(new.node("Concat", m.xs, like=m.concat), m.repeats_of[0])
