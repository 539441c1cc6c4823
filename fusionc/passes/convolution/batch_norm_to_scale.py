import numpy as np

from fusionc.model.tensors import Array
from fusionc.passes._shared.batchnorm import affine, batchnorm_of
from fusionc.passes._shared.constants import array_of, scaled
from fusionc.passes._shared.written_gelu import keep_gelu
from fusionc.passes.convolution._channels import per_channel
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var

x = var("x")
c = const("c")


def _constant(m: Match, is_before: bool) -> Array:
    channels = array_of(m.scale).size
    rank = m.x.require_rank(least=2)
    numbers = per_channel(array_of(m.c), channels, rank)
    if is_before and m.c.constant().size > 1 and m.x.shape[1] != channels:
        refuse("the constant may enlarge the value that it is combined with")
    return numbers


def _affine(m: Match, is_before: bool) -> tuple[Array, Array]:
    """Factor and addend of the Mul, Div, Add or Sub with the constant."""
    numbers = _constant(m, is_before)
    if m.step.op in ("Mul", "Div"):
        return (1 / numbers if m.step.op == "Div" else numbers), np.zeros_like(numbers)
    return np.ones_like(numbers), -numbers if m.step.op == "Sub" else numbers


def _fold_earlier(m: Match, new: Tape) -> Result:
    keep_gelu(m.x)
    factor, addend = affine(m)
    inner_factor, inner_addend = _affine(m, is_before=True)
    return _batchnorm(m, new, inner_factor, factor * inner_factor, factor * inner_addend + addend)


def _fold_later(m: Match, new: Tape) -> Result:
    factor, addend = affine(m)
    outer_factor, outer_addend = _affine(m, is_before=False)
    return _batchnorm(
        m, new, outer_factor, factor * outer_factor, addend * outer_factor + outer_addend
    )


def _batchnorm(m: Match, new: Tape, change: Array, factor: Array, addend: Array) -> Result:
    """The BatchNormalization with its scale multiplied by `change` and a new offset, so that it
    multiplies by `factor` and adds `addend`. Mean and variance stay.
    """
    scale = scaled(new, m.scale, change)
    offset = addend + array_of(m.mean).astype(np.float64) * factor
    if not np.isfinite(offset).all():
        refuse("the addend is not finite")
    return new.BatchNormalization(
        m.x, scale, new.const(offset, like=m.offset), m.mean, m.variance, like=m.bn
    )


class BatchNormToScalePass(Pass):
    """A constant next to a BatchNormalization is folded into its scale and offset.

    before   BatchNormalization(x·c), BatchNormalization(x)·c; the same with /, + and −
    after    BatchNormalization(x) with scale·c, or with an offset that includes the addend
    refuses  training mode; statistics for each activation instead of each channel (spatial = 0,
             below opset 9); a constant that has neither one number nor one number for each channel;
             a constant that may determine the number of channels of the result; an unknown rank; a
             factor or an addend that is not finite; a scale that a narrow type cannot hold; the
             factor ½ of a written-out Gelu, because runtimes recognize Gelu by this factor
    never    a BatchNormalization without a constant next to it: a Mul and an Add in its place would
             read and write memory once more
    algebra  bn(x) = a·x + d for each channel, and a composition of such functions has the same form
    source   CANN's BatchNorm passes, which turn a BatchNormalization into a scale for its
             neighbours
    """

    numerics = "rounding"
    aliases = ("HostBNFusionPass", "BatchNormBnInferFusionPass", "SingleBatchNormFusion")
    patterns = (
        *(
            Pattern(f"{name}Batchnorm", batchnorm_of(op[name](x, c, _as="step")), _fold_earlier)
            for name in ("Mul", "Div", "Add", "Sub")
        ),
        *(
            Pattern(f"Batchnorm{name}", op[name](batchnorm_of(x), c, _as="step"), _fold_later)
            for name in ("Mul", "Div", "Add", "Sub")
        ),
    )
