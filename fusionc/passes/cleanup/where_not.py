from fusionc.model.graph import Edge
from fusionc.passes._shared.constant_arithmetic import check_zeros
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, keep, op, var


def _only_chooses(m: Match) -> bool:
    """Whether only Where uses the negated condition, as its condition."""
    negated: Edge = m.negation.outputs[0]
    roles = [
        (user.is_op("Where"), user.inputs.index(negated), user.inputs.count(negated))
        for user in negated.outputs
    ]
    return not negated.is_output and all(role == (True, 0, 1) for role in roles)


class WhereNotPass(Pass):
    """Where with a negated condition becomes Where with its operands exchanged.

    before   Where(Not(c), a, b)
    after    Where(c, b, a)
    refuses  a result if a later division depends on the sign of zero
    never    a negated condition with other users, for which the Not would stay
    algebra  each element comes from the same operand. onnxruntime's Where turns a −0 of its first
             operand into 0
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
