import numpy as np

from fusionc.passes._shared.constants import require_own
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var


class MatMulReassociationPass(Pass):
    """Two products with constant weights, one after the other, become one if that is less work.

    before   MatMul(MatMul(x, V), W)
    after    MatMul(x, V·W)
    refuses  weights that are not of rank 2; V·W with more elements than V and W together: low-rank
             weights are written in two parts on purpose; large weights that are used
             elsewhere; integers
    algebra  (x·V)·W = x·(V·W); the sum over the inner axis is taken before the model runs
    source   the distributive law; off by default, since rounding differs by as much as one of the
             products is wide
    """

    numerics = "rounding"
    default = "off"
    patterns = (Pattern("MatMulMatMul", op.MatMul(op.MatMul(var("x"), const("V")), const("W"))),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        first = m.V.constant()
        second = m.W.constant()
        if first.ndim != 2 or second.ndim != 2:
            refuse("the weights are not matrices")
        require_floats(m.x)
        if first.shape[0] * second.shape[1] > first.size + second.size:
            refuse("the product of the weights is larger than they are")
        require_own(m, m.V, m.W)
        return new.MatMul(
            m.x, new.const(first.astype(np.float64) @ second.astype(np.float64), like=m.W)
        )
