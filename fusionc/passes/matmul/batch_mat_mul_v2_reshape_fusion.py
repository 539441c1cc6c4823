import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import dims_of, require_own, scaled
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    either,
    maybe,
    op,
    refuse,
    var,
)

x = var("x")
W = const("W")
B = const("B")
_FLAT = op.Reshape(x, var("flat_shape"), _as="flatten")
_PRODUCT = either(
    op.Gemm(_FLAT, W, maybe(B), _as="product"),
    op.MatMul(_FLAT, W, _as="product") + B,
    op.MatMul(_FLAT, W, _as="product"),
)


def _keeps_leading(before: Edge, after: Edge) -> bool:
    """Whether two values have the same dimensions but for the last: one that is unknown follows
    from the others.
    """
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        return False
    pairs = list(zip(before.shape[:-1], after.shape[:-1], strict=True))
    different = [pair for pair in pairs if pair[0] is None or pair[0] != pair[1]]
    if not different:
        return True
    others_are_numbers = all(
        isinstance(a, int) and a > 0 for a, b in pairs if (a, b) not in different
    )
    return (
        len(different) == 1
        and others_are_numbers
        and not all(isinstance(d, int) for d in different[0])
    )


class BatchMatMulV2ReshapeFusionPass(Pass):
    """A product between two Reshapes that only flatten leading axes is computed on the tensor as it
    is.

    before   Reshape(Gemm(Reshape(x, [−1, K]), W, B?), […, N]); the same with MatMul, with and
             without an addend
    after    MatMul(x, W) + B
    refuses  a last axis that the first Reshape does not keep; other leading dimensions behind the
             second one than those of x; a Gemm that transposes its first operand; a bias that is
             not one number for each column; integers; large weights that have to be transposed and
             are used elsewhere
    never    a difference but for tensors without elements: a 0 in a computed shape makes Reshape
             copy a dimension of the flattened product, where here it is the 0 that was meant
    algebra  the rows of a product are computed one by one, in whatever shape they are counted;
             alpha and beta of Gemm are factors of W and B
    source   CANN's BatchMatMulV2ReshapeFusionPass; Reshape, Gemm, Reshape takes 1.01 to 1.11 of the
             time of MatMul, Add
    """

    numerics = "rounding"
    patterns = (
        Pattern("ReshapeProductReshape", op.Reshape(_PRODUCT, var("shape"), _as="unflatten")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        flat = m.flatten.outputs[0]
        result = m.unflatten.outputs[0]
        bias = m.B
        require_floats(m.x)
        if flat.rank is None or m.x.rank is None or result.rank is None:
            refuse("the rank is unknown")
        if len(dims_of(m.W)) != 2 or flat.rank < 2 or m.x.rank < 2 or m.product.attr("transA"):
            refuse("not rows times a matrix")
        alpha, beta = (
            float(m.product.attr(name)) if m.product.op == "Gemm" else 1.0
            for name in ("alpha", "beta")
        )
        weight = m.W
        if m.product.attr("transB"):
            require_own(m, m.W)
            weight = new.const(np.ascontiguousarray(weight.constant().T), like=m.W)
        depth, columns = dims_of(weight)
        if 0 in (depth, columns):
            refuse("there is nothing to multiply, and any number of rows")
        if alpha != 1:
            weight = scaled(new, weight, np.asarray(alpha))
        if (
            m.x.shape[-1] != depth
            or not result.rank
            or result.shape[-1] != columns
            or not _keeps_leading(m.x, result)
        ):
            refuse("the Reshapes do not only flatten leading axes")
        made = new.MatMul(m.x, weight)
        if bias is None or beta == 0:
            return made
        array = bias.constant()
        if (
            array.size not in (1, columns)
            or array.ndim > 2
            or (array.ndim == 2 and array.shape[0] != 1)
        ):
            refuse("the bias is not one number for each column")
        addend = array.reshape(-1) if beta == 1 else array.reshape(-1).astype(np.float64) * beta
        return new.Add(
            made, bias if array.ndim == 1 and beta == 1 else new.const(addend, like=bias)
        )
