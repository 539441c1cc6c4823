import numpy as np

from fusionc.passes._shared.elementwise_operators import BROADCASTING
from fusionc.passes._shared.target import require_floats
from fusionc.passes.convolution._squeeze_excite import is_for_each_channel, is_scaled_in_blocks
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, var
from fusionc.shapes.expressions import is_static

x = var("x")


def _is_squeeze_excite(m: Match) -> bool:
    """Whether s has one number for each channel of the image x."""
    return is_for_each_channel(m.s, m.x)


class SqueezeExciteResidualPass(Pass):
    """An image plus its product with one factor per channel becomes a single product.

    before   x + x·s, with x [N, C, H, W] and s [N, C, 1, 1] (squeeze and excite with a residual)
    after    x·(s + 1)
    refuses  a product that onnxruntime computes in its blocked layout, because it would leave this
             layout for s + 1 (SqueezeExciteScalePass replaces such products); elements that are not
             floating-point numbers; opset below 8
    never    images that are known to have one pixel; an x or s that is not known to have the shape
             above
    algebra  x + x·s = x·(1 + s); one operator instead of two reads all pixels
    source   the distributive law; measured: PP-OCRv4 detection has eight such sums, and takes 0.94
             to 0.99 of the time
    """

    numerics = "rounding"
    is_for_finite = True  # x + x·s is NaN for more infinite numbers than x·(s + 1)
    patterns = (
        Pattern(
            "SqueezeExciteResidual",
            x + op.Mul(x, var("s"), _as="product"),
            where=_is_squeeze_excite,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_floats(m.x)
        m.require_opset(BROADCASTING, "operators may align their operands in another way")
        is_known = is_static(m.x.shape)
        if (
            m.graph.model.is_for_onnxruntime
            and is_known
            and is_scaled_in_blocks(m.x, m.s, m.product.outputs[0])
        ):
            refuse("onnxruntime computes the product in its blocked layout")
        return new.Mul(m.x, new.Add(m.s, new.const(np.ones(()), dtype=m.x.dtype)))
