import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.reduce_axes import trailing_axis
from fusionc.passes._shared.skip_norms import SUM, gamma, rms_norm
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.written_norms import root_mean_square
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    either,
    keep,
    op,
    refuse,
    rest,
    var,
)
from fusionc.rewrite.pattern import Formula

# what QuantizeLinear makes of NaN, and of nothing else: the largest element of a row becomes ±127
_NONE = -128
_HALF_NORM = either(
    op.Cast(rms_norm(op.Cast(SUM, to=TensorProto.FLOAT))),
    op.Cast(root_mean_square(op.Cast(SUM))) * gamma,
)
_NORM = either(rms_norm(SUM), _HALF_NORM)
_SMOOTH = either(_NORM, _NORM * var("smooth"))
_FLAT = op["Reshape", "Flatten"](_SMOOTH, rest("shape"))


def _at_least(value: Formula) -> Formula:
    return either(op.Max(value, const("least")), op.Clip(value, const("least"), _as="clip"), value)


def _part(value: Formula) -> Formula:
    return either(op.Div(value, 127.0, _as="part"), op.Mul(value, 1 / 127, _as="part"))


def _quantization(x: Formula) -> Formula:
    largest = op.ReduceMax(op.Abs(x), rest("reduced"), _as="largest")
    scale = either(_at_least(_part(largest)), _part(_at_least(largest)))
    rounded = op.Round(op.Div(x, keep(scale), _as="quotient"))
    return op.Cast(
        either(op.Clip(rounded, const("low"), const("high")), rounded), to=TensorProto.INT8
    )


class AddRmsNormDynamicQuantFusionPass(UBFusionPass):
    """The quantization of each row by its largest element becomes QuantizeLinear.

    before   s = ReduceMax(Abs(x)) / 127 over the last axis; Cast(Round(x / s)) to int8; also with a
             Clip to the numbers of int8, and with s kept from zero. x is TorchAir's root mean
             square normalization of a sum, also scaled, flattened or cast to float32 in between, or
             anything else
    after    q = QuantizeLinear(x, s): of blocks as long as the last axis where all dimensions are
             known (onnxruntime wants at least one block), else of the rows, which become one axis
             for it; then Where(q = −128, 0, q)
    refuses  opset below 14; a last axis of unknown length; rank 1; elements other than float32;
             other bounds; a least s that is not one number; other targets
    never    the sum and its normalization: AddRmsNormFusionPass joins these
    algebra  the definition of QuantizeLinear, which divides and rounds as the parts do, bit by bit;
             |x / s| ≤ 127, so that −128 stands for NaN alone, as in rows of zeros, for which Cast
             makes 0. Rows without an element of at least 2.3e-41 are not the same: there s has no
             precision, and Cast leaves the range of int8, which ONNX does not define; nor, where
             Clip keeps s from zero, rows with an infinity beside a number above 1e36: Clip cuts s
             off, and Max, which is used instead, does not
    source   TorchAir's npu_add_rms_norm_dynamic_quant; measured: it takes 0.85 to 1.0 of the time
             where all dimensions are known, else 0.92, and 1.1 for a single row
    """

    numerics = "rounding"
    aliases = (
        "npu_add_rms_norm_dynamic_quant",
        "npu_add_rms_norm_cast",
        "MultiAddRmsNormDynamicQuantFusionPass",
    )
    is_pattern_fusion = True
    patterns = (
        Pattern("AddRmsNormDynamicQuant", _quantization(keep(_SMOOTH))),
        Pattern("AddRmsNormFlattenDynamicQuant", _quantization(keep(_FLAT))),
        Pattern(
            "AddRmsNormCastDynamicQuant",
            _quantization(keep(op.Cast(either(_SMOOTH, _FLAT), to=TensorProto.FLOAT))),
        ),
        Pattern("DynamicQuant", _quantization(var("x"))),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        x = m.quotient.inputs[0]
        scale = _scale(m, new)
        if m.largest.inputs[0].producer.inputs[0] is not x:
            refuse("the scale is that of another value")
        if m.opset < 14:
            refuse("opset below 14: no shape with zeros for Reshape", opset=14)
        if x.elem_type != TensorProto.FLOAT:
            refuse("the elements are not float32")
        if x.rank is None or x.rank < 2:
            refuse("the rank is unknown or less than 2")
        if trailing_axis(m.largest, x) != x.rank - 1:
            refuse("more than the last axis is reduced")
        size = x.shape[-1]
        if not isinstance(size, int) or size < 1:
            refuse("the length of the last axis is unknown")
        if m.low is not None and not (_number(m.low) <= -127 and _number(m.high) >= 127):
            refuse("the result is clipped to less than int8 holds")
        if m.opset >= 21 and all(isinstance(d, int) and d > 0 for d in x.shape):
            return _without_nan(
                new,
                new.QuantizeLinear(
                    x, scale, axis=-1, block_size=size, output_dtype=TensorProto.INT8
                ),
            )
        scales = new.Reshape(scale, new.const(np.array([-1], np.int64)))
        rows = x if x.rank == 2 else new.Reshape(x, new.const(np.array([-1, size], np.int64)))
        numbers = _without_nan(new, _quantized(new, rows, scales))
        return numbers if x.rank == 2 else new.Reshape(numbers, new.Shape(x), allowzero=1)


def _scale(m: Match, new: Tape) -> Edge:
    """What x is divided by; of an infinite row infinite, too, so that nothing but NaN leaves the
    range.
    """
    scale: Edge = m.quotient.inputs[1]
    if scale.rank != m.largest.outputs[0].rank or (
        m.least is not None and array_of(m.least).size != 1
    ):
        refuse("the scale has another shape than the largest elements")
    if m.clip is None:
        return scale
    kept = new.Max(m.clip.inputs[0], m.least)
    if m.clip.outputs[0] is scale:
        return kept
    return new.node(
        m.part.op, [kept if value is m.clip.outputs[0] else value for value in m.part.inputs]
    )


def _quantized(new: Tape, rows: Edge, scales: Edge) -> Edge:
    if new.graph.opset >= 21:
        return new.QuantizeLinear(rows, scales, axis=0, output_dtype=TensorProto.INT8)
    zero = TensorProto(data_type=TensorProto.INT8, dims=[1], raw_data=b"\0")
    return new.QuantizeLinear(
        rows, scales, new.ConstantOfShape(new.Shape(scales), value=zero), axis=0
    )


def _without_nan(new: Tape, numbers: Edge) -> Edge:
    return new.Where(
        new.Equal(numbers, new.const(np.array(_NONE, np.int8))),
        new.const(np.array(0, np.int8)),
        numbers,
    )


def _number(bound: Edge) -> float:
    array = array_of(bound)
    return float(array.item()) if array.size == 1 else refuse("a bound is not one number")
