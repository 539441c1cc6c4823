import numpy as np

from fusionc.model.tensors import Array
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.written_gelu import keep_gelu
from fusionc.passes.convolution._channels import (
    bias_or_zero,
    per_channel,
    scale_inputs,
    shift_inputs,
    weight_shape,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, known, maybe, op, refuse, var
from fusionc.rewrite.pattern import Formula, OpFormula

x = var("x")
c = const("c")


def _scaled(inner: Formula) -> OpFormula:
    return op.Conv(inner, known("W"), maybe(var("B")), _as="conv")


def _shifted(inner: Formula) -> OpFormula:
    return op.Conv(inner, const("W"), maybe(const("B")), _as="conv")


def _per_input(m: Match) -> Array:
    """The constant as one number for each input channel."""
    shape = weight_shape(m.W)
    constant = array_of(m.c)
    channels = shape[1] * int(m.conv.attr("group"))
    numbers = per_channel(constant, channels, len(shape))
    if m.x.rank != len(shape) or (constant.size > 1 and m.x.shape[1] != channels):
        refuse("the constant may enlarge the value that it is combined with")
    return numbers


def _multiply(m: Match, new: Tape) -> Result:
    keep_gelu(m.x)
    return new.Conv(m.x, scale_inputs(new, m.conv, m.W, _per_input(m)), m.B, like=m.conv)


def _divide(m: Match, new: Tape) -> Result:
    factor = 1 / _per_input(m)
    return new.Conv(m.x, scale_inputs(new, m.conv, m.W, factor), m.B, like=m.conv)


def _add(m: Match, new: Tape) -> Result:
    addend = _per_input(m)
    shift = shift_inputs(m.conv, m.W, -addend if m.sub else addend)
    bias = bias_or_zero(m.B, len(shift)) + shift
    weight = scale_inputs(new, m.conv, m.W, -np.ones_like(addend)) if m.reversed else m.W
    return new.Conv(m.x, weight, new.const(bias, dtype=m.W.dtype, like=m.B or m.c), like=m.conv)


class AConv2dMulFusion(Pass):
    """A constant factor or addend before a Conv is folded into its weights or its bias.

    before   Conv(x·c, W, B?), Conv(x/c, W, B?); Conv(x + c, W, B?), Conv(x − c, W, B?), Conv(c − x,
             W, B?)
    after    Conv(x, W·c, B), Conv(x, W/c, B); Conv(x, ±W, B ± Σ W·c)
    refuses  a constant that has neither one number nor one number for each channel; a constant that
             may determine the rank or the number of channels of the result; an addend before a Conv
             with padding; weights that a narrow type cannot hold; a factor that is not finite; the
             factor ½ of a written-out Gelu, because runtimes recognize Gelu by this factor
    algebra  W∗(c·x) = (W·c)∗x, also with padding, because c·0 = 0; W∗(x + c) = W∗x + Σ W·c, unless
             a window covers padding
    source   CANN's AConv2dMulFusion, which folds a factor that follows the Conv; here,
             ConvScaleFusionPass does that
    """

    numerics = "rounding"
    aliases = ("AConv2dMulFusionPass",)
    patterns = (
        Pattern("MulConv", _scaled(x * c), _multiply),
        Pattern("DivConv", _scaled(x / c), _divide),
        Pattern("AddConv", _shifted(x + c), _add),
        Pattern("SubConv", _shifted(op.Sub(x, c, _as="sub")), _add),
        Pattern("SubFromConv", _shifted(op.Sub(c, x, _as="reversed")), _add),
    )
