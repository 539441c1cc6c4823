from __future__ import annotations

import math

import numpy as np

from fusionc.passes._shared.constants import SHARED, array_of, dims_of, would_double
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, refuse

# onnxruntime itself transposes weights of these types, except if they are quantized in blocks
_PLAIN = (np.int8, np.uint8)


class TransposedDequantizedWeightsPass(Pass):
    """Constant weights that are dequantized and transposed are stored transposed.

    before   Transpose(DequantizeLinear(W, s, z)) with constant W
    after    DequantizeLinear(Wᵀ, s, z), whose attribute axis is transposed, too
    refuses  large weights that are used elsewhere; weights that are quantized in blocks or are not
             8-bit integers, and weights of a product whose other operand is not dequantized,
             because onnxruntime would turn the product into MatMulNBits, which rounds the other
             operand
    never    scales and zero points that are not constants
    algebra  each element keeps its scale and zero point
    source   torch's Linear, quantized in the manner of TensorRT or torch's pt2e. If the weights of
             a product are dequantized constants without a Transpose, onnxruntime computes it in
             integers
    """

    patterns = (
        Pattern(
            "TransposedDequantizedWeights",
            op.Transpose(
                op.DequantizeLinear(const("W"), const("s"), maybe(const("z")), _as="dequantize"),
                _as="transpose",
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        rank = len(dims_of(m.W))
        order = tuple(m.transpose.attr("perm") or reversed(range(rank)))
        dtype = array_of(m.W).dtype
        if len(dims_of(m.s)) > 1 or dtype not in _PLAIN:
            refuse("onnxruntime would round the other operand to integers (MatMulNBits)")
        if would_double(m.W, array_of(m.W).size):
            refuse(SHARED)
        turned = {}
        if math.prod(dims_of(m.s)) > 1:
            turned["axis"] = order.index(m.dequantize.attr("axis", 1) % rank)
        weights = new.const(np.ascontiguousarray(array_of(m.W).transpose(order)), like=m.W)
        return new.DequantizeLinear(weights, m.s, m.z, like=m.dequantize, **turned)
