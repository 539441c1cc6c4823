import numpy as np

from fusionc.model.graph import Edge, Shape
from fusionc.passes._shared.constants import array_of, dims_of, require_own, scaled
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    either,
    keep,
    maybe,
    op,
    refuse,
    var,
)
from fusionc.shapes.expressions import is_static

x = var("x")
W = either(
    const("W"),
    keep(op.DequantizeLinear(const("W"), const("s"), maybe(const("z")), _as="dequantize")),
)
B = const("B")
_FLAT = op.Reshape(x, var("flat_shape"), _as="flatten")
_PRODUCT = either(
    op.Gemm(_FLAT, W, maybe(B), _as="product"),
    op.MatMul(_FLAT, W, _as="product") + B,
    op.MatMul(_FLAT, W, _as="product"),
)


def _have_same_leading_dims(first: Shape, second: Shape) -> bool:
    """Whether two shapes with equally many elements have the same dimensions except the last.

    One dimension may be unknown if all others are positive numbers, because it follows from them.
    """
    if len(first) != len(second):
        return False
    pairs = list(zip(first[:-1], second[:-1], strict=True))
    different = [(a, b) for a, b in pairs if a is None or a != b]
    equal = tuple(a for a, b in pairs if a is not None and a == b)
    if not different:
        return True
    is_open = len(different) == 1 and not is_static(different[0])
    return is_open and is_static(equal) and 0 not in equal


def _scales(m: Match) -> tuple[float, float]:
    """The factors alpha and beta of the product and its bias."""
    if m.product.op != "Gemm":
        return 1.0, 1.0
    return float(m.product.attr("alpha")), float(m.product.attr("beta"))


def _weight(m: Match, alpha: float, new: Tape) -> Edge:
    """The weights multiplied by alpha, and transposed if the Gemm transposes them."""
    if 0 in dims_of(m.W):
        refuse("the weights are empty, so the number of rows is undetermined")
    dequantize = m.captures.get("dequantize")
    if dequantize is not None:
        if m.product.attr("transB") or alpha != 1:
            refuse("dequantized weights would have to be transposed or scaled")
        dequantized: Edge = dequantize.outputs[0]
        return dequantized
    weight: Edge = m.W
    if m.product.attr("transB"):
        require_own(m, m.W)
        weight = new.const(np.ascontiguousarray(m.W.constant().T), like=m.W)
    return weight if alpha == 1 else scaled(new, weight, np.asarray(alpha))


def _addend(m: Match, columns: int, beta: float, new: Tape) -> Edge:
    """The bias multiplied by beta, as a vector. Refuses a bias that varies along other axes than
    the columns.
    """
    bias: Edge = m.B
    array = array_of(bias)
    is_row = array.ndim < 2 or (array.ndim == 2 and array.shape[0] == 1)
    if array.size not in (1, columns) or not is_row:
        refuse("the bias has neither one number nor one number for each column")
    if array.ndim == 1 and beta == 1:
        return bias
    row = array.reshape(-1)
    return new.const(row if beta == 1 else row.astype(np.float64) * beta, like=bias)


class BatchMatMulV2ReshapeFusionPass(Pass):
    """A product between two Reshapes that only flatten leading axes is computed without the
    Reshapes.

    before   Reshape(Gemm(Reshape(x, [−1, K]), W, B?), […, N]); the same with MatMul, with or
             without an addend
    after    MatMul(x, W) + B
    refuses  a first Reshape that changes the last axis; a second Reshape whose leading dimensions
             differ from those of x; a Gemm that transposes its first operand; a bias that has
             neither one number nor one number for each column; integers; large weights that must be
             transposed and are used elsewhere; dequantized weights that must be transposed or
             scaled
    never    a guarantee for empty tensors: if a computed shape has a 0, Reshape copies a dimension
             of the flattened product, but MatMul keeps the 0
    algebra  each row of a product is computed on its own, whatever the leading axes are; W and B
             are multiplied by alpha and beta of the Gemm
    source   CANN's BatchMatMulV2ReshapeFusionPass; measured: Reshape, Gemm and Reshape take 1.01 to
             1.11 of the time of MatMul and Add
    """

    numerics = "rounding"
    patterns = (
        Pattern("ReshapeProductReshape", op.Reshape(_PRODUCT, var("shape"), _as="unflatten")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_floats(m.x)
        shape = m.x.require_shape(least=2)
        m.flatten.outputs[0].require_rank(least=2)
        result = m.unflatten.outputs[0].require_shape(least=1)
        if len(dims_of(m.W)) != 2 or m.product.attr("transA"):
            refuse("the weights are not a matrix, or the Gemm transposes its first operand")
        alpha, beta = _scales(m)
        weight = _weight(m, alpha, new)
        depth, columns = dims_of(m.W)[:: -1 if m.product.attr("transB") else 1]
        if (shape[-1], result[-1]) != (depth, columns) or not _have_same_leading_dims(
            shape, result
        ):
            refuse("the Reshapes do not only flatten leading axes")
        product = new.MatMul(m.x, weight)
        if m.B is None or beta == 0:
            return product
        return new.Add(product, _addend(m, columns, beta, new))
