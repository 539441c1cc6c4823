import numpy as np

from fusionc.passes.heads import unrepeated
from fusionc.passes.target import require_onnxruntime
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula

x = var("x")
_KEYS = [0, 1, 3, 2]  # the last two axes exchanged


def _repeated(value: Formula) -> Formula:
    return op.Reshape(op.Expand(op.Unsqueeze(value, rest("axes")), var("wide")), var("shape"), _as="repeat")


class RepeatedMatMulUbFusionPass(UBFusionPass):
    """A product with matrices that are each repeated becomes one with more rows and without the repetition.

    before   MatMul(a, Reshape(Expand(Unsqueeze(x, 2)))), a Transpose of the last two axes in front of the product
             or none: the heads of the queries, several of which share one of keys and values
    after    Reshape(MatMul(Reshape(a), x)): the rows of all matrices of a that met the same one, one below another
    refuses  ranks other than 4; a number of repetitions or of matrices that is not known; a that is not known to have
             as many matrices, of a number of rows that is known: a Reshape cannot find it out where a tensor is empty;
             other targets
    algebra  (A₁; A₂)·X = (A₁·X; A₂·X), row by row; the elements of a lie in memory as the larger matrix has them
    source   what attention operators do with grouped queries; onnxruntime copies what is repeated
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "RepeatedMatMul",
            op.MatMul(
                var("a"),
                either(op.Transpose(_repeated(x), perm=_KEYS, _as="turn"), _repeated(x)),
                _as="product",
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        matrices, wide = unrepeated(m.repeat.outputs[0]), m.repeat.outputs[0].shape
        if matrices is None or matrices is not m.x or wide is None:
            refuse("it is not known that each matrix is repeated")
        (_, heads, _, _), groups = wide, m.repeat.inputs[0].shape[1]
        if not isinstance(heads, int) or not isinstance(groups, int) or heads == 0:
            refuse("the number of repetitions is not known")
        if m.a.shape is None or len(m.a.shape) != 4 or m.a.shape[1] != heads:
            refuse("the other operand is not known to have a matrix for each")
        rows = m.a.shape[2]
        if not isinstance(rows, int):
            refuse("the number of rows is not known")
        below = new.Reshape(m.a, new.const(np.array([0, groups, heads // groups * rows, 0], np.int64)))
        turned = m.x if m.captures.get("turn") is None else new.Transpose(m.x, like=m.turn, perm=_KEYS)
        product = new.MatMul(below, turned, like=m.product)
        return new.Reshape(product, new.const(np.array([0, heads, rows, 0], np.int64)))
