from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, refuse, var
from fusionc.rewrite.pattern import ms

_INTEGERS = (np.int8, np.uint8, np.int16, np.uint16)
_LARGEST = 2.0**100  # of a scale: its products with integers of 16 bits are finite
_FLOAT = (None, TensorProto.UNDEFINED, TensorProto.FLOAT)


def _pattern(name: str, operators: Any) -> Pattern:
    scale, zero = const("scale"), const("zero")
    inner = keep(operators.DequantizeLinear(var("x"), scale, zero, _as="inner"))
    return Pattern(name, operators.QuantizeLinear(inner, scale, zero, _as="outer"))


class RequantizeRemovePass(Pass):
    """What is dequantized and quantized again in the same way stays quantized.

    before   QuantizeLinear(DequantizeLinear(q, s, z), s, z)
    after    q
    refuses  other elements than integers of 8 or 16 bits, and scales other than float32, or so small or large that
             products may be subnormal or infinite; another axis or block
    never    a scale or zero point that is no constant
    algebra  (q − z)·s is rounded by one part in 2²⁴ at most, and so is its quotient by s: less than ½ from q − z
    source   onnxruntime's DoubleQDQPairsRemover
    """

    patterns = (_pattern("Requantize", op), _pattern("RequantizeMicrosoft", ms))

    def rewrite(self, m: Match, new: Tape) -> Result:
        scale, zero = m.scale.constant(), m.zero.constant()
        if zero.dtype not in _INTEGERS or scale.dtype != np.float32:
            refuse("not integers of 8 or 16 bits with a float32 scale")
        if m.inner.attr("output_dtype") not in _FLOAT or m.outer.attr("precision") not in _FLOAT:
            refuse("less precise numbers in between")
        if any(m.inner.attr(name) != m.outer.attr(name) for name in ("axis", "block_size")):
            refuse("the axis or the block is another one")
        if not ((abs(scale) >= np.finfo(np.float32).tiny) & (abs(scale) <= _LARGEST)).all():
            refuse("the scale is not in the middle of the range of its type")
        return m.x
