from __future__ import annotations

import numpy as np

from fusionc.operators.signedness import OPPOSITE
from fusionc.passes._shared.constants import dims_of
from fusionc.passes._shared.reduce_axes import known_axes
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    keep,
    maybe,
    op,
    refuse,
    rest,
    var,
)


class QuantizedMeanPass(UBFusionPass):
    """A mean over pixels between integers becomes a GlobalAveragePool, which runs in integers.

    before   QuantizeLinear(ReduceMean(DequantizeLinear(q)), …) over all axes from 2 on
    after    QuantizeLinear(GlobalAveragePool(DequantizeLinear(q)), …), with a Flatten where the
             axes are dropped
    refuses  other axes, or unknown ones; more than one scale; types other than 8 bits; other
             targets
    never    a mean that others read; scales that are not constants
    algebra  both are Σx/n
    source   squeeze-and-excite of a quantized EfficientNet: onnxruntime has
             QLinearGlobalAveragePool, and no mean in integers. The model takes 0.8 of the time
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "QuantizedMean",
            op.QuantizeLinear(
                op.ReduceMean(
                    keep(op.DequantizeLinear(var("q"), const("s"), maybe(const("z")))),
                    rest("options"),
                    _as="mean",
                ),
                const("t"),
                maybe(const("w")),
                _as="quantize",
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        image = m.mean.inputs[0]
        rank = image.require_rank()
        if rank < 3 or known_axes(m.mean, rank) != list(range(2, rank)):
            refuse("the mean is not over all axes from 2 on")
        if any(np.prod(dims_of(scale)) != 1 for scale in (m.s, m.t)):
            refuse("more than one scale")
        if m.q.elem_type not in OPPOSITE or m.quantize.outputs[0].elem_type != m.q.elem_type:
            refuse("the integers are not of one type of 8 bits")
        pooled = new.GlobalAveragePool(image)
        if not m.mean.attr("keepdims"):
            pooled = new.Flatten(pooled)
        return new.QuantizeLinear(pooled, m.t, m.w, like=m.quantize)
