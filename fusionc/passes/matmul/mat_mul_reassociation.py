import numpy as np

from fusionc.passes._shared.constants import require_own
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var


class MatMulReassociationPass(Pass):
    """Two products in a row with constant weights become one product if its weights are not larger.

    before   MatMul(MatMul(x, V), W)
    after    MatMul(x, V·W)
    refuses  weights that are not of rank 2; a V·W with more elements than V and W together (models
             write low-rank weights as two factors on purpose); large weights that are used
             elsewhere; integers
    algebra  (x·V)·W = x·(V·W); the sum over the inner axis is computed before the model runs
    source   the associative law; off by default, because the rounding error grows with the width of
             the products
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
            refuse("the product of the weights is larger than both weights together")
        require_own(m, m.V, m.W)
        return new.MatMul(
            m.x, new.const(first.astype(np.float64) @ second.astype(np.float64), like=m.W)
        )
