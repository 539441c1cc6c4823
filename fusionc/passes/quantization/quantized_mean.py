from __future__ import annotations

from fractions import Fraction

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

_LARGEST_DENOMINATOR = 64
_RELATIVE_ERROR = 3e-7  # the error of a quotient of two float32 numbers is at most 1.2e-7


class QuantizedMeanPass(UBFusionPass):
    """A mean over the pixels of quantized data becomes a GlobalAveragePool, which onnxruntime
    computes in integers.

    before   QuantizeLinear(ReduceMean(DequantizeLinear(q, s)), t) over all axes from 2 on
    after    QuantizeLinear(GlobalAveragePool(DequantizeLinear(q, s)), t), with a Flatten if the
             mean drops its axes
    refuses  other or unknown axes; more than one scale s or t; scales s and t whose quotient is a
             fraction of small integers, because many means are then exactly halfway between two
             integers, and any rounding error changes the result; types other than 8-bit integers;
             targets other than onnxruntime
    never    a mean that other operators read; scales that are not constants
    algebra  ReduceMean and GlobalAveragePool both compute Σx/n
    source   squeeze-and-excite of a quantized EfficientNet: onnxruntime has the operator
             QLinearGlobalAveragePool, but none for means in integers. The model takes 0.8 of the
             time
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
            refuse("the mean is not over all axes after the channels")
        if any(np.prod(dims_of(scale)) != 1 for scale in (m.s, m.t)):
            refuse("the quantizations have more than one scale")
        if _is_simple_quotient(m.s.constant().item(), m.t.constant().item()):
            refuse("the quotient of the scales is simple, so many means lie between two steps")
        if m.q.elem_type not in OPPOSITE or m.quantize.outputs[0].elem_type != m.q.elem_type:
            refuse("the integers before and after the mean do not have the same 8-bit type")
        pooled = new.GlobalAveragePool(image)
        if not m.mean.attr("keepdims"):
            pooled = new.Flatten(pooled)
        return new.QuantizeLinear(pooled, m.t, m.w, like=m.quantize)


def _is_simple_quotient(scale: float, divisor: float) -> bool:
    """Whether scale / divisor equals a fraction with a small denominator within the rounding of
    float32. Also true if one of the two is not a positive finite number.
    """
    if not (0 < scale < np.inf and 0 < divisor < np.inf):
        return True
    quotient = scale / divisor
    nearest = float(Fraction(quotient).limit_denominator(_LARGEST_DENOMINATOR))
    return abs(nearest - quotient) <= _RELATIVE_ERROR * quotient
