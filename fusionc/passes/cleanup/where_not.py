from fusionc.model.graph import Edge
from fusionc.passes._shared.constant_arithmetic import check_zeros
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, keep, op, var


def _only_chooses(m: Match) -> bool:
    """Whether nobody needs the negated condition for anything else than Where."""
    negated: Edge = m.negation.outputs[0]
    places = [
        (user.is_op("Where"), user.inputs.index(negated), user.inputs.count(negated))
        for user in negated.outputs
    ]
    return not negated.is_output and all(place == (True, 0, 1) for place in places)


class WhereNotPass(Pass):
    """Where of a condition that is negated chooses the other way round.

    before   Where(Not(c), a, b)
    after    Where(c, b, a)
    refuses  a result that is divided by
    never    where something else needs the negated condition, which then stays
    algebra  each element comes from the same operand; but onnxruntime's Where makes 0 of a −0 that
             comes from the first
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
        check_zeros(m)
        return new.Where(m.c, m.b, m.a)
