from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var

x = var("x")


def _moves_nothing(m: Match) -> bool:
    """Whether the permutation keeps every axis in place."""
    perm = m.transpose.attr("perm")
    if perm:
        return bool(list(perm) == sorted(perm))
    return m.x.rank is not None and m.x.rank < 2  # without perm, the axes are reversed


class UnchangedTransposeRemovePass(Pass):
    """A Transpose that keeps every axis in place becomes its input.

    before   Transpose(x, perm = 0, 1, …); without perm, an x of rank 0 or 1
    after    x
    refuses  a graph output that would lose its name, because x is a graph input or another output
    algebra  the identity permutation changes nothing
    source   CANN's UnchangedTransposeRemovePass
    """

    patterns = (Pattern("Transpose", op.Transpose(x, _as="transpose"), where=_moves_nothing),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return m.x
