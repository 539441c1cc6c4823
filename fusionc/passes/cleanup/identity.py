from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var

x = var("x")


def _keeps_all_axes(m: Match) -> bool:
    """Whether an Einsum of one input returns this input: its equation has the form "bij->bij", or
    sorted labels without "->".
    """
    equation = "".join(str(m.einsum.attr("equation", "")).split())
    before, arrow, after = equation.partition("->")
    if len(set(before)) != len(before):
        return False
    return before == after if arrow else list(before) == sorted(before)


class IdentityPass(Pass):
    """Identity, and operators that could join several inputs but have only one, become this input.

    before   Identity(x); Concat(x), Sum(x), Max(x), Min(x), Mean(x); Einsum("ij->ij", x)
    after    x
    refuses  a graph output that would lose its name, because x is a graph input or another output
    algebra  the result is x, bit by bit
    source   CANN's IdentityPass; onnxsim and onnx-optimizer remove the other no-ops
    """

    aliases = ("AddNPass",)
    patterns = (
        Pattern("Identity", op.Identity(x)),
        Pattern("OneInput", op["Concat", "Sum", "Max", "Min", "Mean"](x)),
        Pattern("EinsumIdentity", op.Einsum(x, _as="einsum"), where=_keeps_all_axes),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return m.x
