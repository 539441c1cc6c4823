import math

import numpy as np

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var


class MatMulReshapeBiasAddFusionPass(Pass):
    """The bias of a matrix product is added before the Reshape that follows it.

    before   Reshape(MatMul(a, W)) + B
    after    Reshape(MatMul(a, W) + B)
    refuses  a Reshape that does not keep the last axis, whole or cut into several; a bias that
             varies along others
    algebra  the last dimensions that the Reshape makes have as many elements as the last one it
             takes, so that they count the same columns; each sum is the same, bit by bit
    source   CANN's MatMulReshapeBiasAddFusionPass; the bias joins the product in
             MatMulBiasAddFusionPass
    """

    patterns = (
        Pattern(
            "MatMulReshapeAdd",
            op.Reshape(op.MatMul(var("a"), const("W"), _as="product"), var("shape"), _as="reshape")
            + const("B"),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        shape = m.reshape.outputs[0].shape
        bias = m.B.constant()
        if m.W.constant().ndim < 2 or shape is None:
            refuse("the shape is unknown")
        columns = m.W.constant().shape[-1]
        last = list[int]()
        for dim in reversed(shape):
            if not isinstance(dim, int) or math.prod(last) >= columns:
                break
            last.insert(0, dim)
        if math.prod(last) != columns or not last or columns == 0:
            refuse("the Reshape does not keep the columns")
        extra = bias.ndim - len(last)
        if bias.ndim > len(shape) or any(size != 1 for size in bias.shape[: max(extra, 0)]):
            refuse("the bias is not one number for each column")
        inner = bias.reshape(bias.shape[max(extra, 0) :])
        if any(
            b not in (1, d) for b, d in zip(reversed(inner.shape), reversed(last), strict=False)
        ):
            refuse("the bias may enlarge the product")
        full = (
            np.broadcast_to(inner, last).reshape(columns) if inner.size > 1 else inner.reshape(-1)
        )
        product = new.MatMul(*m.product.inputs)
        return new.Reshape(new.Add(product, new.const(full, like=m.B)), m.shape, like=m.reshape)
