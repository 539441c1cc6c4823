from fusionc.exactness.decisions_ahead import ZERO, decider_of
from fusionc.model.graph import Edge
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, keep, op, refuse, var


def _only_chooses(m: Match) -> bool:
    """Whether nobody needs the negated condition for anything else than Where."""
    negated: Edge = m.negation.outputs[0]
    places = [(user.is_op("Where"), user.inputs.index(negated), user.inputs.count(negated)) for user in negated.outputs]
    return not negated.is_output and all(place == (True, 0, 1) for place in places)


class WhereNotPass(Pass):
    """Where of a condition that is negated chooses the other way round.

    before   Where(Not(c), a, b)
    after    Where(c, b, a)
    refuses  a result that is divided by
    never    where something else needs the negated condition, which then stays
    algebra  each element comes from the same operand; but onnxruntime's Where makes 0 of a −0 that comes from the first
    source   onnxruntime's NotWhereFusion
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "WhereNot",
            op.Where(keep(op.Not(var("c"), _as="negation")), var("a"), var("b")),
            where=_only_chooses,
            is_exact=True,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if decider_of(m.outputs[0], ZERO) in ("Div", "Reciprocal", "Pow"):
            refuse("what is divided by a zero depends on its sign")
        return new.Where(m.c, m.b, m.a)
