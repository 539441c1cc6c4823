import numpy as np

from fusionc.passes._shared.reduce_axes import trailing_axis
from fusionc.passes._shared.written_norms import (
    epsilon_of,
    is_plain,
    normalized,
    scale,
    scale_or_ones,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse, var
from fusionc.shapes.equality import same_shape


class LayerNormFusionPass(Pass):
    """Layer normalization that is written out becomes LayerNormalization.

    before   (x − mean(x)) / √(mean((x − mean(x))²) + epsilon) · scale + offset, with 1 / √… as Div,
             Reciprocal or Pow, the square as Pow or Mul, and x − mean(x) written once or twice;
             also without the offset, or without scale and offset if no constant multiplies the
             result; as x · f + (offset − mean(x) · f) with f = scale / √…, as Tensorflow writes it
    after    LayerNormalization(x, scale, offset?)
    refuses  opset below 17; axes other than the last ones; elements other than float32 and float16,
             because the operator computes in float32; a scale or an offset whose shape is not that
             of the normalized axes
    algebra  the definition of LayerNormalization. The operator is nearer to the exact result than
             the written-out form, by up to 10 times if the mean is far larger than the deviation
    source   CANN's LayerNormFusionPass; onnxruntime creates the same node when it loads a model,
             but not from every form
    """

    numerics = "rounding"
    patterns = (
        Pattern("LayerNorm", normalized(scale, var("offset"))),
        Pattern("LayerNormWithoutOffset", normalized(scale)),
        Pattern("LayerNormPlain", normalized(), where=is_plain),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        m.x.require_type(np.float32, np.float16)  # the operator computes other types in float32
        axes = {trailing_axis(node, m.x) for node in (m.mean, m.mean_of_square, m.variance)}
        if len(axes) > 1:
            refuse("the reductions have different axes")
        (axis,) = axes
        addend = m.offset
        if addend is not None and not same_shape(addend.shape, m.x.shape[axis:]):
            refuse("scale or offset does not have the shape of the normalized axes")
        factor = scale_or_ones(m, new, axis)
        return new.LayerNormalization(
            m.x, factor, addend, axis=axis - m.x.rank, epsilon=epsilon_of(m)
        )
