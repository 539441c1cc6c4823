from fusionc.passes._shared.batchnorm import batchnorm_of
from fusionc.passes.convolution._channels import scaled_convolution
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, known, maybe, op, var

_CONV = op.Conv(var("x"), known("W"), maybe(const("B")), _as="conv")


class ConvBatchnormFusionPass(Pass):
    """BatchNormalization after a Conv is folded into the Conv.

    before   BatchNormalization(Conv(x, W, B?), scale, offset, mean, variance)
    after    Conv(x, W·a, (B − mean)·a + offset) with a = scale / √(variance + epsilon) for each
             output channel
    refuses  training mode; statistics for each activation instead of each channel (spatial = 0,
             below opset 9); weights that a narrow type cannot hold; statistics that do not have
             exactly one number for each channel; a factor that is not finite
    algebra  a·(W∗x + B − mean) + offset = (a·W)∗x + (B − mean)·a + offset, with one to three
             spatial axes, also with groups
    source   CANN's ConvBatchnormFusionPass
    """

    numerics = "rounding"
    patterns = (Pattern("ConvBatchnorm", batchnorm_of(_CONV)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return scaled_convolution(m, new)
