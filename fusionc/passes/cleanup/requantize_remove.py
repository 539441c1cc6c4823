from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, refuse, rest, var
from fusionc.rewrite.pattern import ms

_INTEGERS = (np.int8, np.uint8, np.int16, np.uint16)
_LARGEST = 2.0**100  # of a scale: its products with integers of 16 bits are finite
_FLOAT = (None, TensorProto.UNDEFINED, TensorProto.FLOAT)


def _patterns(name: str, operators: Any) -> tuple[Pattern, Pattern]:
    scale, zero = const("scale"), const("zero")
    same = keep(operators.DequantizeLinear(var("x"), scale, zero, _as="inner"))
    weights = keep(operators.DequantizeLinear(const("x"), scale, zero, _as="inner"))
    moved = keep(op["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"](weights, rest("options"), _as="move"))
    return (
        Pattern(f"Requantize{name}", operators.QuantizeLinear(same, scale, zero, _as="outer"), _same),
        Pattern(f"RequantizeConstant{name}", operators.QuantizeLinear(moved, scale, zero, _as="outer"), _moved),
    )


def _same(m: Match, new: Tape) -> Result:
    _check(m)
    if m.inner.attr("axis") != m.outer.attr("axis") or m.inner.attr("block_size") != m.outer.attr("block_size"):
        refuse("the axis or the block is another one")
    return m.x


def _moved(m: Match, new: Tape) -> Result:
    _check(m)
    if m.scale.constant().size != 1:
        refuse("more than one scale")
    return new.node(m.move.op, [m.x, *m.options], like=m.move)


def _check(m: Match) -> None:
    """Refuses where an integer may be another one afterwards."""
    scale, zero = m.scale.constant(), m.zero.constant()
    if zero.dtype not in _INTEGERS or scale.dtype != np.float32:
        refuse("not integers of 8 or 16 bits with a float32 scale")
    if m.inner.attr("output_dtype") not in _FLOAT or m.outer.attr("precision") not in _FLOAT:
        refuse("less precise numbers in between")
    if not ((abs(scale) >= np.finfo(np.float32).tiny) & (abs(scale) <= _LARGEST)).all():
        refuse("the scale is not in the middle of the range of its type")


class RequantizeRemovePass(Pass):
    """What is dequantized and quantized again in the same way stays quantized.

    before   QuantizeLinear(DequantizeLinear(q, s, z), s, z); QuantizeLinear(f(DequantizeLinear(W, s, z)), s, z) of a
             constant W, f being Reshape, Transpose, Squeeze, Unsqueeze or Flatten
    after    q; f(W), which is folded
    refuses  other elements than integers of 8 or 16 bits, and scales other than float32, or so small or large that
             products may be subnormal or infinite; another axis or block; more than one scale where elements move
    never    a scale or zero point that is no constant
    algebra  (q − z)·s is rounded by one part in 2²⁴ at most, and so is its quotient by s: less than ½ from q − z
    source   onnxruntime's DoubleQDQPairsRemover and its folding of constants in quantized form
    """

    patterns = (*_patterns("", op), *_patterns("Microsoft", ms))
