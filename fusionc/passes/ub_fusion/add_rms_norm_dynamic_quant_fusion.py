import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes.reduction import trailing_axis
from fusionc.passes.target import require_onnxruntime
from fusionc.passes.weights import array_of
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, const, either, keep, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula

x = var("x")


def _at_least(value: Formula) -> Formula:
    return either(op.Max(value, const("least")), op.Clip(value, const("least")), value)


def _part(value: Formula) -> Formula:
    return either(value / 127.0, value * (1 / 127))


_LARGEST = op.ReduceMax(op.Abs(x), rest("axes"), _as="largest")
_SCALE = either(_at_least(_part(_LARGEST)), _part(_at_least(_LARGEST)))
_ROUNDED = op.Round(op.Div(x, keep(_SCALE), _as="quotient"))
_NUMBERS = either(op.Clip(_ROUNDED, const("low"), const("high")), _ROUNDED)


class AddRmsNormDynamicQuantFusionPass(UBFusionPass):
    """The quantization of each row by its largest element becomes QuantizeLinear.

    before   s = ReduceMax(Abs(x)) / 127 over the last axis; Cast(Round(x / s)) to int8; also with a Clip to the numbers
             of int8, and with s kept from zero. What TorchAir fuses is this behind a sum and its normalization, also
             scaled, flattened or cast in between: AddRmsNormFusionPass does these
    after    QuantizeLinear(x, s): of blocks as long as the last axis where all dimensions are known (onnxruntime wants
             at least one block), else of the rows, which become one axis for it
    refuses  opset below 21, in which the result takes its type from zero points, one for each row; a last axis of
             unknown length; rank 1; elements other than float32; other bounds; other targets
    never    by default: of NaN, and of rows of zeros without a least s, Cast makes any number, and QuantizeLinear may
             make another one
    algebra  the definition of QuantizeLinear; |x / s| ≤ 127, so that nothing is cut off
    source   TorchAir's npu_add_rms_norm_dynamic_quant
    """

    aliases = ("npu_add_rms_norm_dynamic_quant",)
    default = "off"
    patterns = (Pattern("DynamicQuant", op.Cast(_NUMBERS, to=TensorProto.INT8)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        if m.opset < 21:
            refuse("opset below 21: QuantizeLinear wants a zero point for each row")
        if m.x.elem_type != TensorProto.FLOAT:
            refuse("the elements are not float32")
        if m.x.rank is None or m.x.rank < 2:
            refuse("the rank is unknown or less than 2")
        if trailing_axis(m.largest, m.x) != m.x.rank - 1:
            refuse("more than the last axis is reduced")
        size = m.x.shape[-1]
        if not isinstance(size, int) or size < 1:
            refuse("the length of the last axis is unknown")
        if m.low is not None and not (_number(m.low) <= -127 and _number(m.high) >= 127):
            refuse("the result is clipped to less than int8 holds")
        scale = m.quotient.inputs[1]
        if scale.rank != m.x.rank:
            refuse("the scale has another rank")
        if all(isinstance(d, int) and d > 0 for d in m.x.shape):
            return new.QuantizeLinear(m.x, scale, axis=-1, block_size=size, output_dtype=TensorProto.INT8)
        flat = new.const(np.array([-1], np.int64))
        scales = new.Reshape(scale, flat)
        if m.x.rank == 2:
            return new.QuantizeLinear(m.x, scales, axis=0, output_dtype=TensorProto.INT8)
        rows = new.Reshape(m.x, new.const(np.array([-1, size], np.int64)))
        numbers = new.QuantizeLinear(rows, scales, axis=0, output_dtype=TensorProto.INT8)
        return new.Reshape(numbers, new.Shape(m.x), allowzero=1)


def _number(bound: Edge) -> float:
    return float(array_of(bound).item())
