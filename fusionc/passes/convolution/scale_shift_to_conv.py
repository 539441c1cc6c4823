import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.model.tensors import Array
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.elementwise_operators import BROADCASTING
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.convolution._blocked_layout import is_blocked, is_for_blocks
from fusionc.passes.convolution._channels import per_channel
from fusionc.passes.convolution._windows import window_of
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, const, var

_BLOCK = 16  # channels of a block with AVX-512; a block has 8 on other processors

x = var("x")
s = const("s")
b = const("b")


def _is_between_blocks(m: Match) -> bool:
    """Whether onnxruntime stores x in its blocked layout, and reads the result in this layout."""
    shape = m.x.shape
    if shape is None or len(shape) != 4 or m.x.elem_type != TensorProto.FLOAT:
        return False
    channels = shape[1]
    if not isinstance(channels, int) or channels % _BLOCK or not is_blocked(m.x):
        return False
    (result,) = m.outputs
    return is_for_blocks(result) and not _is_absorbed_by_conv(m, result)


def _is_absorbed_by_conv(m: Match, result: Edge) -> bool:
    """Whether the only user of the result is a Conv that can absorb the constants. Every Conv can
    absorb a factor; only a Conv without padding can absorb an addend, too.
    """
    user = result.outputs[0]
    if result.is_output or result.use_count != 1 or not user.is_op("Conv"):
        return False
    return m.b is None or window_of(user, 2).is_unpadded


def _numbers(m: Match, name: str) -> Array:
    return per_channel(array_of(getattr(m, name)), m.x.shape[1], 4)


def _conv(m: Match, new: Tape, factor: Array, addend: Array | None) -> Result:
    require_onnxruntime(m)
    m.require_opset(BROADCASTING, "operators may align their operands in another way")
    weights = new.const(factor.reshape(-1, 1, 1, 1), dtype=np.float32)
    bias = None if addend is None else new.const(addend, dtype=np.float32)
    return new.Conv(m.x, weights, bias, group=factor.size, kernel_shape=[1, 1])


def _scale_and_shift(m: Match, new: Tape) -> Result:
    return _conv(m, new, _numbers(m, "s"), _numbers(m, "b"))


def _shift_and_scale(m: Match, new: Tape) -> Result:
    factor = _numbers(m, "s")
    return _conv(m, new, factor, _numbers(m, "b") * factor)


def _scale(m: Match, new: Tape) -> Result:
    return _conv(m, new, _numbers(m, "s"), None)


def _shift(m: Match, new: Tape) -> Result:
    addend = _numbers(m, "b")
    return _conv(m, new, np.ones_like(addend), addend)


class ScaleShiftToConvPass(UBFusionPass):
    """A factor and an addend per channel become a depthwise Conv, unless a Conv next to them can
    absorb them.

    before   x·s + b, (x + b)·s, x·s, x + b, where x comes from a Conv and its activation, and a
             Conv or a pool reads the result
    after    Conv(x, s, b) with as many groups as channels and a kernel of size 1
    refuses  constants that have neither one number nor one number for each channel; opset below 8
    never    constants that the next Conv absorbs into its weights and bias (AConv2dMulFusion);
             channels that are not a multiple of 16; an x that is not in onnxruntime's blocked
             layout; a result that no operator reads in this layout; elements other than float32
    algebra  the definition of a depthwise Conv: each channel times its only weight, plus its bias
    source   measured: onnxruntime leaves its blocked layout for Mul and Add with constants, but not
             for a Conv. The blocks of PP-OCRv4 (Conv, HardSwish, Mul, Add, Conv) take 0.88 to 0.96
             of the time. At onnxruntime's optimization levels up to `extended`, which do not use
             this layout, the blocks take 0.95 to 1.03 of the time, and 1.2 for images of 7 × 7
    """

    numerics = "rounding"
    patterns = (
        Pattern("ScaleShift", x * s + b, _scale_and_shift, where=_is_between_blocks),
        Pattern("ShiftScale", (x + b) * s, _shift_and_scale, where=_is_between_blocks),
        Pattern("Scale", x * s, _scale, where=_is_between_blocks),
        Pattern("Shift", x + b, _shift, where=_is_between_blocks),
    )
