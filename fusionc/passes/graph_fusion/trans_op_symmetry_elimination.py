from fusionc.passes.moving import reshape_reshape, transpose_transpose
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, var

x = var("x")


def _undo(m: Match, new: Tape) -> Result:
    if m.first.attr("axes") is not None or m.second.attr("axes") is not None:  # before opset 13
        first, second = m.first.attr("axes"), m.second.attr("axes")
    else:
        given = [node.inputs[1].constant() if len(node.inputs) > 1 else None for node in (m.first, m.second)]
        first, second = (None if axes is None else axes.reshape(-1).tolist() for axes in given)
    if first is None or second is None:
        refuse("the axes are not known before the model runs")
    # Both count the axes of the larger tensor: what Unsqueeze makes, what Squeeze takes.
    rank = m.first.outputs[0].rank if m.first.op == "Unsqueeze" else m.x.rank
    if rank is None:
        refuse("the rank is unknown")
    if sorted(axis % rank for axis in first) != sorted(axis % rank for axis in second):
        refuse("the axes differ")
    return m.x


class TransOpSymmetryEliminationPass(Pass):
    """Two operators that move or reshape, one after the other, become one or none.

    before   Transpose(Transpose(x)); Reshape(Reshape(x)), and Flatten, Squeeze, Unsqueeze before a Reshape;
             Squeeze(Unsqueeze(x)) and Unsqueeze(Squeeze(x)) of the same axes
    after    Transpose(x) or x; Reshape(x); x
    refuses  a Reshape to a shape that copies dimensions (0), or is not known; other axes
    algebra  permutations compose; the order of elements does not depend on shapes in between
    source   CANN's TransOpSymmetryEliminationPass and PermutePass
    """

    patterns = (
        Pattern("TransposeTranspose", op.Transpose(op.Transpose(x, _as="first"), _as="second"), transpose_transpose),
        Pattern(
            "ReshapeReshape",
            op.Reshape(
                op["Reshape", "Flatten", "Squeeze", "Unsqueeze"](x, rest("options"), _as="first"),
                var("shape"),
                _as="second",
            ),
            reshape_reshape,
        ),
        Pattern(
            "SqueezeUnsqueeze", op.Squeeze(op.Unsqueeze(x, rest("a"), _as="first"), rest("b"), _as="second"), _undo
        ),
        Pattern(
            "UnsqueezeSqueeze", op.Unsqueeze(op.Squeeze(x, rest("a"), _as="first"), rest("b"), _as="second"), _undo
        ),
    )
