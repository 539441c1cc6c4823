from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from fusionc.passes._shared.constants import array_of, dims_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    maybe,
    op,
    refuse,
    var,
)

_LARGEST = 255  # difference of an integer of 8 bits and a zero point
_EXACT = 1 << 24  # integers up to this size are float32 numbers
_BYTES = (TensorProto.UINT8, TensorProto.INT8)


class GroupedConvIntegerPass(UBFusionPass):
    """A ConvInteger with groups becomes a Conv, whose sums of integers are exact.

    before   Cast(ConvInteger(q, W, z, w) with group > 1, to = float)
    after    Conv(DequantizeLinear(q, 1, z), W − w)
    refuses  one group; sums of so many products that they may not fit into the 24 bits of float32;
             weights that are not constant; more than one zero point; other targets
    algebra  Σ (q − z)·(W − w) with K products is an integer of at most K·255², in any order;
             padding is q = z in both
    source   onnxruntime's quantize_dynamic; it computes groups of ConvInteger one after the other:
             a depthwise convolution of 144 channels takes 0.3 of the time as Conv
    """

    patterns = (
        Pattern(
            "GroupedConvInteger",
            op.Cast(
                op.ConvInteger(
                    var("q"), const("W"), maybe(var("z")), maybe(const("w")), _as="conv"
                ),
                to=TensorProto.FLOAT,
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        if m.conv.attr("group", 1) == 1:
            refuse("the convolution has one group")
        if m.q.elem_type not in _BYTES:
            refuse("the element type is unknown")
        if math.prod(dims_of(m.W)[1:]) * _LARGEST**2 >= _EXACT:
            refuse("the sum may need more than 24 bits")
        if m.z is not None and m.z.shape != ():
            refuse("not one zero point")
        zero = np.zeros((), np.int32) if m.w is None else array_of(m.w).astype(np.int32)
        if zero.size != 1:
            refuse("not one zero point")
        weights = (array_of(m.W).astype(np.int32) - zero.reshape(())).astype(np.float32)
        one = new.const(np.asarray(1, np.float32))
        data = new.DequantizeLinear(m.q, one, m.z)
        return new.Conv(data, new.const(weights), like=m.conv)
