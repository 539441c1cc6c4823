import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.attention._heads import unrepeated
from fusionc.passes.attention._lengths import length_of, vector_of
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    either,
    op,
    refuse,
    rest,
    unknown,
    var,
)
from fusionc.rewrite.pattern import Formula

x = var("x")
_SWAP_LAST = [0, 1, 3, 2]  # exchanges the last two axes


def _repeated(value: Formula) -> Formula:
    return op.Reshape(
        op.Expand(op.Unsqueeze(value, rest("axes")), var("wide")), var("shape"), _as="repeat"
    )


def _split_rows(value: Edge, matrices: int, rows: Edge, new: Tape) -> Edge:
    """A value [batch, …, size] as [batch, matrices, rows, size]."""
    first = new.const(np.array([0, matrices], np.int64))
    last = new.const(np.array([0], np.int64))
    return new.Reshape(value, vector_of([first, rows, last], new))


class RepeatedMatMulUbFusionPass(UBFusionPass):
    """A product with repeated matrices becomes one product with more rows, without the repetition.

    before   MatMul(a, Reshape(Expand(Unsqueeze(x, 2)))), also with a Transpose of the last two axes
             before the product: several heads of the queries share one head of keys and values
    after    Reshape(MatMul(Reshape(a), x)): all matrices of a that are multiplied by the same
             matrix of x are stacked into one
    refuses  ranks other than 4; an unknown number of repetitions or of matrices; an operand a that
             is not known to have as many matrices as the repeated x; targets other than onnxruntime
    never    writes −1 into a Reshape, because −1 is undefined for an empty tensor. The model
             computes unknown row counts instead; later, ShapeReshapePass may replace them by −1
    algebra  (A₁; A₂)·X = (A₁·X; A₂·X), row by row; the stacked matrices have the same order in
             memory as before. A Llama of 4 layers takes 0.88 of the time with one query and a past,
             0.97 with a prompt
    source   attention operators with grouped queries do the same; onnxruntime's Expand copies
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "RepeatedMatMul",
            op.MatMul(
                var("a"),
                either(op.Transpose(_repeated(x), perm=_SWAP_LAST, _as="turn"), _repeated(x)),
                _as="product",
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        repeated = m.repeat.outputs[0]
        wide = m.repeat.inputs[0]
        if unrepeated(repeated) is None:
            refuse("it is not known that each matrix is repeated")
        heads = repeated.shape[1]
        groups = wide.shape[1]
        if not isinstance(heads, int) or not isinstance(groups, int):
            refuse(unknown("the number of matrices"))
        if m.a.require_shape(4)[1] != heads:
            refuse("the other operand is not known to have as many matrices")
        rows = length_of(m.a, 2, new)
        times = new.const(np.array([heads // groups], np.int64))
        known = rows.constant()
        stacked_rows = (
            new.Mul(rows, times) if known is None else new.const(known * (heads // groups))
        )
        turned = m.x if m.turn is None else new.Transpose(m.x, like=m.turn, perm=_SWAP_LAST)
        product = new.MatMul(_split_rows(m.a, groups, stacked_rows, new), turned, like=m.product)
        return _split_rows(product, heads, rows, new)
