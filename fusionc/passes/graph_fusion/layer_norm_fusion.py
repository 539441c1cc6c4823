import math

import numpy as np
from onnx import TensorProto

from fusionc.model.types import same_shape
from fusionc.passes.reduction import trailing_axis
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, rest, var

x, scale, offset, epsilon = var("x"), var("scale"), var("offset"), const("epsilon")


def _centred(name: str):  # type: ignore[no-untyped-def]
    """x − mean(x): exporters write it once, or once for each of its uses."""
    return op.Sub(x, op.ReduceMean(x, rest(f"{name}_axes"), _as=name))


_square = _centred("mean_of_square")
_variance = op.ReduceMean(either(_square**2.0, _square * _square), rest("variance_axes"), _as="variance")
_deviation = op.Sqrt(_variance + epsilon)
_NORMAL = either(_centred("mean") / _deviation, _centred("mean") * op.Reciprocal(_deviation))


class LayerNormFusionPass(Pass):
    """Layer normalization that is written out becomes LayerNormalization.

    before   (x − mean(x)) / √(mean((x − mean(x))²) + epsilon) · scale + offset; also · Reciprocal(√…), the square as
             Pow or Mul, x − mean(x) once or twice, without the offset, without both
    after    LayerNormalization(x, scale, offset?)
    refuses  opset below 17; other axes than the last ones; elements other than float32 and float16 (the operator
             computes in float32); a scale or an offset that has another shape than what is normalized
    algebra  the definition of LayerNormalization
    source   CANN's LayerNormFusionPass; onnxruntime makes the same node at load, but not of every form
    """

    numerics = "rounding"
    patterns = (
        Pattern("LayerNorm", _NORMAL * scale + offset),
        Pattern("LayerNormWithoutOffset", _NORMAL * scale),
        Pattern("LayerNormPlain", _NORMAL),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.x.elem_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
            refuse("the elements are neither float32 nor float16")
        axes = {trailing_axis(node, m.x) for node in (m.mean, m.mean_of_square, m.variance)}
        if len(axes) > 1:
            refuse("not the same axes are reduced")
        (axis,) = axes
        normalized = m.x.shape[axis:]
        factor, addend = m.captures.get("scale"), m.captures.get("offset")
        for value in (factor, addend):
            if value is not None and not same_shape(value.shape, normalized):
                refuse("scale or offset has another shape than what is normalized")
        if factor is None:
            if not all(isinstance(d, int) for d in normalized) or math.prod(normalized) > 1 << 16:
                refuse("the size of what is normalized is unknown")
            factor = new.const(np.ones(normalized), dtype=m.x.dtype)
        eps = m.epsilon.constant()
        if eps.size != 1:
            refuse("epsilon is not one number")
        return new.LayerNormalization(m.x, factor, addend, axis=axis - m.x.rank, epsilon=float(eps.item()))
