from onnx import TensorProto

from fusionc.passes._shared.cast_types import holds
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, var

x = var("x")


def _cast_cast(m: Match, new: Tape) -> Result:
    before, between, after = m.x.elem_type, m.inner.attr("to"), m.outer.attr("to")
    if not before:
        refuse("the element type is unknown")
    if not holds(between, before):
        refuse("the inner Cast loses something")
    if after == TensorProto.STRING and between != before:
        refuse("a number may be written in another way in the other type")
    return m.x if before == after else new.Cast(m.x, like=m.outer)


class CastRemovePass(Pass):
    """A Cast that changes nothing goes.

    before   Cast(x) to the type of x; Cast(Cast(x)) where the inner type holds every number of the type of x
    after    x; the outer Cast of x
    refuses  an unknown type; an inner Cast to a type that is narrower in range or precision; text of another type
    algebra  a number that a wider type holds is the same number there
    source   CANN's CastRemovePass
    """

    aliases = ("CastRemoveFusionPass",)
    patterns = (
        Pattern("CastToSame", op.Cast(x, _as="cast"), where=lambda m: m.x.elem_type == m.cast.attr("to")),
        Pattern("CastCast", op.Cast(op.Cast(x, _as="inner"), _as="outer"), _cast_cast),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return m.x
