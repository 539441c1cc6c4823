from __future__ import annotations

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import SHARED, array_of, dims_of, would_double
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, refuse


class TransposedDequantizedWeightsPass(Pass):
    """Constant weights that are dequantized and transposed are stored transposed.

    before   Transpose(DequantizeLinear(W, s, z)) with constant W
    after    DequantizeLinear(Wᵀ, s, z), its axis turned; with blocks, s and z are transposed, too
    refuses  large weights that are used elsewhere; element types that numpy cannot transpose
    never    scales and zero points that are not constants
    algebra  each element keeps its scale and zero point
    source   torch's Linear, quantized in the manner of TensorRT or torch's pt2e: a product with
             weights that are plain dequantized constants runs in integers
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
        if would_double(m.W, array_of(m.W).size):
            refuse(SHARED)

        def moved(value: Edge | None) -> Edge | None:
            """A tensor with the axes of the weights, transposed; another one as it is."""
            if value is None or len(dims_of(value)) != rank or rank < 2:
                return value
            return new.const(np.ascontiguousarray(array_of(value).transpose(order)), like=value)

        axis = m.dequantize.attr("axis", 1)
        turned = {"axis": order.index(axis % rank)} if any(n > 1 for n in dims_of(m.s)) else {}
        return new.DequantizeLinear(moved(m.W), moved(m.s), moved(m.z), like=m.dequantize, **turned)
