from fusionc.passes.splitting import axis_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, among, op, refuse, rest


class ZConcatv2dFusionPass(Pass):
    """A Concat among the inputs of a Concat of the same axis is merged into it.

    before   Concat(a, Concat(b, c), d)
    after    Concat(a, b, c, d)
    refuses  another axis, or axes that only an unknown rank could show to be equal; an inner Concat used elsewhere
    algebra  concatenation is associative
    source   CANN's ZConcatv2dFusionPass
    """

    patterns = (Pattern("ConcatConcat", op.Concat(among(op.Concat(rest("pieces"), _as="inner")), _as="outer")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        (merged,) = m.inner.outputs
        if m.inner.attr("axis") != m.outer.attr("axis"):
            axis = axis_of(m.outer, merged.rank)
            if axis is None or axis != axis_of(m.inner, merged.rank):
                refuse("the axes differ")
        inputs = [piece for value in m.outer.inputs for piece in (m.pieces if value is merged else [value])]
        return new.node("Concat", inputs, like=m.outer)
