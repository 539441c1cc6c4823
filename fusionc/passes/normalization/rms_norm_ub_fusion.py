import numpy as np

from fusionc.passes._shared.reduce_axes import new_reduce, trailing_axis
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.written_norms import epsilon_of
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    either,
    op,
    refuse,
    rest,
    var,
)
from fusionc.shapes.equality import same_shape

_RMS_NORMALIZATION = 23  # the opset that introduced RMSNormalization
_x = var("x")
_scale = var("scale")
_square = either(_x**2.0, op.Mul(_x, _x, _as="product"))
_mean = op.ReduceMean(_square, rest("axes"), _as="mean") + const("epsilon")
_root = op.Sqrt(_mean)
_inverse = either(
    op.Reciprocal(_root, _as="inverse"),
    op.Pow(_mean, -0.5, _as="inverse"),
    op.Div(1.0, _root, _as="inverse"),
)


def _is_unrecognized(m: Match) -> bool:
    """Whether the formula has a form that onnxruntime does not recognize, or more operators than
    needed.
    """
    return m.opset < _RMS_NORMALIZATION and any(
        node is not None for node in (m.product, m.inverse, m.scaled)
    )


class RmsNormUbFusionPass(UBFusionPass):
    """Root mean square normalization below opset 23 is written in the form that onnxruntime
    recognizes.

    before   x · scale / √(mean(x²) + epsilon) in a form that onnxruntime does not recognize: x ·
             Reciprocal(√…), x · (…)^−0.5, with the scale applied to x first, or with the square as
             a product; also x · (1 / √…), which onnxruntime recognizes
    after    x / √(mean(x²) + epsilon) · scale with Pow and Div, which onnxruntime turns into
             SimplifiedLayerNormalization when it loads the model
    refuses  normalization over more than the last axis; a scale that does not have exactly one
             number for each element of the last axis; elements other than float32; targets other
             than onnxruntime
    never    models from opset 23 on, in which RmsNormFusionPass makes an RMSNormalization
    algebra  x · (1 / r) = x / r and (x · s) / r = (x / r) · s. SimplifiedLayerNormalization takes
             0.28 to 0.52 of the time of the six operators
    source   measured: onnxruntime's SimplifiedLayerNormFusion recognizes Pow, ReduceMean, Add,
             Sqrt, Div and Mul in this order only
    """

    numerics = "rounding"
    patterns = (
        Pattern("RmsNorm", either(_x * _inverse, _x / _root) * _scale, where=_is_unrecognized),
        Pattern(
            "RmsNormScaledFirst",
            either(
                op.Mul(_x, _scale, _as="scaled") * _inverse,
                op.Mul(_x, _scale, _as="scaled") / _root,
            ),
            where=_is_unrecognized,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        m.x.require_type(np.float32)
        if trailing_axis(m.mean, m.x) != m.x.rank - 1:
            refuse("the normalization covers more than the last axis")
        if not same_shape(m.scale.shape, m.x.shape[-1:]):
            refuse("the scale does not have exactly one number for each element of the last axis")
        squares = new.Pow(m.x, new.const(np.array(2, np.float32)))
        mean = new_reduce(new, "ReduceMean", squares, [-1 if m.opset >= 11 else m.x.rank - 1])
        root = new.Sqrt(new.Add(mean, new.const(np.array(epsilon_of(m), np.float32))))
        return new.Mul(new.Div(m.x, root), m.scale)
