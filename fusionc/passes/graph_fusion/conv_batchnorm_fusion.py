import numpy as np

from fusionc.model.graph import Node
from fusionc.passes.convolution import bias_or_zero, out_channels, scale_outputs, weight_shape
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, known, maybe, op, refuse, var
from fusionc.rewrite.pattern import OpFormula

x, W, B = var("x"), known("W"), maybe(const("B"))


def _batchnorm_of(convolution: OpFormula) -> OpFormula:
    statistics = map(const, ("scale", "offset", "mean", "variance"))
    return op.BatchNormalization(convolution, *statistics, _as="bn")


def _is_inference(bn: Node, opset: int) -> bool:
    """Whether a BatchNormalization uses its stored statistics, in any of the operator's versions."""
    if opset < 7:
        return bool(bn.attr("is_test"))
    if opset < 14:  # more than one output, or none of them left out, asks for training mode
        return sum(output is not None for output in bn.outputs) == 1
    return not bn.attr("training_mode")


class ConvBatchnormFusionPass(Pass):
    """BatchNormalization of a convolution becomes the convolution.

    before   BatchNormalization(Conv(x, W, B?), scale, offset, mean, variance); the same with ConvTranspose
    after    Conv(x, W·a, (B − mean)·a + offset) with a = scale / √(variance + epsilon) for each output channel
    refuses  training mode; statistics per activation (spatial 0, opset below 9); weights that a narrow type cannot
             hold; statistics that do not have one number for each channel; a factor that is not finite
    algebra  a·(W∗x + B − mean) + offset = (a·W)∗x + (B − mean)·a + offset, for 1-D to 3-D, groups and depthwise;
             the weights of ConvTranspose are [C, M/g, …], so there a goes along axis 1 of each group
    source   CANN's ConvBatchnormFusionPass and Conv2DTransposeBatchnormFusionPass
    """

    numerics = "rounding"
    patterns = (
        Pattern("ConvBatchnorm", _batchnorm_of(op.Conv(x, W, B, _as="conv"))),
        Pattern("ConvTransposeBatchnorm", _batchnorm_of(op.ConvTranspose(x, W, B, _as="conv"))),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if not _is_inference(m.bn, m.opset):
            refuse("batch normalization in training mode")
        if not m.bn.attr("spatial", 1):
            refuse("statistics per activation")
        channels = out_channels(m.conv, weight_shape(m.W))
        scale, offset, mean, variance = (
            value.constant().astype(np.float64) for value in (m.scale, m.offset, m.mean, m.variance)
        )
        if any(statistic.shape != (channels,) for statistic in (scale, offset, mean, variance)):
            refuse("not one statistic for each channel")
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = scale / np.sqrt(variance + m.bn.attr("epsilon"))
        bias = (bias_or_zero(m.B, channels) - mean) * factor + offset
        weight, like = scale_outputs(new, m.conv, m.W, factor), m.B or m.offset
        return new.node(m.conv.op, [m.x, weight, new.const(bias, dtype=m.W.dtype, like=like)], like=m.conv)
