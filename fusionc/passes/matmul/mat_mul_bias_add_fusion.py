from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, either, op, refuse, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import broadcasts_into

a = var("a")
b = var("b")
c = var("c")


def _sum_of(product: Formula) -> Formula:
    return either(product + c, op.Sum(product, c))


def _add_to_gemm(m: Match, new: Tape) -> Result:
    if not broadcasts_into(m.c.shape, m.gemm.outputs[0].shape):
        refuse("the addend does not fit into the product")
    return new.Gemm(m.a, m.b, m.c, like=m.gemm, beta=None)


class MatMulBiasAddFusionPass(Pass):
    """A matrix product and an addend become one Gemm.

    before   MatMul(a, b) + c with a and b of rank 2; Gemm(a, b) + c; the sum as Add or Sum
    after    Gemm(a, b, c)
    refuses  ranks other than 2 (a Gemm between Reshapes takes 1.01 to 1.11 of the time); integers,
             for which runtimes lack a Gemm; an addend that is not known to broadcast into the
             product; opset below 7
    algebra  Gemm(a, b, c) = a·b + c with c broadcast to the product's shape [M, N]
    source   CANN's MatMulBiasAddFusionPass, which also requires rank 2
    """

    numerics = "rounding"
    aliases = ("matmul_elemwise_fusion",)
    patterns = (
        Pattern("MatMulBiasAdd", _sum_of(a @ b)),
        Pattern("GemmBiasAdd", _sum_of(op.Gemm(a, b, _as="gemm")), _add_to_gemm),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        m.require_opset(7, "Gemm does not broadcast")
        rows, _ = m.a.require_shape(2)
        _, columns = m.b.require_shape(2)
        require_floats(m.a)
        if not broadcasts_into(m.c.shape, (rows, columns)):
            refuse("the addend does not fit into the product")
        return new.Gemm(m.a, m.b, m.c)
