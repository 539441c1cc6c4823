import numpy as np
from onnx import TensorProto

from fusionc.passes._shared.reduce_axes import trailing_axis
from fusionc.passes._shared.written_norms import (
    epsilon_of,
    is_plain,
    root_mean_square,
    scale,
    scale_or_ones,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var

x = var("x")
# A float16 model casts to float32 and back. RMSNormalization computes in float32 anyway.
_CAST = op.Cast(root_mean_square(op.Cast(x, to=TensorProto.FLOAT)), to=TensorProto.FLOAT16)


class RmsNormFusionPass(Pass):
    """Root mean square normalization that is written out becomes RMSNormalization.

    before   x / √(mean(x²) + epsilon) · scale, with 1 / √… as Div, Reciprocal or Pow, the square as
             Pow or Mul. In a float16 model, there may be a Cast to float32 before it and a Cast to
             float16 after it. The scale may be missing
    after    RMSNormalization(x, scale)
    refuses  opset below 23; axes other than the last ones; elements other than float32 and float16,
             because the operator computes in float32; a scale whose shape is not that of the
             normalized axes
    algebra  the definition of RMSNormalization
    source   TorchAir's and CANN's RmsNormFusionPass; onnxruntime finds some of these forms when it
             loads a model
    """

    numerics = "rounding"
    patterns = (
        Pattern("RmsNormCast", _CAST * scale),
        Pattern("RmsNorm", root_mean_square(x, scale)),
        Pattern("RmsNormCastPlain", _CAST, where=is_plain),
        Pattern("RmsNormPlain", root_mean_square(x), where=is_plain),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        m.x.require_type(np.float32, np.float16)  # the operator computes other types in float32
        axis = trailing_axis(m.mean, m.x)
        return new.RMSNormalization(
            m.x, scale_or_ones(m, new, axis), axis=axis - m.x.rank, epsilon=epsilon_of(m)
        )
