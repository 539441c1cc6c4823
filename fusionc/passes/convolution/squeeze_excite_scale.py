import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes.convolution._squeeze_excite import is_scaled_in_blocks
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, op, var


def _image_and_scale(m: Match) -> tuple[Edge, Edge]:
    """The two factors: first the image, then the scale, which has one number for each channel."""
    return (m.s, m.x) if m.x.shape and m.x.shape[2:] == (1, 1) else (m.x, m.s)


def _is_between_blocks(m: Match) -> bool:
    """Whether onnxruntime stores x and s in its blocked layout, and reads the product in this
    layout.
    """
    (result,) = m.outputs
    return m.graph.model.is_for_onnxruntime and is_scaled_in_blocks(*_image_and_scale(m), result)


class SqueezeExciteScalePass(UBFusionPass):
    """A factor per channel is resized to the image before it multiplies the image.

    before   x · s, with x [N, C, H, W] and s [N, C, 1, 1] from Convs with whole blocks of channels,
             and a Conv that reads the product (squeeze and excite)
    after    x · Resize(s), nearest, to [N, C, H, W]
    refuses  dimensions that are not known before the model runs; opset below 13
    never    images that are not in onnxruntime's blocked layout; an x that another operator, such
             as ReduceMean, reads in the plain layout: x leaves the blocked layout anyway, and the
             Resize costs more than it saves
    algebra  Resize repeats the single element. onnxruntime multiplies two images of one shape in
             its blocked layout, and leaves that layout for any other product
    source   measured: MobileNetV3 takes 0.93 of the time, EfficientNet 0.97 to 0.98
    """

    patterns = (Pattern("SqueezeExcite", op.Mul(var("x"), var("s")), where=_is_between_blocks),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        m.require_opset(13, "Resize requires a region of interest")
        x, s = _image_and_scale(m)
        scales = new.const(np.array([1, 1, *x.require_sizes()[2:]], np.float32))
        large = new.Resize(
            s,
            None,
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        return new.Mul(x, large)
