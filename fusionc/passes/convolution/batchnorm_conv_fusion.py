from fusionc.passes._shared.batchnorm import affine, batchnorm_of
from fusionc.passes.convolution._channels import (
    bias_or_zero,
    scale_inputs,
    shift_inputs,
    weight_shape,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, var


class BatchnormConvFusionPass(Pass):
    """BatchNormalization before a Conv is folded into the Conv.

    before   Conv(BatchNormalization(x, scale, offset, mean, variance), W, B?)
    after    Conv(x, W·a, B + Σ W·d) with a = scale / √(variance + epsilon) and d = offset − mean·a
             for each input channel
    refuses  a Conv with padding, unless d is zero; training mode; statistics for each activation
             instead of each channel (spatial = 0, below opset 9); weights that a narrow type cannot
             hold; statistics that do not have exactly one number for each channel; a factor that is
             not finite
    algebra  W∗(a·x + d) + B = (W·a)∗x + (Σ W·d + B), unless a window covers padding: padding is 0,
             and d is not added to it
    source   the counterpart of CANN's ConvBatchnormFusionPass
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "BatchnormConv",
            op.Conv(batchnorm_of(var("x")), const("W"), maybe(const("B")), _as="conv"),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        shape = weight_shape(m.W)
        factor, addend = affine(m, shape[1] * int(m.conv.attr("group")))
        weight = scale_inputs(new, m.conv, m.W, factor)
        shift = shift_inputs(m.conv, m.W, addend)
        if m.B is None and not shift.any():
            return new.Conv(m.x, weight, like=m.conv)
        bias = bias_or_zero(m.B, shape[0]) + shift
        return new.Conv(
            m.x, weight, new.const(bias, dtype=m.W.dtype, like=m.B or m.offset), like=m.conv
        )
