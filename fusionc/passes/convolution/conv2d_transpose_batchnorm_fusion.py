from fusionc.passes._shared.batchnorm import batchnorm_of
from fusionc.passes.convolution._channels import scaled_convolution
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, known, maybe, op, var

_CONV = op.ConvTranspose(var("x"), known("W"), maybe(const("B")), _as="conv")


class Conv2DTransposeBatchnormFusionPass(Pass):
    """BatchNormalization after a ConvTranspose is folded into the ConvTranspose.

    before   BatchNormalization(ConvTranspose(x, W, B?), scale, offset, mean, variance)
    after    ConvTranspose(x, W·a, (B − mean)·a + offset) with a = scale / √(variance + epsilon)
    refuses  training mode; statistics for each activation instead of each channel (spatial = 0,
             below opset 9); weights that a narrow type cannot hold; statistics that do not have
             exactly one number for each channel; a factor that is not finite
    algebra  the same as for ConvBatchnormFusionPass, but a multiplies axis 1 of each group of the
             weights, which have the shape [C, M/g, …]
    source   CANN's Conv2DTransposeBatchnormFusionPass
    """

    numerics = "rounding"
    patterns = (Pattern("ConvTransposeBatchnorm", batchnorm_of(_CONV)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return scaled_convolution(m, new)
