import math

import numpy as np

from fusionc.model.graph import Shape
from fusionc.model.tensors import Array
from fusionc.passes._shared.constants import array_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var
from fusionc.shapes.equality import broadcasts_into


class MatMulReshapeBiasAddFusionPass(Pass):
    """The bias of a matrix product is added before the Reshape that follows the product.

    before   Reshape(MatMul(a, W)) + B
    after    Reshape(MatMul(a, W) + B)
    refuses  a Reshape that neither keeps the last axis nor splits it; a bias that varies along axes
             other than the columns
    algebra  the product of the last dimensions after the Reshape is the number of columns, so these
             dimensions index the same columns; each sum is the same, bit by bit
    source   CANN's MatMulReshapeBiasAddFusionPass; MatMulBiasAddFusionPass then folds the bias into
             the product
    """

    patterns = (
        Pattern(
            "MatMulReshapeAdd",
            op.Reshape(op.MatMul(var("a"), const("W"), _as="product"), var("shape"), _as="reshape")
            + const("B"),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        weight = m.W.constant()
        shape = m.reshape.outputs[0].require_shape()
        if weight.ndim < 2:
            refuse("the weights are a vector")
        bias = _bias_of_columns(m, shape, weight.shape[-1])
        product = new.MatMul(*m.product.inputs)
        return new.Reshape(new.Add(product, new.const(bias, like=m.B)), m.shape, like=m.reshape)


def _bias_of_columns(m: Match, shape: Shape, columns: int) -> Array:
    """The bias as a vector: one number for each column of the product, or one number for all
    columns.
    """
    bias = array_of(m.B)
    last = _last_dimensions(shape, columns)
    extra = max(bias.ndim - len(last), 0)
    if bias.ndim > len(shape) or any(size != 1 for size in bias.shape[:extra]):
        refuse("the bias has neither one number nor one number for each column")
    inner = bias.reshape(bias.shape[extra:])
    if not broadcasts_into(inner.shape, last):
        refuse("the bias may enlarge the product")
    return np.broadcast_to(inner, last).reshape(columns) if inner.size > 1 else inner.reshape(-1)


def _last_dimensions(shape: Shape, columns: int) -> list[int]:
    """The last dimensions of a shape whose product is the number of columns. Refuses if no number
    of last dimensions has this product.
    """
    last = list[int]()
    for dim in reversed(shape):
        if not isinstance(dim, int) or math.prod(last) >= columns:
            break
        last.insert(0, dim)
    if math.prod(last) != columns or not last or columns == 0:
        refuse("the Reshape does not keep the columns")
    return last
